"""Tables of a board: what rows are filtered by, and where intervals are drawn."""

import shutil
from dataclasses import replace

import pytest

from agentgym.evaluation.board.statistics import Estimate
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.site.boards import WIDTH, _drawn, filters
from agentgym.site.build import build_site
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
