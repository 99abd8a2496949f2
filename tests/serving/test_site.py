"""The site over HTTP: what it shows, what a click does, what is recorded."""

import json
import re

import numpy as np
import pytest

from agentgym.core.suite_spec import PLACE
from agentgym.envs.webshop.data.products import Instruction, ListCatalogue, Product
from agentgym.envs.webshop.engine.world import ShopWorld
from agentgym.envs.webshop.env import WebShopEnv
from agentgym.envs.webshop.site.html import CHOICE, QUERY
from agentgym.serving import site as serving_site
from agentgym.serving.site import STALE
from tests.serving.conftest import Visit
from tests.webshop.corner import WordSearch, corner_shop

EVIL = "</p><script>alert('x')</script><b title=\"&amp;'\">"
OPTION = '"><script>'
NASTY = Product(
    asin="B0000EVIL<",
    title=f"Lamp {EVIL}",
    description=f"{EVIL}\n\n two\ud800lines",
    bullets=(EVIL, "", " \n ", "  "),
    query=EVIL,
    category=EVIL,
    options=((EVIL, (OPTION, "a[b]", "new\nline", "\ud83d", "plain")), ("", ("",))),
    attributes=(EVIL,),
)


def nasty_shop():
    wish = Instruction(NASTY.asin, f"a lamp {EVIL}", (EVIL,), ("plain",))
    catalogue = ListCatalogue([NASTY], human=[wish])
    return ShopWorld(catalogue, WordSearch(catalogue), name="nasty")


def open_sitting(site):
    """Return the sitting of the visitor who came last."""
    return next(reversed(site._visitors.values())).session


@pytest.fixture
def visit(serve):
    site, server = serve(options={"dataset": corner_shop(), "goals": "human"}, split="upstream-test")
    visitor = Visit(server)
    visitor.get("/")
    return site, visitor


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"noise": 0.7, "adverts": 3},
        {"show_attributes": True, "hide_score": False},
        {"dataset": nasty_shop(), "show_attributes": True},
        {"dataset": corner_shop(), "goals": "human"},
    ],
    ids=["builtin", "noise", "all", "nasty", "corner"],
)
def test_every_page_has_the_texts_of_the_observation(serve, options):
    """In random play, in order, on every page reached."""
    split = "upstream-test" if "dataset" in options else "train"
    site, server = serve(options=options | {"max_steps": 30}, split=split)
    visitor = Visit(server)
    visitor.get("/")
    rng = np.random.default_rng(5)
    reached = set()
    for _ in range(300):
        sitting = open_sitting(site)
        shown = sitting.observation.encode(errors="replace").decode()
        assert " [SEP] ".join(visitor.page.texts) == shown
        reached.add(sitting.env.visit.page)
        choices = visitor.page.choices()
        if sitting.over:
            visitor.post("/next")
        elif rng.random() < (0.05 if choices else 1.0):
            words = str(rng.choice(["lamp", "wool rug", sitting.info["goal"], "zzz", "a[b] c"]))
            visitor.search(words.encode(errors="replace").decode())
        else:
            visitor.post(**{CHOICE: str(rng.choice(list(choices.values())))})
    assert reached >= {"start", "results", "item", "description", "features", "reviews", "done"}


def test_texts_of_products_are_only_text(serve):
    """Whatever sellers write stays text: no tag, no attribute, no script of theirs."""
    _, server = serve(options={"dataset": nasty_shop(), "show_attributes": True}, split="upstream-test")
    visitor = Visit(server)
    visitor.get("/")
    visitor.search(f"lamp {EVIL}")
    known = {
        "html",
        "head",
        "body",
        "header",
        "main",
        "footer",
        "form",
        "div",
        "section",
        "details",
        "summary",
    }
    known |= {
        "meta",
        "title",
        "link",
        "h1",
        "h2",
        "p",
        "ul",
        "ol",
        "li",
        "dl",
        "dt",
        "dd",
        "fieldset",
        "legend",
    }
    known |= {"label", "span", "strong", "input", "select", "option", "button"}
    steps = (
        NASTY.asin,
        "Description",
        "< Prev",
        "Features",
        "< Prev",
        "Attributes",
        "< Prev",
        OPTION,
        "Buy Now",
    )
    for text in steps:
        visitor.click(text)
        assert {tag for tag, _ in visitor.page.tags} <= known
        names = {name for _, found in visitor.page.tags for name in found}
        assert not {name for name in names if name.startswith("on") or name == "style"}
        if text in ("Description", "Features", "Attributes"):
            assert EVIL in "".join(visitor.page.nodes)


