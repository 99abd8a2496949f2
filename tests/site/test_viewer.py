"""The viewer in a real browser: episodes chosen, stepped through, compared; hostile text shown as text."""

import json
import re
import shutil
from itertools import product

import pytest

from agentgym.evaluation.log.frames import EpisodeFrame
from agentgym.evaluation.verify.archives import open_run
from agentgym.site.filmdata import columns, state_table, step_table
from agentgym.site.viewer_data import (
    COLUMNS,
    DATA,
    EpisodeSummary,
    RunViewerData,
    ViewerPacks,
    write_index,
    write_run,
)
from tests.site.films import film_of

pytestmark = pytest.mark.browser

HOSTILE = (
    "<script>window.owned=1</script>",
    "</script><img src=x onerror=window.owned=1>",
    "javascript:window.owned=1",
    "right\u202eleft",
    "\x1b[31mred",
    "nul\0nul",
    "half \ud800 pair",
    "long " * 200_000,
)


def run_of(made_site, name):
    """Return the key of a run and the list of its episodes, as the page loads them."""
    for path in sorted((made_site.folder / DATA).glob("*/episodes.js")):
        text = path.read_text()
        value = json.loads(text[text.index(", ") + 2 : -3])
        if value["title"] == name:
            return value["key"], [dict(zip(value["columns"], row, strict=True)) for row in value["episodes"]]
    raise LookupError(name)


def wait(visitor, expression, wanted=True):
    """Wait until an expression has a value."""
    for _ in range(200):
        found = visitor.value(expression)
        if found == wanted:
            return
        visitor.settle()
    raise AssertionError(f"{expression} is {found!r}, not {wanted!r}")


WHERE = "document.getElementById('where')?.textContent"


def test_a_visit_by_keyboard(made_site, visitor):
    visitor.events.clear()
    visitor.look(made_site.url + "view.html")
    wait(visitor, "document.querySelectorAll('#rows .row').length > 3")
    key, episodes = run_of(made_site, "oracle")
    visitor.value(f"document.getElementById('run').value = '{key}'; 0")
    visitor.value("document.getElementById('run').dispatchEvent(new Event('change')); 0")
    wait(visitor, f"location.hash == '#{key}'")
    visitor.value("document.getElementById('rows').focus()")
    visitor.press("ArrowDown")
    visitor.press("Enter")
    second = episodes[1]
    wait(visitor, WHERE, f"Step 0 of {second['length']}")
    assert visitor.value("location.hash") == f"#{key}/{second['number']}/0"
    visitor.value("document.activeElement.blur()")
    visitor.press("ArrowRight")
    assert visitor.value("location.hash") == f"#{key}/{second['number']}/1"
    visitor.press("End")
    assert visitor.value(WHERE) == f"Step {second['length']} of {second['length']}"
    assert "The episode is over" in visitor.value("document.querySelector('.attempt').innerText")
    visitor.value("document.getElementById('rows').focus()")
    visitor.press("ArrowDown")
    visitor.press("Enter")
    wait(visitor, f"location.hash == '#{key}/{episodes[2]['number']}/0'")
    visitor.value("history.back()")
    wait(visitor, f"location.hash == '#{key}/{second['number']}/{second['length']}'")
    wait(visitor, WHERE, f"Step {second['length']} of {second['length']}")
    assert visitor.errors == []
    assert visitor.elsewhere(made_site.url) == []


