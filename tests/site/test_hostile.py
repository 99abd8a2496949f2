"""Text of strangers, in every field that a page shows: it is shown as text, and is nothing else."""

from dataclasses import replace
from html.parser import HTMLParser

import pytest

from agentgym.evaluation.board.boards import make_boards
from agentgym.evaluation.board.published import Paper, PublishedColumn, PublishedRow
from agentgym.evaluation.log.results import RunEndpoint
from agentgym.evaluation.suites.suite import AgentCard, SuiteAgent
from agentgym.evaluation.verify.submissions import Unranked, examine_below
from agentgym.evaluation.verify.verdicts import Mismatch
from agentgym.site.boards import board_page, board_rows, filters
from agentgym.site.build import build_site
from agentgym.site.rendering import data_script, render, shown
from agentgym.site.runs import RunPage, ShownEpisodes, run_page
from agentgym.site.scatter import spending_panels

HOSTILE = (
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "javascript:document.title='owned'",
    "\" onmouseover=\"document.title='owned'",
    "' autofocus onfocus='document.title=1",
    "right\u202eleft",
    "\x1b[31mred\x1b[0m",
    "nul\0nul",
    "half \ud800 pair",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt; & <b>",
    "long " * 200_000,
)


class Elements(HTMLParser):
    """The elements of a page, their attributes, and its text."""

    def __init__(self, page):
        super().__init__()
        self.scripts, self.names, self.attributes, self.text = [], set(), [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.names.add(tag)
        self.attributes += [(tag, name, value) for name, value in attributes]

    def handle_data(self, data):
        self.text += data


def check(page, hostile):
    """Nothing of a text became an element, an attribute or an address."""
    found = Elements(page)
    for tag, name, value in found.attributes:
        assert not name.startswith("on"), (tag, name)
        assert name != "style"
        if name in ("href", "src"):
            assert not value.lstrip().lower().startswith(("javascript", "//", "http")), value
            assert tag == "link" or not value.startswith("data:")
    sources = [value for tag, name, value in found.attributes if tag == "script" and name == "src"]
    assert page.count("<script") == len(sources)
    assert all(source.startswith("static/") for source in sources)
    assert "b" not in found.names
    assert not set("\u202e\x1b\0\ud800") & set(page)
    assert len(page) < 1_500_000
    if len(hostile) < 100:
        assert str(shown(hostile)) in found.text.replace("\n", " ")


@pytest.fixture(scope="module")
def verified(made_site):
    examined = list(examine_below(made_site.results))
    return examined, make_boards(each.found for each in examined)[0][0]


def hostile_board(board, text):
    """The same board, with a text wherever it has a stranger's."""
    env = board.envs[0]
    label = env.env.label
    first = replace(env, env=replace(env.env, label=text, kwargs={text: text}))

    def renamed(table):
        return {text if key == label else key: value for key, value in table.items()}

    rows = []
    for row in board.rows:
        model = replace(row.agent.model, algorithm=text, base_model=text, training_episodes=5)
        agent = replace(row.agent, name=text, kind=text, model=model)
        envs = renamed(row.envs)
        envs[text] = replace(envs[text], by_type={text: envs[text].score}, ends={"step_limit": 6})
        rows.append(replace(row, name=text, agent=agent, envs=envs, date=text, versions=(text,)))
    measures = {
        key: tuple(replace(measure, about=text) for measure in columns)
        for key, columns in renamed(board.columns).items()
    }
    return replace(
        board,
        suite=replace(board.suite, name=text, version=text),
        envs=(first, *board.envs[1:]),
        columns=measures,
        scales=renamed(board.scales),
        detectable=renamed(board.detectable),
        rows=tuple(rows),
        comparisons=tuple(replace(pair, first=text, second=text) for pair in board.comparisons),
        unranked=(Unranked(text, text, text, f"refused: {text}"),),
    )


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_texts_of_boards_runs_and_papers_are_shown_as_text(verified, text):
    examined, board = verified
    page = board_page(hostile_board(board, text), text, 1, {})
    check(render("board.html", "Boards", page=page), text)
    rows = board_rows([page])
    first = {"boards": [page], "rows": rows, "filters": filters(rows), "unranked": []}
    check(render("index.html", "Boards", **first), text)
    each = examined[0]
    stored, run = each.run, each.run.log
    agent = SuiteAgent(text, text, {text: text}, {text: 1}, text, text, card=AgentCard(text, text, text))
    stretch = replace(run.provenance[0], python=text, hardware=text, packages={text: text})
    endpoint = RunEndpoint(text, text, (text,), {text: text})
    stored = replace(stored, log=replace(run, agent=agent, provenance=(stretch,), endpoints=(endpoint,)))
    verdict = replace(each.verdict, problems=(Mismatch("file", text, text),) * 2)
    refused = replace(each, found=Unranked(text, text, text, text), run=stored, verdict=verdict)
    page = RunPage("run-0123456789ab.html", refused, stored, ShownEpisodes(None, text, []), text)
    shown_run = run_page(page, [board], {})
    check(render("run.html", "Boards", page=shown_run), text)
    paper = Paper(text, text, text, text, text, (PublishedColumn(text),), (PublishedRow(text, ((1.0,),)),))
    check(render("papers.html", "Papers", papers=[paper], about=""), text)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_data_scripts_hold_texts_and_nothing_else(verified, text):
    board = hostile_board(verified[1], text)
    script = data_script("board/1", [panel.as_json for panel in spending_panels(board)])
    assert script.isascii()
    assert "<" not in script
    assert "\0" not in script


@pytest.mark.browser
def test_a_hostile_site_runs_nothing_and_asks_nobody(verified, made_site, visitor, tmp_path):
    build_site(made_site.results, tmp_path / "site")
    for number, text in enumerate(HOSTILE[:-1]):
        page = board_page(hostile_board(verified[1], text), text, 1, {})
        name = f"hostile-{number}.html"
        (tmp_path / "site" / name).write_text(render("board.html", "Boards", page=page))
        panels = [panel.as_json for panel in spending_panels(hostile_board(verified[1], text))]
        (tmp_path / "site" / "data" / "board-1.js").write_text(data_script("board/1", panels))
        visitor.events.clear()
        base = tmp_path.joinpath("site").as_uri() + "/"
        visitor.look(base + name)
        assert "owned" not in (visitor.value("document.title.split(' · ')[0]") or "").split()
        assert visitor.value("document.title") != "owned"
        assert visitor.value("document.querySelectorAll('.chart canvas').length") == 1
        assert visitor.errors == []
        assert visitor.elsewhere(base) == []


@pytest.mark.browser
def test_the_policy_forbids_what_pages_never_do(made_site, visitor):
    visitor.look(made_site.url + "index.html")
    tries = (
        "const s = document.createElement('script'); s.textContent = 'window.owned = 1'; "
        "document.body.append(s)",
        "document.body.setAttribute('onclick', 'window.owned = 1'); document.body.click()",
        "try { eval('window.owned = 1') } catch (e) {}",
        "const i = new Image(); i.src = 'http://192.0.2.1/x.png'; document.body.append(i)",
        "fetch('http://192.0.2.1/x').catch(() => {})",
        "const f = document.createElement('iframe'); f.src = 'http://192.0.2.1/'; document.body.append(f)",
    )
    for script in tries:
        # as a script of the page would: what the debugger evaluates itself may do more
        visitor.value(f"setTimeout(() => {{ {script} }}, 0); 0")
        visitor.settle()
    assert visitor.value("window.owned === undefined")
    assert visitor.value("document.querySelectorAll('iframe, img').length") >= 1
    blocked = [error for error in visitor.errors if "Content Security Policy" in error]
    assert len(blocked) >= 4
    visitor.events.clear()