def test_what_no_action_can_say_cannot_be_clicked(serve):
    _, server = serve(options={"dataset": nasty_shop()}, split="upstream-test")
    visitor = Visit(server)
    visitor.get("/")
    visitor.search("lamp")
    visitor.click(NASTY.asin)
    assert "plain" in visitor.page.choices()
    off = [text for attributes, text in visitor.page.buttons if "disabled" in attributes]
    assert {"a[b]", "new\nline"} <= set(off)


def test_a_click_is_a_step_and_the_end_shows_the_score(visit):
    site, visitor = visit
    wish = open_sitting(site).info["goal"]
    _, text = visitor.search("lamp")
    assert "Step 1 of 15" in text
    assert visitor.page.texts[4:6] == ["Next >", "B000000000"]
    visitor.click("B000000003")
    visitor.click("navy")
    pressed = [text for found, text in visitor.page.buttons if found.get("aria-pressed") == "true"]
    assert pressed == ["navy"]
    _, text = visitor.click("Buy Now")
    sitting = open_sitting(site)
    assert [step.action for step in sitting.steps] == [
        "search[lamp]", "click[b000000003]", "click[navy]", "click[buy now]",
    ]  # fmt: skip
    assert sitting.over
    assert f"Score {sitting.info['score']:.2f} of 1.00" in text
    assert "Bought: Brass Desk Lamp 3; color: navy" in text
    _, text = visitor.post("/next")
    assert "Step 0 of 15" in text
    assert open_sitting(site).info["goal"] != wish


def test_the_step_limit_ends_the_task(serve):
    _, server = serve(options={"max_steps": 2})
    visitor = Visit(server)
    visitor.get("/")
    visitor.search("lamp")
    _, text = visitor.search("shoe")
    assert "Nothing bought: score 0" in text
    assert visitor.page.choices() == {}
    assert visitor.search("more")[1].count(STALE) == 1


def test_a_page_left_behind_does_nothing(visit):
    """A click after the browser's back button, or a second one, is no step."""
    site, visitor = visit
    old = visitor.page.hidden[PLACE]
    visitor.search("lamp")
    for _ in range(2):
        _, text = visitor.post(**{PLACE: old, QUERY: "rug"})
        assert STALE in text
        assert len(open_sitting(site).steps) == 1
    assert STALE not in visitor.get("/")[1]
    visitor.post("/next", **{PLACE: old})
    assert len(open_sitting(site).steps) == 1


def test_an_address_names_split_and_task(visit):
    """A new visitor begins it; who is in an episode is asked first."""
    site, visitor = visit
    env = open_sitting(site).env
    for task in (env.tasks[1], env.tasks[0]):
        newcomer = Visit(type("Server", (), {"server_address": visitor.address}))
        _, text = newcomer.get(f"/?task={task.id}")
        assert open_sitting(site).info["task_id"] == task.id
        assert task.content.text in text
    visitor.get("/")
    _, text = visitor.get(f"/?task={env.tasks[1].source_id}&other=x")
    assert "Begin another task?" in text
    fields = visitor.page.hidden
    assert set(fields) == {PLACE, "task"}
    visitor.begin(task=fields["task"])
    assert open_sitting(site).info["task_id"] == env.tasks[1].id


def test_reading_changes_no_episode(visit):
    site, visitor = visit
    visitor.search("lamp")
    for _ in range(2):
        for path in (
            "/?task=0",
            "/?split=train",
            "/?split=nosuch&task=nosuch",
            "/?utm=1",
            "/act",
            "/next",
            "/begin",
        ):
            for method in ("GET", "HEAD"):
                sitting = open_sitting(site)
                before = (sitting.env, sitting.info["task_id"], len(sitting.steps), sitting.observation)
                response, text = visitor.ask(method, path)
                assert response.status in (200, 404)
                assert text == "" or method == "GET"
                after = open_sitting(site)
                assert (after.env, after.info["task_id"], len(after.steps), after.observation) == before
    assert len(site._visitors) == 1


def test_a_task_is_begun_from_the_page_that_is_open(visit):
    """A form that another site sends does not know the page; neither does one of a page that was left."""
    site, visitor = visit
    visitor.search("lamp")
    sitting = open_sitting(site)
    task = sitting.info["task_id"]
    for place in ({}, {PLACE: ""}, {PLACE: "guess.1"}):
        for path in ("/begin", "/next", "/hint", "/act"):
            visitor.ask("POST", path, {"task": "0", CHOICE: "1", **place})
            assert (sitting.info["task_id"], len(sitting.steps)) == (task, 1)
            assert STALE in visitor.get("/")[1]
    other = next(one.id for one in sitting.env.tasks if one.id != task)
    visitor.begin(task=other, split="upstream-test")
    assert sitting.info["task_id"] == other