def test_filters(made_site, visitor):
    key, episodes = run_of(made_site, "random")
    visitor.look(f"{made_site.url}view.html#{key}")
    wait(visitor, "document.querySelectorAll('#rows .row').length > 3")

    def choose(field, value):
        visitor.value(
            f"(() => {{ const e = document.getElementById('{field}'); e.value = '{value}';"
            "e.dispatchEvent(new Event('input', {bubbles: true})) })()"
        )
        return int(visitor.value("document.getElementById('count').textContent").split()[0])

    assert choose("of-env", "EZPoints") == 6
    assert choose("of-won", "lost") == sum(e["label"] == "EZPoints" and not e["won"] for e in episodes)
    assert choose("of-env", "") == sum(not e["won"] for e in episodes)
    assert choose("of-least", "15") == sum(not e["won"] and e["length"] >= 15 for e in episodes)
    choose("of-least", "")
    choose("of-won", "")
    oracle = run_of(made_site, "oracle")[0]
    choose("of-other", oracle)
    lost = sum(not e["won"] for e in episodes)
    wait(visitor, "document.getElementById('count').textContent", f"{lost} of 12 episodes")


def test_side_by_side_with_shared_states_and_their_graph(made_site, visitor):
    places = []
    for name in ("random", "oracle", "rules"):
        key, episodes = run_of(made_site, name)
        first = min(
            (e for e in episodes if e["label"] == "EZPoints"), key=lambda e: (e["task_id"], e["rollout"])
        )
        places.append(f"{key}/{first['number']}/0")
    visitor.events.clear()
    visitor.look(f"{made_site.url}view.html#{'+'.join(places)}")
    wait(visitor, "document.querySelectorAll('.attempt').length", 3)
    assert visitor.value("document.querySelectorAll('.strip').length") == 3
    text = visitor.value("document.getElementById('shown').textContent")
    assert text.count("shared by A, B, C") == 3
    states = "document.querySelectorAll('section.graph .state').length"
    assert 3 < visitor.value(states) < 20
    assert visitor.value("document.querySelectorAll('.state.goal').length") == 1
    assert visitor.value("document.querySelectorAll('.state.now').length") == 1
    visitor.value("document.getElementById('on').click()")
    assert visitor.value("location.hash").count("/1") >= 3
    for width in (360, 1600):
        visitor.resize(width, 900)
        assert visitor.value("document.documentElement.scrollWidth <= window.innerWidth")
    visitor.resize(900, 900)
    assert visitor.errors == []


def test_a_graph_of_one_state_is_small_and_measures_are_whole(made_site, visitor, tmp_path):
    site = tmp_path / "site"
    shutil.copytree(made_site.folder, site, ignore=shutil.ignore_patterns("data"))
    packs = ViewerPacks(site, "0123456789ab")
    frame = EpisodeFrame(None, "nothing moves", (), "0" * 32, "", 0.0, False)
    states = [state_table(packs.tables, frame, packs.tables.text("x"), None, ()) for _ in range(121)]
    steps = [step_table(packs.tables, "push", 0.0, valid=False) for _ in range(120)]
    summary = EpisodeSummary(1, "E", "t", "", 0, False, 0.0, 0.0, 120, 120, "step limit", None, pack=1)
    words = {
        name: packs.tables.text(v) for name, v in zip(COLUMNS, summary.row, strict=True) if type(v) is str
    }
    words |= {"env": packs.tables.text("E"), "why": packs.tables.text("")}
    measures = {f"measure number {number}": number / 7 for number in range(20)}
    head = dict(zip(COLUMNS, summary.row, strict=True)) | words | {"measures": measures, "tokens": [1, 2]}
    packs.add(1, {**head, "states": columns(states), "steps": columns(steps)})
    films = RunViewerData("0123456789ab", "stuck", "s", "run", (summary,))
    packs.close(films)
    write_index(site, [films])
    visitor.look(f"{site.as_uri()}/view.html#0123456789ab/1/0")
    wait(visitor, WHERE, "Step 0 of 120")
    assert visitor.value("document.querySelector('section.graph p').textContent").startswith(
        "1 state. To the"
    )
    for width in (360, 1280):
        visitor.resize(width, 900)
        ring = "document.querySelector('.state circle').getBoundingClientRect()"
        assert 10 < visitor.value(f"{ring}.width") < 40
        shown = "document.querySelector('.measures')"
        assert "measure number 19 2.714 · 1 + 2 tokens" in visitor.value(f"{shown}.textContent")
        assert visitor.value(f"{shown}.scrollWidth <= {shown}.clientWidth")
    visitor.resize(900, 900)


