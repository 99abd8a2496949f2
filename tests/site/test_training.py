"""Pages of training: curves over seeds, stacked shares, one state's visits, and what is not there."""

import json
import shutil
from pathlib import Path

import pytest

from agentgym.history.diagrams import Diagram, Panel, Series
from agentgym.history.run import CONFIG_FILE, METRICS_FILE
from agentgym.site.build import build_site
from agentgym.site.training import chart, find_histories, one_state_visits, training_pages
from tests.iterations import make_metrics


@pytest.fixture
def runs(tmp_path):
    """Two seeds of one algorithm, a run of another that scores states, and a damaged one."""
    for name, algorithm, seed in (("a-0", "grpo", 0), ("a-1", "grpo", 1), ("b-0", "spo3", 0)):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        config = {
            "algorithm": algorithm,
            "env_id": "agentgym/EZPoints-v0",
            "model": "tiny:0.1m",
            "seed": seed,
        }
        (folder / CONFIG_FILE).write_text(json.dumps(config))
        lines = []
        for i in range(1, 13):
            state = {"visits": float(i), "successes": float(i // 2), "score": 1 / i, "k": 9.0 - i // 2}
            own = {"diagnostics": {"state": state}} if algorithm == "spo3" else {}
            lines.append(json.dumps(make_metrics(i, success=(i + seed) / 20, **own).to_json()) + "\n")
        (folder / METRICS_FILE).write_text("".join(lines))
    (tmp_path / "runs" / "broken").mkdir()
    (tmp_path / "runs" / "broken" / METRICS_FILE).write_text("{\n")
    return tmp_path / "runs"


def test_curves_are_means_over_seeds_with_their_band(runs):
    histories, refused = find_histories(runs)
    assert [name for name, _ in refused] == ["broken"]
    grpo, spo3 = training_pages(histories)
    success = next(panel for panel in grpo.parts["curves"] if panel["title"] == "Success in training")
    (series,) = success["series"]
    assert series["y"] == pytest.approx([(i + 0.5) / 20 for i in range(1, 13)])
    assert series["low"] == pytest.approx([i / 20 for i in range(1, 13)])
    assert series["high"] == pytest.approx([(i + 1) / 20 for i in range(1, 13)])
    titles = {panel["title"] for panel in grpo.parts["curves"]}
    assert {"Groups whose returns differ (usable share)"} < titles
    assert "stage-seconds" in grpo.parts
    assert dict(grpo.missing)["rewards"] == (
        "this run has kept no rollouts: train with --set keep_rollouts=10 to draw this"
    )
    (shares,) = grpo.parts["step-groups-over-training"]
    assert [series["label"] for series in shares["series"]] == ["groups of 1", "groups of 2"]
    assert shares["series"][1]["top"] == pytest.approx([1.0] * 12)
    assert [row["Visits"] for row in spo3.visits] == ["1", "10"]
    assert [row["S"] for row in spo3.visits] == ["1", "0.1"]
    assert [row["K"] for row in spo3.visits] == ["9", "4"]


def test_names_stand_where_x_has_no_numbers():
    panel = Panel(
        title="t", x_label="", x=("a", "b"), series=(Series(label="s", y=(1.0, None)),), kind="bars"
    )
    assert chart(panel)["names"] == ["a", "b"]
    assert chart(panel)["x"] == [0, 1]
    assert chart(panel)["series"][0]["y"] == [1.0, None]


def test_one_visit_is_one_line():
    panel = Panel(title="t", x_label="", x=(3.0,), series=(Series(label="S", y=(0.5,)),))
    assert one_state_visits(Diagram(name="one-state", title="", panels=(panel,))) == [
        {"Visits": "3", "S": "0.5"}
    ]


@pytest.mark.browser
def test_charts_are_drawn_in_both_schemes(made_site, runs, visitor, tmp_path):
    build_site(made_site.results, tmp_path / "site", runs=runs)
    visitor.events.clear()
    for page in sorted((tmp_path / "site").glob("training-*.html")):
        visitor.look(page.as_uri())
        charts = visitor.value("document.querySelectorAll('.chart canvas[role=img]').length")
        assert charts >= 8
        for scheme in ("dark", "light"):
            visitor.scheme(scheme)
            visitor.settle()
            assert visitor.value("document.querySelectorAll('.chart canvas').length") == charts
        visitor.value("document.querySelector('.chart [role=group]').focus()")
        visitor.press("ArrowRight")
        visitor.settle()
        legend = visitor.value("document.querySelector('.chart .u-legend').textContent")
        assert "7.5 %" in legend or "5.0 %" in legend
    assert visitor.errors == []


def test_committed_curves_are_drawn_without_a_folder_of_runs(made_site, runs, tmp_path):
    reports = tmp_path / "reports"
    shutil.copytree(runs, reports / "curves")
    (reports / "published.toml").write_text("")
    for also in (None, reports / "curves" / "b-0"):  # the same run named twice is one run
        build_site(made_site.results, tmp_path / "site", runs=also, reports=reports)
        page = (tmp_path / "site" / "training.html").read_text()
        assert page.count("EZPoints-v0</a>") == 2
        assert "<code>a-0</code> <code>a-1</code>" in page


def test_this_repository_s_curves_can_be_read():
    histories, refused = find_histories(Path("benchmarks/curves"))
    assert {run.folder.name for run in histories} >= {"smollm2-grpo", "smollm2-gigpo"}
    assert refused == []
    assert all(page.parts["curves"] for page in training_pages(histories))