def test_the_footer_offers_the_splits_that_have_tasks(serve):
    def offered(**settings):
        _, server = serve(**settings)
        visitor = Visit(server)
        visitor.get("/")
        return [found["value"] for tag, found in visitor.page.tags if tag == "option"], visitor

    assert offered()[0] == ["test", "train", "valid", "test_unseen"]
    corner = {"dataset": corner_shop(), "goals": "human"}
    splits, visitor = offered(options=corner, split="upstream-test")
    assert splits == ["upstream-test", "train", "papers"]
    for split in splits:
        response, text = visitor.begin(split=split)
        assert (response.status, f"split {split}" in text) == (200, True)
    corner["goals"] = "synthetic"
    assert offered(options=corner, split="train")[0] == ["train", "valid", "test", "upstream-test"]
    corner["split_by"] = "product"
    assert "upstream-test" not in offered(options=corner, split="train")[0]


def test_a_title_does_what_its_product_s_id_does(visit):
    site, visitor = visit
    visitor.search("lamp")
    titles = {text: found for found, text in visitor.page.buttons if found.get("class") == "title"}
    assert len(titles) == 10
    choices = visitor.page.choices()
    for number in range(10):
        assert titles[f"Brass Desk Lamp {number}"]["value"] == choices[f"B0000000{number:02}"]
    visitor.click("Brass Desk Lamp 3")
    assert open_sitting(site).steps[-1].completion.action == "click[b000000003]"
    assert open_sitting(site).env.visit.asin == "B000000003"


def test_results_say_which_page_of_how_many_they_are(visit):
    """To people: the observation does not."""
    site, visitor = visit
    _, text = visitor.search("lamp")
    assert '<p class="pages">page 1 of 2</p>' in text
    assert "page 2 of 2" in visitor.click("Next >")[1]
    assert "past the last page, 2" in visitor.click("Next >")[1]
    assert "page 2 of 2" in visitor.click("< Prev")[1]
    assert "nothing found" in visitor.search("zzz")[1]
    observed = [step.observation for step in open_sitting(site).steps] + [open_sitting(site).observation]
    assert not any(said in text for text in observed for said in ("of 2", "past the", "nothing found"))


def test_first_visitors_are_told_what_to_do(serve):
    _, server = serve(
        options={"dataset": corner_shop(), "goals": "human", "max_steps": 2}, split="upstream-test"
    )
    hint = "Buy what the instruction asks for"
    one, other = Visit(server), Visit(server)
    _, text = one.get("/")
    assert text.count(hint) == 1
    assert "a task has 2 of them" in text
    assert hint in one.search("lamp")[1]
    cookie = one.cookie
    response, text = one.post("/hint")
    assert (response.status, hint in text, one.cookie) == (200, False, cookie)
    assert hint not in one.search("lamp")[1]
    assert hint not in one.post("/next")[1]
    assert hint in other.get("/")[1]  # each for themselves
    other.search("lamp")
    assert hint not in other.search("lamp")[1]  # the episode has ended
    assert hint not in other.post("/next")[1]


def test_long_fields_are_refused_before_they_are_played(visit):
    site, visitor = visit
    for query in ("[" * 1_025, "search[" * 200, "é" * 1_100):
        response, text = visitor.search(query)
        assert response.status == 400
        assert text == "a field has at most 1,024 characters: shorten it\n"
    assert open_sitting(site).steps == []
    visitor.search("é" * 500)
    assert len(open_sitting(site).steps) == 1


def test_visitors_do_not_meet(serve):
    site, server = serve()
    first, second = Visit(server), Visit(server)
    first.get("/?split=valid")
    second.get("/")
    first.search("lamp")
    second.get("/")
    assert second.page.texts[0] == "WebShop"
    splits = [one.session.env.tasks.split for one in site._visitors.values()]
    assert sorted(splits) == ["test", "valid"]


def test_only_so_many_visits_are_kept(serve, monkeypatch):
    monkeypatch.setattr(serving_site, "MAX_VISITORS", 2)
    site, server = serve(options={"dataset": corner_shop(), "goals": "human"}, split="upstream-test")
    visitors = [Visit(server) for _ in range(3)]
    for one in visitors:
        one.get("/")
    visitors[0].search("lamp")  # forgotten: begins anew
    assert visitors[0].page.texts[0] == "WebShop"
    assert len(site._visitors) == 2