@pytest.fixture(scope="module")
def regretted(made_site, tmp_path_factory):
    """Return the address of a step of a lost episode, on a site with regret."""
    site = tmp_path_factory.mktemp("regret") / "site"
    shutil.copytree(made_site.folder, site, ignore=shutil.ignore_patterns("data"))
    (run,) = (made_site.results / "pages").glob("random-*")
    films = write_run(site, open_run(run), regret=True)
    write_index(site, [films])
    lost = next(e for e in films.episodes if e.label != "EZPoints" and not e.won)
    decisive = film_of(site / DATA / films.key, lost.number)["decisive"]
    return f"{site.as_uri()}/view.html#{films.key}/{lost.number}/{decisive - 1}", decisive, lost.length


def test_regret_is_beside_its_step(regretted, visitor):
    url, decisive, length = regretted
    visitor.events.clear()
    visitor.look(url)
    wait(visitor, WHERE, f"Step {decisive - 1} of {length}")
    strip, shown = (f"document.querySelector('{name}')" for name in (".strip", "#shown"))
    key = visitor.value(f"{strip}.textContent")
    assert f"decisive step: {decisive}, no win in time after it" in key
    assert re.search(r"steps left to a win: \d+ to (\d+|∞)┊", key)
    points = visitor.value(f"{strip}.querySelector('.steps-left-to-a-win polyline').getAttribute('points')")
    assert len(points.split()) == length + 1
    assert "decisive step" in visitor.value(f"{shown}.textContent")
    text = visitor.value(f"{shown}.querySelector('.numbers').textContent")
    assert all(name in text for name in ("steps left to a win", "regret", "belief regret"))
    for width in (360, 1280):
        visitor.resize(width, 900)
        assert visitor.value("document.documentElement.scrollWidth <= window.innerWidth")
    visitor.resize(900, 900)
    visitor.press("End")
    assert "steps left to a win" in visitor.value(f"{shown}.querySelector('.numbers').textContent")
    assert "decisive step" not in visitor.value(f"{shown}.textContent")
    assert visitor.errors == []


@pytest.fixture(scope="module")
def made_up(made_site, tmp_path_factory):
    """Return a site with a made-up run: hostile text everywhere, and 10,000 episodes."""
    folder = tmp_path_factory.mktemp("viewer") / "site"
    shutil.copytree(made_site.folder, folder, ignore=shutil.ignore_patterns("data"))
    hostile = " ".join(HOSTILE)
    key = "0123456789ab"
    packs = ViewerPacks(folder, key)
    tables = packs.tables
    frame = EpisodeFrame(None, hostile, (hostile, "b"), "0" * 32, "", 0.0, False)
    states = [state_table(tables, frame, tables.text(hostile), None, ()) for _ in range(2)]
    step = step_table(tables, hostile, 1.0, valid=True) | {
        "response": tables.text(hostile),
        "prompt": [[HOSTILE[0], tables.text(hostile)]],
        "tokens": [1, 2],
        "format_error": tables.text(hostile),
    }
    summaries = [
        EpisodeSummary(
            n, HOSTILE[0], HOSTILE[1], HOSTILE[3], 0, n % 2 == 0, 0.0, 0.0, 1, 0, HOSTILE[4], None, pack=1
        )
        for n in range(1, 10_001)
    ]
    head = {
        name: tables.text(value)
        for name, value in zip(COLUMNS, summaries[0].row, strict=True)
        if type(value) is str
    }
    rest = {
        "env": tables.text(hostile),
        "why": tables.text(""),
        "measures": {HOSTILE[0]: 1.0},
        "tokens": [1, 2],
    }
    row = dict(zip(COLUMNS, summaries[0].row, strict=True))
    packs.add(1, {**row, **head, **rest, "states": columns(states), "steps": columns([step])})
    films = RunViewerData(key, HOSTILE[0], HOSTILE[1], "run", tuple(summaries))
    packs.close(films)
    write_index(folder, [films])
    return folder


