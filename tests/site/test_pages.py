"""Every page in a real browser: from a disk and over HTTP, by keyboard, narrow and wide, light and dark."""

import pytest

pytestmark = pytest.mark.browser

SIZES = ((360, 760), (1600, 1000))
KINDS = ("index.html", "board-1.html", "run-", "papers.html", "environments.html", "env-", "training.html")
"""A page of each kind; the viewer's has tests of its own."""


def pages_of(site):
    """Return one page of each kind."""
    names = sorted(path.name for path in site.folder.glob("*.html"))
    return [next(name for name in names if name.startswith(kind)) for kind in KINDS]


@pytest.mark.parametrize("over", ["file", "http"])
def test_no_errors_and_nothing_from_elsewhere(made_site, served, visitor, over):
    base = made_site.url if over == "file" else served(made_site.folder)
    visitor.events.clear()
    pages = sorted(path.name for path in made_site.folder.glob("*.html"))
    for page in pages:
        visitor.look(base + page)
        assert visitor.value("typeof agentgym") == "object"
        assert visitor.value("document.querySelectorAll('h1').length") == 1
    assert visitor.errors == []
    assert visitor.elsewhere(base) == []
    assert len(visitor.requests()) >= 3 * len(pages)


def test_nothing_is_wider_than_the_window_and_nothing_is_stored(made_site, visitor):
    for page in pages_of(made_site):
        visitor.look(made_site.url + page)
        for size in SIZES:
            visitor.resize(*size)
            wide = visitor.value("document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, (page, size)
        # tables may scroll inside, where the keyboard can scroll them too
        tables = "[...document.querySelectorAll('main table:not(.u-legend)')]"
        assert visitor.value(f"{tables}.filter(t => !t.closest('.scroll[tabindex=\"0\"]')).length") == 0
        assert visitor.value("document.cookie") == ""
        assert visitor.value("localStorage.length + sessionStorage.length") == 0
    visitor.resize(900, 900)


def test_the_keyboard_alone_reaches_everything(made_site, visitor):
    reachable = (
        "[...document.querySelectorAll('a[href], button, select, input, summary, [tabindex=\"0\"]')]"
        ".filter(e => e.checkVisibility() && !e.disabled)"
    )
    for page in ("index.html", "board-1.html"):
        visitor.look(made_site.url + page)
        visitor.value(f"window.waiting = new Set({reachable}); 0")
        count = visitor.value("waiting.size")
        for _ in range(count + 2):
            visitor.press("Tab")
            visitor.value("waiting.delete(document.activeElement); 0")
        assert visitor.value("[...waiting].map(e => e.outerHTML.slice(0, 80))") == []
    visitor.value("document.querySelectorAll('#rows ~ *').length")
    visitor.value("document.querySelector('table[data-sorts] button.sort').focus()")
    before = visitor.value("[...document.querySelectorAll('#rows th')].map(e => e.textContent.trim())")
    visitor.press("Enter")
    visitor.press("Enter")
    head = "document.querySelector('table[data-sorts] thead th').getAttribute('aria-sort')"
    assert visitor.value(head) == "ascending"
    after = visitor.value("[...document.querySelectorAll('#rows th')].map(e => e.textContent.trim())")
    assert sorted(after) == sorted(before)


def test_rows_are_sorted_and_filtered(made_site, visitor):
    visitor.look(made_site.url + "board-1.html")
    rows = "[...document.querySelectorAll('#rows tr')].filter(r => !r.hidden)"
    names = f"{rows}.map(r => r.cells[1].textContent.trim())"
    assert visitor.value(names) == ["oracle", "rules", "random"]
    visitor.value("document.querySelectorAll('table[data-sorts] button.sort')[2].click()")
    assert visitor.value(names)[-1] == "random"
    visitor.value("document.querySelectorAll('table[data-sorts] button.sort')[2].click()")
    assert visitor.value(names)[0] == "random"
    # all badges are the same here, so there is nothing to filter by and no form
    assert visitor.value("document.querySelector('form.filters').hidden") is True


def test_what_ranks_stands_beside_the_agent_and_stays_while_the_rest_scrolls(made_site, visitor):
    visitor.look(made_site.url + "board-1.html")
    heads = visitor.value("[...document.querySelectorAll('.pinned thead th')].map(e => e.textContent.trim())")
    assert heads[:5] == ["Rank", "Agent", "Normalised mean", "Gap to the oracle", "Badge"]
    assert heads[5:7] == ["EZPoints (success %)", "Sokoban, easy (success %)"]
    box = "document.querySelector('.pinned').closest('.scroll')"
    agent = "document.querySelector('.pinned tbody th').getBoundingClientRect()"
    cue = f"{box}.previousElementSibling"
    for width in (360, 500):
        visitor.resize(width, 760)
        visitor.settle()
        assert visitor.value(f"{cue}.textContent") == "Scrolls sideways →"
        assert visitor.value(f"{cue}.checkVisibility() && {box}.classList.contains('more')")
        left = visitor.value(f"{agent}.left")
        visitor.value(f"{box}.scrollLeft = 200; 0")
        visitor.settle()
        assert visitor.value(f"{agent}.left") == left
        assert visitor.value(f"{agent}.right") < 0.55 * width  # the rest has room to be seen
        visitor.value(f"{box}.scrollLeft = 10000; 0")
        visitor.settle()
        assert visitor.value(f"{box}.classList.contains('more')") is False
        visitor.value(f"{box}.scrollLeft = 0; 0")
        caption = "document.querySelector('caption span').getBoundingClientRect()"
        assert visitor.value(f"{caption}.right <= {box}.getBoundingClientRect().right")
    visitor.resize(2400, 900)
    visitor.settle()
    assert visitor.value(f"{cue}.hidden") is True
    visitor.resize(900, 900)


def test_a_run_s_page_shows_its_scores(made_site, visitor):
    page = next(path for path in made_site.folder.glob("run-*.html") if "<h1>rules" in path.read_text())
    visitor.look(made_site.url + page.name)
    table = "document.querySelector('[aria-label=\"Scores by environment\"] table')"
    cells = f"[...{table}.rows].map(r => [...r.cells].map(c => c.textContent.trim()))"
    head, first, second = visitor.value(cells)
    assert head[:3] == ["Environment", "Episodes", "Success %"]
    assert {"Steps", "Ends"} < set(head)
    assert [first[:2], second[:2]] == [["EZPoints", "6"], ["Sokoban, easy", "6"]]
    assert "[" in first[2]
    assert sum(int(word) for word in second[-1].replace(",", "").split() if word.isdigit()) == 6


def test_the_first_page_names_the_best_agent_and_tells_labels_apart(made_site, visitor):
    visitor.look(made_site.url + "index.html")
    rows = "[...document.querySelector('[aria-label=Boards] table').rows].map(r => [...r.cells])"
    head, board = visitor.value(f"{rows}.map(r => r.map(c => c.textContent.trim()))")
    said = dict(zip(head, board, strict=True))
    assert said["Environments"] == "EZPoints · Sokoban, easy"
    assert said["Best, random and oracle aside"] == "rules"


def test_without_scripts_a_board_is_whole(made_site, visitor):
    visitor.scripts(False)
    try:
        visitor.look(made_site.url + "board-1.html")
        assert visitor.value("typeof agentgym") == "undefined"
        text = visitor.value("document.querySelector('main').innerText")
        for said in ("oracle", "100.0 [43.9, 100.0]", "6 success", "agentgym/Sokoban-v0", "Pairs", "spl"):
            assert said in text
        assert visitor.value("document.querySelectorAll('svg.interval').length") >= 9
    finally:
        visitor.scripts(True)


@pytest.mark.npm
def test_axe_finds_nothing(made_site, visitor, npm_modules):
    for scheme in ("light", "dark"):
        visitor.scheme(scheme)
        for page in pages_of(made_site) if scheme == "light" else ("index.html", "board-1.html"):
            visitor.look(made_site.url + page)
            assert visitor.violations(npm_modules) == [], (page, scheme)
    visitor.scheme("light")