def test_who_only_looks_makes_room_for_who_plays(serve, monkeypatch):
    """However many come without a cookie, such as programs that read the front page over and over."""
    monkeypatch.setattr(serving_site, "MAX_VISITORS", 3)
    site, server = serve(options={"dataset": corner_shop(), "goals": "human"}, split="upstream-test")
    player = Visit(server)
    player.get("/")
    player.search("lamp")
    for _ in range(9):
        Visit(server).get("/")
    assert len(site._visitors) == 3
    player.get("/")
    assert "Page 1 (Total results: 12)" in player.page.texts


@pytest.mark.parametrize(
    ("method", "path", "fields", "status", "says"),
    [
        ("POST", "/begin", {"task": "nosuch"}, 400, "no task 'nosuch' in split"),
        ("POST", "/begin", {"split": "tset"}, 400, "unknown split 'tset' (did you mean 'test'?)"),
        ("GET", "/nowhere", None, 404, "There is no page /nowhere."),
        ("GET", "/nowhere", None, 404, "<h1>Not found</h1>"),
        ("GET", "/<b>", None, 404, "There is no page /&lt;b&gt;."),
        ("POST", "/", {}, 404, "There is no page"),
        ("POST", "/act", {}, 400, "the form names no action"),
        ("POST", "/act", {CHOICE: "99"}, 400, "the form names no action"),
        ("POST", "/act", {CHOICE: "0"}, 400, "the form names no action"),
        ("POST", "/act", {CHOICE: "9" * 1_000}, 400, "the form names no action"),
        ("POST", "/act", {CHOICE: "-1"}, 400, "the form names no action"),
        ("POST", "/act", {QUERY: "x" * 70_000}, 413, ""),
        ("POST", "/act", {str(i): "" for i in range(200)}, 400, ""),
    ],
)  # fmt: skip
def test_bad_requests_get_an_answer_and_change_nothing(serve, method, path, fields, status, says):
    site, server = serve(split="test")
    visitor = Visit(server)
    visitor.get("/")
    if fields is not None:
        fields = {PLACE: visitor.page.hidden[PLACE]} | fields
    response, text = visitor.ask(method, path, fields)
    assert response.status == status
    assert says in text
    assert open_sitting(site).steps == []


def test_a_query_that_no_action_can_say_is_rejected_as_the_environment_does(visit):
    site, visitor = visit
    visitor.search("a[b]")
    assert visitor.page.texts[-1] == "That action is not possible here."
    assert open_sitting(site).info["turn"] == 1


def test_tasks_are_drawn_with_seed_0(serve):
    drawn = []
    for options in ({}, {"seed": 0}, {"seed": 1}):
        site, server = serve(**options)
        Visit(server).get("/")
        drawn.append(open_sitting(site).info["task_id"])
    assert drawn[0] == drawn[1] != drawn[2]


def test_responses_allow_nothing_from_elsewhere(visit):
    _, visitor = visit
    response, _ = visitor.ask("GET", "/")
    assert response.getheader("Content-Security-Policy").startswith("default-src 'none'; style-src 'self'")
    assert response.getheader("Cache-Control") == "no-store"
    response, style = visitor.ask("GET", "/style.css")
    assert response.getheader("Content-Type").startswith("text/css")
    assert "url(" not in style
    _, text = visitor.get("/")
    assert re.findall(r"https?://|src=|<script|style=", text) == []
    response, _ = Visit.ask(visitor, "GET", "/", Cookie="")
    cookie = response.getheader("Set-Cookie")
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie


def test_pages_can_be_used_without_seeing_them(visit):
    """Every field has a label, every button a text, every page one heading and a language."""
    _, visitor = visit
    visitor.search("lamp")
    for text in ("B000000003", "Features", "< Prev", "Buy Now"):
        tags = visitor.page.tags
        assert ("html", {"lang": "en"}) in tags
        assert [tag for tag, _ in tags].count("h1") == 1
        assert all(text.strip() for _, text in visitor.page.buttons)
        fields = sum(tag in ("input", "select") and found.get("type") != "hidden" for tag, found in tags)
        assert [tag for tag, _ in tags].count("label") == fields
        assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in tags
        visitor.click(text)


def test_shown_nodes_are_those_of_the_text_observation():
    env = WebShopEnv(split="test", noise=1.0)
    observation, _ = env.reset(seed=3)
    assert " [SEP] ".join(text.strip() for _, text in env.shown()) == observation
    assert json.dumps(env.shown())
