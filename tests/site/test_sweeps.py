"""Pages of sweeps: curves of arms over seeds, the reports' numbers, and what cannot be read."""

import json
import re
from pathlib import Path

import pytest

from agentgym.site.build import build_site
from agentgym.site.sweeps import BOTTOM, LEFT, RIGHT, TOP, sweep_pages

COMMITTED = Path("benchmarks/algorithms")


def run_of(arm, seed, success, won, *, end="budget", steps=(50, 100)):
    """Return a run as a study's file keeps it."""
    return {
        "arm": arm,
        "environment": "line",
        "algorithm": "grpo",
        "seed": seed,
        "budget": 100,
        "end": end,
        "env_steps": list(steps),
        "success": list(success),
        "won": [[won]],
    }


@pytest.fixture
def reports(tmp_path):
    """Return a folder of reports: a study, one without runs, damaged ones, and something else."""
    folder = tmp_path / "reports" / "algorithms"
    folder.mkdir(parents=True)
    (folder.parent / "published.toml").write_text("")
    runs = [run_of("a", seed, (0.5, 0.5), 0) for seed in (0, 1)]
    runs += [run_of("b <i>", seed, (0.2, 0.2), 1, end="exhausted", steps=(10, 60)) for seed in (0, 1)]
    table = {
        "study": "two",
        "source": "nobody",
        "environments": {"line": {"title": "Line", "about": "a walk", "budget": 100}},
        "runs": runs,
    }
    (folder / "sweep-two.json").write_text(json.dumps(table))
    (folder / "sweep-two.md").write_text("# Two arms\n\nwords\n")
    (folder / "sweep-later.md").write_text("# Later\n")
    (folder / "sweep-lost.json").write_text(json.dumps(table))
    (folder / "sweep-later.json").write_text(json.dumps({**table, "runs": []}))
    (folder / "sweep-torn.json").write_text(json.dumps({**table, "runs": [{**runs[0], "won": []}]}))
    (folder / "coverage.json").write_text("{}")
    return folder.parent


def test_arms_are_drawn_from_their_runs(reports):
    (two,), refused = sweep_pages(reports / "algorithms")  # a study without runs has no page
    assert (two.title, two.arms, two.runs, two.file) == ("Two arms", 2, 4, "study-two.html")
    assert [name for name, _ in refused] == ["sweep-lost.json", "sweep-torn.json"]
    (part,) = two.parts
    assert (part.title, part.about, part.budget, part.top) == ("Line", "A walk", 100, 0.5)
    best, other = part.arms
    assert (best.label, best.stopped, str(best.success)) == ("b <i>", 2, "1.00 [1.00, 1.00]")
    # .5 of a height of .5 is the top; .2 of it two fifths
    assert other.line.startswith(f"M{LEFT + (RIGHT - LEFT) / 2:.1f} {TOP:.1f}L")
    assert other.line.endswith(f"{RIGHT:.1f} {TOP:.1f}")
    assert best.line.endswith(f"{LEFT + (RIGHT - LEFT) * 0.6:.1f} {BOTTOM - 0.4 * (BOTTOM - TOP):.1f}")


def test_a_band_is_students_interval(reports):
    path = reports / "algorithms" / "sweep-two.json"
    table = json.loads(path.read_text())
    table["runs"] = [run_of("a", seed, (share, share), 0) for seed, share in enumerate((0.4, 0.5, 0.6))]
    path.write_text(json.dumps(table))
    (arm,) = sweep_pages(reports / "algorithms")[0][0].parts[0].arms
    # .5 -+ 4.303 * .1 / sqrt 3, on a height of .8
    places = [float(y) for y in re.findall(r"[\d.]+ ([\d.]+)", arm.band)]
    ends = [BOTTOM - (BOTTOM - TOP) * share / 0.8 for share in (0.5 + 0.2484, 0.5 - 0.2484)]
    assert [places[0], places[-1]] == pytest.approx(ends, abs=0.06)


def test_the_committed_studies_show_their_reports_numbers():
    pages, refused = sweep_pages(COMMITTED)
    assert refused == []
    studies = [
        json.loads(path.read_text()) for path in (*COMMITTED.glob("sweep-*.json"), COMMITTED / "report.json")
    ]
    assert len(pages) == sum(bool(study["runs"] or study.get("beside")) for study in studies)
    for page in pages:
        printed = re.findall(
            r"^\| (.+?)(?: \(\d+ \w+\))? \| (\d+) \| ([\d.]+) \[([\d.]+), ([\d.]+)\] \|", page.report, re.M
        )
        drawn = []
        for part in page.parts:
            for arm in part.arms:
                ends = (arm.success.value, arm.success.low, arm.success.high)
                drawn.append((arm.label, str(arm.runs), *(f"{100 * each:.1f}" for each in ends)))
                assert min(arm.line, arm.band) > ""
        assert sorted(drawn) == sorted(printed), page.name


@pytest.mark.browser
def test_pages_of_sweeps_fit_and_load_nothing(made_site, reports, visitor, tmp_path):
    for source in ("report.json", "report.md"):
        (reports / "algorithms" / source).write_text((COMMITTED / source).read_text())
    build_site(made_site.results, tmp_path / "site", reports=reports)
    visitor.events.clear()
    base = (tmp_path / "site").as_uri() + "/"
    for page, pictures in (("study-two.html", 2), ("study-report.html", 51)):
        visitor.look(base + page)
        assert visitor.value("document.querySelectorAll('.arms svg').length") == pictures
        for width in (360, 1280):
            visitor.resize(width, 900)
            assert visitor.value("document.documentElement.scrollWidth - window.innerWidth") <= 0
    visitor.look(base + "study-two.html")
    shown = "[...document.querySelectorAll('.arms strong')].map(e => e.textContent)"
    assert visitor.value(shown) == ["b <i>", "a"]
    assert (tmp_path / "site" / "study-two.txt").read_text() == "# Two arms\n\nwords\n"
    visitor.look(base + "training.html")
    assert visitor.value("document.querySelectorAll('a[href=\"study-two.txt\"]').length") == 1
    assert "sweep-torn.json" in visitor.value("document.body.textContent")
    assert visitor.errors == []
    assert visitor.elsewhere(base) == []
    visitor.resize(900, 900)
