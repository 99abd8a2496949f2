"""Tables of a board: what rows are filtered by, and where intervals are drawn."""

import shutil
from dataclasses import replace

import pytest

from agentgym.errors import MissingDataError
from agentgym.evaluation.board.boards import make_boards
from agentgym.evaluation.board.statistics import Estimate
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.submissions import examine_below
from agentgym.site import environments
from agentgym.site.boards import WIDTH, _drawn, filters
from agentgym.site.build import build_site
from agentgym.site.environments import Thumbnail, environment_pages, thumbnail
from agentgym.site.rendering import render
from tests.evaluation.making import write_complete


def test_rows_are_filtered_by_columns_of_several_values_with_none_first():
    rows = [{"badge": "re-run", "suite": "s", "algorithm": "-"}, {"badge": "-", "algorithm": "GRPO"}]
    rows += [{"badge": "(none)", "suite": "s", "algorithm": "-"}]
    assert filters(rows) == [
        ("algorithm", "Algorithm", ["-", "GRPO"]),
        ("badge", "Badge", ["-", "(none)", "re-run"]),
    ]


def test_an_interval_is_drawn_between_margins():
    assert WIDTH == 72
    drawn = _drawn(Estimate(1.0, -1.0, 4.0, "t"), -1.0, 3.0)
    assert drawn == {"low": "3.0", "value": "36.0", "high": "69.0"}
    assert _drawn(Estimate(0.0, -9.0, 0.5, "t"), -1.0, 3.0) == {"low": "3.0", "value": "19.5", "high": "27.8"}


def test_an_environment_s_boards_are_counted_and_it_is_told_in_words(made_site):
    page = (made_site.folder / "environments.html").read_text()
    (row,) = (line for line in page.split("\n") if ">Sokoban</a>" in line)
    assert row.endswith("<td>1</td></tr>")
    boards = make_boards(each.found for each in examine_below(made_site.results))[0]
    twice = replace(boards[0], envs=(*boards[0].envs, boards[0].envs[1]))
    (sokoban,) = (each for each in environment_pages([twice], [], None) if each.name == "Sokoban")
    assert len(sokoban.boards) == 2
    shown = render("environments.html", "Environments", pages=[sokoban])
    assert "<td>1</td></tr>" in shown
    for each in environment_pages([], [], None):
        assert not set('{}[]"') & set(each.about[0]), each.about[0]


def test_every_environment_shows_how_an_episode_begins(made_site, monkeypatch):
    """By its drawing where that is a picture, else in a few short lines of the first observation."""
    pages = {each.name: each.thumbnail for each in environment_pages([], [], None)}
    assert {name for name, shown in pages.items() if shown.picture} == {
        "Sokoban",
        "VisualSokoban",
        "EZPoints",
    }
    assert all(bool(shown.picture) != bool(shown.words) for shown in pages.values())
    assert pages["HotpotQA"].words.startswith("Question: In which city\nis ")
    for shown in pages.values():
        lines = shown.words.split("\n")
        assert (len(lines) <= 7, max(map(len, lines)) <= 25) == (True, True)
        assert len(shown.picture.get("src", "")) < 5_000
    page = (made_site.folder / "environments.html").read_text()
    assert page.count('class="thumb"') == len(pages)
    assert page.count('alt="Drawing of how an episode of ') == 3
    monkeypatch.setattr(environments, "open_env", refuse)
    assert thumbnail.__wrapped__("agentgym/Sokoban-v0") == Thumbnail({}, "")


def refuse(env_id):
    """Open nothing, as without data."""
    raise MissingDataError(env_id)


@pytest.mark.browser
def test_contested_rows_name_each_other(made_site, tmp_path, visitor):
    results = tmp_path / "results"
    shutil.copytree(made_site.root / "suites", tmp_path / "suites")
    shutil.copytree(made_site.results, results)
    (folder,) = results.glob("pages/rules-*")
    (random,) = results.glob("pages/random-*")
    ids = []
    for place, source in (("one", folder), ("two", random)):
        agent = SuiteAgent("rival-with-a-long-name", "scripted", {"path": "moves.jsonl"})
        (results / place).mkdir()
        written = write_complete(
            results / place, replace(read_run(source), agent=agent), read_episodes(source)
        )
        ids.append(written.result_id[:12])
    build_site(results, tmp_path / "site")
    visitor.look(f"{(tmp_path / 'site').as_uri()}/board-1.html")
    for width in (360, 1280):
        visitor.resize(width, 900)
        assert visitor.value("document.documentElement.scrollWidth <= window.innerWidth")
    text = visitor.value("document.body.textContent")
    assert text.count("contested") >= 2
    for first, second in (ids, ids[::-1]):
        assert f"{first}) is contested by result {second}" in " ".join(text.split())
        assert f">{first}</a>" in visitor.value("document.body.innerHTML")
