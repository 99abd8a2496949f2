"""An agent that does not play an environment: an empty column, no rank, and no way to pretend it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.agents.rules import RULES_VERSION
from agentgym.cli import main
from agentgym.core.hashing import sha256_json
from agentgym.errors import UsageError
from agentgym.evaluation.board.boards import Board
from agentgym.evaluation.board.leaderboard import build_leaderboard
from agentgym.evaluation.log.results import Excluded
from agentgym.evaluation.log.runfiles import read_episodes, read_run, write_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.verification import verify_run
from tests.evaluation.making import board_below, write_complete
from tests.suite_texts import ORACLE, RANDOM, RULES, env_table, suite_text, write_suite

SUITE = suite_text(
    "mixed",
    env_table("agentgym/EZPoints-v0", 9, by_type=True),
    env_table("tests/Corridor-v0", 6),
    agents=(RANDOM, ORACLE, RULES),
    seed=7,
)

REASON = "the suite 'corridor' has no rules: name them in its SuiteSpec, or use the agent 'random'"


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return write_suite(tmp_path, SUITE)


@pytest.fixture
def rules_run(mixed: Path, tmp_path: Path) -> Path:
    (folder,) = run_bench(mixed, tmp_path / "results", agents=["rules"])
    return folder


def board_of(mixed: Path, results: Path) -> Board:
    run_bench(mixed, results)
    return board_below(results)


def test_the_run_says_what_is_left_out_and_plays_the_rest(rules_run: Path, mixed: Path) -> None:
    run = read_run(rules_run)
    assert run.left_out == run.unsupported == (Excluded("Corridor", REASON),)
    assert [found.env.label for found in run.envs] == ["EZPoints", "Corridor"]
    assert {episode.env for episode in read_episodes(rules_run)} == {"EZPoints"}
    verdict = verify_run(rules_run, rerun=True)
    assert (verdict.problems, verdict.badge) == ((), "re-run")
    before = (rules_run / "run.json").read_bytes()
    assert run_bench(mixed, rules_run.parents[1], agents=["rules"]) == [rules_run]
    assert (rules_run / "run.json").read_bytes() == before


def test_its_row_has_an_empty_column_and_no_rank(mixed: Path, tmp_path: Path) -> None:
    board = board_of(mixed, tmp_path / "results")
    ranks = {row.name: (row.rank, row.aggregate is not None, list(row.envs)) for row in board.rows}
    assert ranks == {
        "oracle": (1, True, ["EZPoints", "Corridor"]),
        "random": (2, True, ["EZPoints", "Corridor"]),
        "rules": (None, False, ["EZPoints"]),
    }
    assert [row.left_out for row in board.rows if row.name == "rules"] == [(Excluded("Corridor", REASON),)]
    assert board.left_out == ()
    assert {name for pair in board.comparisons for name in (pair.first, pair.second)} == {"oracle", "random"}


def test_the_page_says_why(mixed: Path, tmp_path: Path) -> None:
    board_of(mixed, tmp_path / "results")
    build_leaderboard(tmp_path / "results", tmp_path / "LEADERBOARD.md")
    page = " ".join((tmp_path / "LEADERBOARD.md").read_text().split())
    assert "| - | rules | 100.0 [70.1, 100.0] | - | n/a | n/a | re-run |" in page
    assert f"- `rules` is not ranked: it does not play **Corridor**: {REASON}." in page
    assert "- & rules & 100.0" in (tmp_path / "LEADERBOARD.tex").read_text()
    rows = json.loads((tmp_path / "LEADERBOARD.json").read_text())["boards"][0]["rows"]
    assert [row["left_out"] for row in rows if row["name"] == "rules"] == [
        [{"label": "Corridor", "reason": REASON}]
    ]


def test_without_the_floor_in_a_column_it_is_not_normalised(mixed: Path, tmp_path: Path) -> None:
    mixed.write_text(SUITE.replace("seed = 7\n", 'seed = 7\nfloor = "rules"\n'))
    board = board_of(mixed, tmp_path / "results")
    assert list(board.scales) == ["EZPoints"]
    assert next(row for row in board.rows if row.name == "rules").rank is None


def test_an_agent_that_plays_an_environment_cannot_leave_it_out(mixed: Path, tmp_path: Path) -> None:
    (folder,) = run_bench(mixed, tmp_path / "results", agents=["random"])
    run = read_run(folder)
    kept = [episode for episode in read_episodes(folder) if episode.env == "EZPoints"]
    write_complete(folder, replace(run, left_out=(Excluded("Corridor", REASON),)), kept)
    verdict = verify_run(folder)
    assert [str(problem) for problem in verdict.problems] == [
        "environment: Corridor: left out, though the agent plays it"
    ]


def test_a_column_that_is_left_out_cannot_be_filled(rules_run: Path) -> None:
    run = read_run(rules_run)
    write_run(rules_run, replace(run, left_out=()))
    kinds = {problem.kind for problem in verify_run(rules_run).problems}
    assert "missing" in kinds


def test_an_agent_that_plays_nothing_is_refused(mixed: Path, tmp_path: Path) -> None:
    shopper = SuiteAgent("shopper", "shopper")
    with pytest.raises(UsageError, match=r"^agent 'shopper' plays nothing of suite mixed; [^\n]+$"):
        run_bench(mixed, tmp_path / "results", agents=["shopper"], further=[shopper])
    assert not (tmp_path / "results").exists()


def test_the_command_says_what_is_left_out(mixed: Path, tmp_path: Path, capsys) -> None:
    assert main(["bench", str(mixed), "--agent", "rules", "--out", str(tmp_path / "results")]) == 0
    captured = capsys.readouterr()
    assert f"left out: rules: Corridor: {REASON}" in captured.out + captured.err


# --- versions ---------------------------------------------------------------------------------------


def test_a_run_of_rules_names_their_version(rules_run: Path) -> None:
    assert read_run(rules_run).agent.options == {"version": RULES_VERSION}


def test_a_run_of_the_rules_that_played_at_random_is_told_apart(mixed: Path, tmp_path: Path) -> None:
    """Runs from before rules had versions recorded none: another request, refused by verification."""
    results = tmp_path / "results"
    (random,) = run_bench(mixed, results, agents=["random"])
    run_bench(mixed, results)
    run = read_run(random)
    old = replace(run, agent=SuiteAgent("rules", "rules"))
    old = replace(old, request_id=sha256_json(old.request))
    folder = results / "mixed" / old.folder_name
    folder.mkdir()
    write_complete(folder, old, read_episodes(random))
    assert [str(problem) for problem in verify_run(folder).problems] == [
        "agent: rules: differs from the suite's agent of that name"
    ]
    board = board_below(results)
    assert [run.run for run in board.unranked] == [old.request_id]
    assert [row.left_out != () for row in board.rows if row.name == "rules"] == [True]
