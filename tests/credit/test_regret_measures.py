"""Regret as columns of a board: chosen by a suite, found by replaying, none of it recorded by a run."""

import json

import pytest

from agentgym.cli import main
from agentgym.core.distances import StepBounds
from agentgym.credit.regret import EpisodeRegret, regret_of_run
from agentgym.errors import UsageError
from agentgym.evaluation.suites.plan import columns
from agentgym.evaluation.suites.suite import SuiteEnv
from agentgym.evaluation.verify.archives import open_run

SUITE = """
name = "regrets"
version = "1"
seed = 3
attempts = 1
floor = "random"
oracle = "oracle"

[[env]]
id = "agentgym/Sokoban-v0"
label = "Sokoban"
split = "test"
tasks = 6
measures = ["spl", "regret", "belief_regret"]
kwargs = { max_optimal = 4, max_steps = 12, effective_only = true }

[[agent]]
name = "random"
kind = "random"

[[agent]]
name = "oracle"
kind = "oracle"
"""


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    folder = tmp_path_factory.mktemp("regrets")
    (folder / "regrets.toml").write_text(SUITE)
    results = folder / "results"
    for agent in ("random", "oracle"):
        words = ["bench", str(folder / "regrets.toml"), "--agent", agent, "--out", str(results)]
        assert main(words) == 0
    page = folder / "board.md"
    assert (
        main(
            [
                "leaderboard",
                "build",
                str(results),
                "--out",
                str(page),
                "--suite",
                str(folder / "regrets.toml"),
            ]
        )
        == 0
    )
    return results, page


def test_the_oracle_loses_nothing_and_chance_what_its_episodes_say(board):
    results, page = board
    rows = {
        row["name"]: row for row in json.loads(page.with_suffix(".json").read_text())["boards"][0]["rows"]
    }
    assert "lost against shortest ways to a win" in page.read_text()
    for name, row in rows.items():
        (folder,) = results.rglob(f"{name}-*/run.json")
        run = open_run(folder.parent)
        assert all("regret" not in episode.measures for episode in run.results)
        shares = [regret.share(regret.known) for _, regret in regret_of_run(run, run.results)]
        shown = row["envs"]["Sokoban"]["measures"]["regret"]["value"]
        assert shown == pytest.approx(sum(shares) / len(shares))
        # a game that shows its whole state has one world
        assert row["envs"]["Sokoban"]["measures"]["belief_regret"]["value"] == shown
    assert rows["oracle"]["envs"]["Sokoban"]["measures"]["regret"]["value"] == 0.0
    assert rows["random"]["envs"]["Sokoban"]["measures"]["regret"]["value"] > 0.3


def test_a_dead_end_loses_everything_and_a_bound_no_more_than_is_proven():
    steps = (StepBounds(0, 2), StepBounds(1, 1), StepBounds(2, 4))
    regret = EpisodeRegret((StepBounds(5, 5),) * 4, steps, 12)
    assert regret.share(steps) == 3 / 12
    assert regret.share((*steps, StepBounds(float("inf"), float("inf")))) == 1.0
    assert regret.share(()) == 0.0


def test_only_environments_with_a_distance_have_the_columns():
    env = SuiteEnv("agentgym/WebShop-v0", "shop", "test", 1, measures=("regret",))
    with pytest.raises(UsageError, match="no measure 'regret'"):
        columns(env)
