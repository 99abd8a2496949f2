"""Agents that remember: attempts one after the other, interrupted and resumed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

import agentgym.evaluation.play.bench as bench
from agentgym.core.types import Completion, Message, Policy, Request, Trajectory
from agentgym.errors import UsageError
from agentgym.evaluation.board.boards import make_boards
from agentgym.evaluation.board.exports import as_csv
from agentgym.evaluation.board.published import Published
from agentgym.evaluation.board.tables import markdown
from agentgym.evaluation.log.results import EPISODES_FILE, chained, episode_lines, reopened
from agentgym.evaluation.log.runfiles import read_episodes, read_run, write_run
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.verify.submissions import verify_below
from agentgym.evaluation.verify.verification import verify_run
from agentgym.vector.core import AgentVectorEnv
from tests.suite_texts import ORACLE, RANDOM, env_table, suite_text, write_suite

MAKE = f"{__name__}:make_learner"
SUITE = suite_text(
    "again",
    env_table("tests/Corridor-v0", 8, measures=["first_success", "any_success"]),
    agents=(RANDOM, ORACLE, {"name": "learner", "kind": MAKE}),
    seed=5,
    attempts=3,
)


class Learner:
    """Walks left at the first attempt at a task, and right from as many attempts on as the task is odd."""

    told: ClassVar[list[Trajectory]] = []

    def __init__(self) -> None:
        self._failed: dict[str, list[int]] = {}

    def ended(self, trajectory: Trajectory) -> None:
        Learner.told.append(trajectory)
        if not trajectory.won:
            self._failed.setdefault(trajectory.task_id, []).append(trajectory.rollout)

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Completion:
        failed = self._failed.get(request.task_id, [])
        right = len(failed) > int(request.task_id, 16) % 2
        said = f"I failed {failed}.\n\nAction: {'right' if right else 'left'}"
        messages = (Message("user", f"{request.observation}\n\nattempts: {failed}"),)
        return Completion("right" if right else "left", text=said, messages=messages, prompt_tokens=7)


def make_learner(envs: AgentVectorEnv) -> Policy:
    return Learner()


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    return write_suite(tmp_path, SUITE)


@pytest.fixture(autouse=True)
def _nobody_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTGYM_CACHE", str(tmp_path / "cache"))
    Learner.told = []


def test_all_first_attempts_are_played_before_any_second_one(suite: Path, tmp_path: Path) -> None:
    (folder,) = run_bench(suite, tmp_path / "results", agents=["learner"], num_envs=3)
    assert [e.rollout for e in read_episodes(folder)] == [0] * 8 + [1] * 8 + [2] * 8
    (other,) = run_bench(suite, tmp_path / "other", agents=["learner"], num_envs=64)
    assert read_run(folder).result_id == read_run(other).result_id
    assert verify_run(folder, suite=suite, rerun=True, allow=[MAKE]).problems == ()


@pytest.mark.parametrize("after", [1, 7, 8, 13, 20, 23])
def test_what_an_interrupted_run_played_is_told_again(
    suite: Path, tmp_path: Path, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole,) = run_bench(suite, tmp_path / "whole", agents=["learner"], num_envs=3)
    first = {(t.task_id, t.rollout): t for t in Learner.told}
    Learner.told = []
    played = bench._played

    def interrupted(*arguments):
        for count, trajectory in enumerate(played(*arguments)):
            if count == after:
                raise KeyboardInterrupt
            yield trajectory

    monkeypatch.setattr(bench, "_played", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_bench(suite, tmp_path / "results", agents=["learner"], num_envs=3)
    monkeypatch.setattr(bench, "_played", played)
    Learner.told = []
    (folder,) = run_bench(suite, tmp_path / "results", agents=["learner"], num_envs=3)
    assert read_run(folder).result_id == read_run(whole).result_id
    for again in Learner.told:
        before = first[again.task_id, again.rollout]
        spent = {"env_seconds": 0.0, "model_seconds": 0.0}
        assert replace(again, **spent) == replace(before, **spent)


def test_a_record_that_was_changed_is_not_told(suite: Path, tmp_path: Path) -> None:
    (folder,) = run_bench(suite, tmp_path / "results", agents=["learner"])
    run, lines = read_run(folder), read_episodes(folder)[:9]
    forged = chained(run.request_id, [replace(line, rewards=(0.5,) * line.length) for line in lines])
    (folder / EPISODES_FILE).write_bytes(episode_lines(forged))
    write_run(folder, reopened(run))
    with pytest.raises(UsageError, match="/0 does not come out again as it was recorded: remove the folder"):
        run_bench(suite, tmp_path / "results", agents=["learner"])


def test_columns_over_attempts(suite: Path, tmp_path: Path) -> None:
    run_bench(suite, tmp_path / "results")
    (board,), _ = make_boards(verify_below(tmp_path / "results", allow=[MAKE]))
    rows = {row.name: row.envs["Corridor"].measures for row in board.rows}
    assert rows["learner"]["first_success"].value == 0.0
    assert rows["learner"]["any_success"].value > 0.5
    for name, row in rows.items():
        assert row["first_success"].value <= row["any_success"].value, name
        assert {estimate.method for estimate in row.values()} == {"wilson"}
    page = markdown([board], Published())
    assert "| first_success % | any_success % |" in " ".join(page.split())
    assert "- *any_success*: tasks won within all attempts (higher is better)." in page
    assert "Corridor,,any_success," in as_csv([board])


def test_one_attempt_has_no_columns_over_attempts(suite: Path) -> None:
    suite.write_text(SUITE.replace("attempts = 3", "attempts = 1"))
    with pytest.raises(UsageError, match="any_success compares attempts, and the suite has one; raise"):
        load_suite(suite)