def test_hostile_text_is_text(made_up, visitor):
    visitor.events.clear()
    visitor.look(f"{made_up.as_uri()}/view.html#0123456789ab/1/0")
    wait(visitor, WHERE, "Step 0 of 1")
    visitor.value(
        "document.querySelectorAll('.attempt summary').forEach(s => s.parentElement.open || s.click())"
    )
    visitor.settle()
    assert visitor.value("typeof window.owned") == "undefined"
    assert visitor.value("document.querySelectorAll('main img, main script').length") == 0
    text = visitor.value("document.querySelector('#stage').textContent")
    for said in (
        "<script>window.owned=1</script>",
        "javascript:window.owned=1",
        "right\\u202eleft",
        "nul\\u0000nul",
    ):
        assert said in text
    assert "half \\ud800 pair" in text
    assert "\\u001b[31mred" in text
    assert not any(character in text for character in "\u202e\x1b\0")
    assert len(text) < 60_000
    buttons = "[...document.querySelectorAll('.attempt button')]"
    more = f"{buttons}.find(button => button.textContent.startsWith('Show all 1,000,'))"
    assert visitor.value(f"{more} !== undefined")
    visitor.value(f"{more}.click()")
    assert visitor.value("document.querySelector('#stage').textContent.length") > 1_000_000
    assert visitor.errors == []
    # what is appended to the page or asked of others is refused by its policy
    visitor.value(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.owned = 1';"
        "document.body.append(s); const i = document.createElement('img');"
        "i.src = 'https://example.org/a.png'; document.body.append(i) })()"
    )
    refused = visitor.value(
        "(() => { try { new WebSocket('wss://example.org'); return 'open' } catch (e) { return e.name } })()"
    )
    visitor.settle()
    assert visitor.value("typeof window.owned") == "undefined"
    assert refused in ("SecurityError", "open")
    assert sum("Content Security Policy" in error for error in visitor.errors) >= 2
    visitor.events.clear()


def test_ten_thousand_episodes_scroll(made_up, visitor):
    visitor.look(f"{made_up.as_uri()}/view.html#0123456789ab")
    wait(visitor, "document.getElementById('count').textContent", "10,000 of 10,000 episodes")
    assert visitor.value("document.querySelectorAll('#rows .row').length") < 100
    visitor.value("document.getElementById('rows').scrollTop = 1e9; 0")
    wait(visitor, "document.querySelector('#rows .row:last-child .number').textContent", "10000")
    visitor.value("document.getElementById('rows').focus()")
    visitor.press("Home")
    wait(visitor, "document.querySelector('#rows .row.active .number').textContent", "1")
    used = visitor.call("Runtime.getHeapUsage")["usedSize"]
    assert used < 100e6


def test_what_is_not_there_is_said(made_up, visitor):
    visitor.events.clear()
    for hash in ("0123456789ab/99999999/0", "../../etc/1/0", "<b>/1/0"):
        visitor.look(f"{made_up.as_uri()}/view.html#{hash}")
        wait(visitor, "document.getElementById('notice').textContent != ''")
    assert visitor.errors == []
    assert visitor.value("document.querySelectorAll('#notice b').length") == 0


@pytest.mark.npm
def test_axe_finds_nothing(made_site, regretted, visitor, npm_modules):
    key, episodes = run_of(made_site, "random")
    number = next(e["number"] for e in episodes if e["label"] != "EZPoints")
    plain = f"{made_site.url}view.html#{key}/{number}/2"
    for scheme, url in product(("light", "dark"), (plain, regretted[0])):
        visitor.scheme(scheme)
        visitor.look(url)
        wait(visitor, f"{WHERE}?.endsWith(' of 15')")
        assert visitor.violations(npm_modules) == [], (scheme, url)
    visitor.scheme("light")
