"""An environment of one's own, in one file: move a number along a line until it is the target.

Run as a program it checks itself against the contract, and lets its oracle play:

    python examples/own_env.py
    agentgym play examples.own_env:examples/NumberLine-v0 --agent oracle
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any, ClassVar

import gymnasium

from agentgym import (
    AgentEnv,
    Completion,
    Outcome,
    Policy,
    Request,
    Status,
    Task,
    UsageError,
    check_agent_env,
)
from agentgym.core.hashing import content_id
from agentgym.core.tasks import ListTaskSet, check_split, split_of
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker

ENV_ID = "examples/NumberLine-v0"
LINE = range(10)


def number_task(start: int, target: int) -> Task:
    """Return the task of two numbers."""
    content = (start, target)
    return Task(content_id(content), content, source_id=f"{start} to {target}")


class NumberLine(AgentEnv[str]):
    """Change a number by one at a time until it is the target.

    **Task**: a start and a target, two different numbers from 0 to 9. **Actions**: ``+`` and ``-``; one that
    would leave the line is rejected. **Reward**: 1 for reaching the target, which ends the game.
    """

    suite: ClassVar[str] = "number-line"
    default_max_steps: ClassVar[int] = 20

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: str = "builtin",
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        """Choose the tasks."""
        if dataset != "builtin":
            raise UsageError(f"unknown dataset {dataset!r}; choose builtin")
        check_split(split, self.splits)
        tasks = [number_task(*pair) for pair in permutations(LINE, 2)]
        mine = [task for task in tasks if split_of(task.id) == split]
        taskset = ListTaskSet(split, mine, dataset=dataset, suite=self.suite)
        super().__init__(
            taskset,
            data_key=dataset,
            max_steps=max_steps,
            render_mode=render_mode,
        )

    def _load(self, task: Task) -> None:
        self._number, self._target = task.content

    def _apply(self, action: str) -> Outcome:
        if action not in self._admissible():
            return Outcome(0.0, valid=False)
        self._number += 1 if action == "+" else -1
        reached = self._number == self._target
        return Outcome(float(reached), terminated=reached)

    def _admissible(self) -> tuple[str, ...]:
        ends = {"+": LINE[-1], "-": LINE[0]}
        return tuple(action for action, end in ends.items() if self._number != end)

    def _observe(self) -> str:
        text = f"Target: {self._target}\nNumber: {self._number}"
        return text if self._valid else f"{text}\nThe last action was not accepted."

    def _status(self) -> Status:
        distance = abs(self._number - self._target)
        won = distance == 0
        return Status(won, score=float(won), progress=1 - distance / len(LINE))

    def _state(self) -> Any:
        return self._number

    def _set_state(self, state: Any) -> None:
        self._number = state

    def oracle(self) -> Policy:
        """Return the policy that walks straight to the target."""
        return NumberLineOracle()


class NumberLineOracle:
    """Reads the number and the target from the snapshot, as only an oracle may."""

    def act(self, requests: Sequence[Request]) -> list[Completion]:
        """Answer each request."""
        return [Completion(self._choose(request)) for request in requests]

    def _choose(self, request: Request) -> str:
        assert request.snapshot is not None
        snapshot = request.snapshot()
        _, target = snapshot.task.content
        return "+" if snapshot.state < target else "-"


gymnasium.register(ENV_ID, entry_point=f"{__name__}:NumberLine")

if __name__ == "__main__":
    check_agent_env(ENV_ID)
    envs = open_vector(ENV_ID, num_envs=8, split="test")
    worker = RolloutWorker(envs, envs.oracle(), env_id=ENV_ID)
    groups = worker.collect(envs.tasks.ids, group_size=1, seed=0)
    won = sum(episode.won for group in groups for episode in group.trajectories)
    tasks = len(envs.tasks)
    print(f"the contract is kept; the oracle wins {won} of {tasks} test tasks")
