"""The shipped suites on the real environments, with fewer tasks."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.verify.verification import verify_run
from tests.evaluation.making import board_below, write_complete

SUITES = Path(__file__).parents[2] / "agentgym" / "evaluation" / "suites"


def shortened(name: str, tasks: int, folder: Path) -> Path:
    """Write a suite with fewer tasks per environment."""
    path = folder / "suites" / f"{name}-short.toml"
    path.parent.mkdir()
    text = (SUITES / f"{name}.toml").read_text().replace(f'name = "{name}"', f'name = "{name}-short"')
    path.write_text(re.sub(r"tasks = \d+", f"tasks = {tasks}", text))
    return path


def test_the_quick_suite_is_run_replayed_and_ranked(tmp_path: Path) -> None:
    suite = shortened("quick", 6, tmp_path)
    for folder in run_bench(suite, tmp_path / "results", num_envs=7):
        assert verify_run(folder, rerun=True).problems == ()
    board = board_below(tmp_path / "results")
    assert [(row.name, row.rank, row.badge) for row in board.rows] == [
        ("oracle", 1, "re-run"),
        ("rules", 2, "re-run"),
        ("random", 3, "re-run"),
    ]
    floor = next(row for row in board.rows if row.name == "random")
    oracle, rules = board.rows[:2]
    assert all(oracle.envs[label].score.value > found.score.value for label, found in floor.envs.items())
    # rules win some kinds of questions now and then, and six tasks may hold none of them
    assert all(rules.envs[label].score.value >= found.score.value for label, found in floor.envs.items())
    for label, result in board.rows[0].envs.items():
        if not label.startswith("SOTOPIA"):  # out of 10, and a stubborn partner lets nobody have all
            assert result.score.value == 1.0
            assert result.score.low < 1.0


def test_a_sokoban_episode_cannot_be_edited(tmp_path: Path) -> None:
    suite = shortened("quick", 2, tmp_path)
    (folder,) = run_bench(suite, tmp_path / "results", agents=["random"])
    episodes = read_episodes(folder)
    index, lost = next((i, e) for i, e in enumerate(episodes) if e.env == "Sokoban 1 box" and not e.won)
    winner = replace(lost, won=True, score=1.0, progress=1.0, end_reason="success")
    episodes[index] = winner
    write_complete(folder, read_run(folder), episodes)
    problems = verify_run(folder, rerun=False).problems
    assert [(problem.kind, problem.where) for problem in problems] == [("replay", winner.id)]
    assert "score" in problems[0].detail


@pytest.mark.assets
@pytest.mark.parametrize(
    "name",
    [
        "official-alfworld-seen-current",
        "official-alfworld-seen-game",
        "official-alfworld-unseen-game",
        "official-sokoban",
        "official-webshop-small",
        "official-multihop-sample",
    ],
)
def test_the_official_suites_are_run_replayed_and_ranked(tmp_path: Path, name: str) -> None:
    suite = shortened(name, 10, tmp_path)
    for folder in run_bench(suite, tmp_path / "results"):
        assert read_run(folder).left_out == ()
        assert verify_run(folder).problems == ()
    board = board_below(tmp_path / "results")
    scores = {row.name: row.aggregate.mean.value for row in board.rows if row.aggregate}
    assert scores["random"] < scores["rules"] <= scores["oracle"]
