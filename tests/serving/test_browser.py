"""The site in a real browser, with scripts turned off: a visit by mouse and keyboard."""

import pytest

from agentgym.evaluation.verify.verification import verify_run
from tests.serving.browser import Browser

pytestmark = pytest.mark.browser

PHONE = (390, 844)


@pytest.fixture
def browser(tmp_path):
    opened = Browser(tmp_path / "profile")
    yield opened
    opened.close()


def texts(browser):
    """The texts of the nodes, as the browser has them in its tree."""
    found = "Array.from(document.querySelectorAll('[data-node]')).map(node => node.textContent.trim())"
    return browser.value(found)


def fits(browser):
    """Whether nothing is wider than the window, and everything to tap is large enough."""
    wide = browser.value("document.documentElement.scrollWidth > window.innerWidth")
    low = browser.value(
        "Array.from(document.querySelectorAll('.bar button, .choice button, input:not([type=hidden])'))"
        ".filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 40).length"
    )
    return not wide and low == 0


def test_a_visit(serve, browser, tmp_path):
    said = []
    site, server = serve(record=tmp_path / "recordings", say=said.append)
    browser.open(server.url)
    (visitor,) = site._visitors.values()

    def check():
        sitting = visitor.session
        assert " [SEP] ".join(texts(browser)) == sitting.observation
        for size in (PHONE, (1200, 800)):
            browser.resize(*size)
            assert fits(browser)

    check()
    browser.type("input[name=query]", visitor.session.info["goal"])
    browser.enter()
    check()
    assert visitor.session.env.visit.page == "results"
    browser.click(".hit:nth-child(2) [data-node=title]")  # all of a hit can be clicked
    check()
    browser.click("fieldset:last-of-type button:last-of-type")
    assert browser.value("document.querySelectorAll('[aria-pressed=true]').length") == 1
    check()
    for number in (1, 2, 3):
        browser.click(f".product ~ .bar button:nth-of-type({number})")
        assert visitor.session.env.visit.page == ("description", "features", "reviews")[number - 1]
        check()
        browser.click(".bar button:last-of-type")
    browser.click("button.buy")
    check()
    assert visitor.session.over
    assert browser.value("document.querySelector('.outcome h2').textContent").startswith("Score ")
    (run,) = (tmp_path / "recordings").glob("webshop-*/human")
    assert verify_run(run).ok
    assert len(said) == 1
    browser.click(".outcome button")
    check()
    assert visitor.session.steps == []


def test_the_back_button_leads_to_the_page_that_is_open(serve, browser):
    site, server = serve()
    browser.open(server.url)
    (visitor,) = site._visitors.values()
    browser.type("input[name=query]", "shoe")
    browser.enter()
    browser.click(".hit button")
    browser.back()
    assert texts(browser) == visitor.session.observation.split(" [SEP] ")
    assert len(visitor.session.steps) == 2


def test_style_is_applied_and_scripts_are_not_needed(serve, browser):
    _, server = serve()
    browser.open(server.url)
    assert browser.value("getComputedStyle(document.body).margin") == "0px"
    assert browser.value("document.scripts.length") == 0
    assert browser.value("document.images.length") == 0
