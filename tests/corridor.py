"""A small suite to test with: walk to the end of a corridor whose floor pays by chance."""

from typing import Any

from agentgym.core.hashing import content_id
from agentgym.core.tasks import ListTaskSet, Task, check_split
from agentgym.core.types import Completion
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.errors import UsageError
from agentgym.vector.serial import SerialVectorEnv

LENGTHS = (1, 2, 3, 5, 8, 4, 6)


class CorridorEnv(AgentEnv[str]):
    """Reach the last of n cells; ``fall`` ends the episode, a step to the right pays at random."""

    suite = "corridor"
    splits = ("train", "test")
    state_type = tuple[int, bool]
    default_max_steps = 12

    def __init__(self, *, split="train", dataset="builtin", max_steps=None, render_mode=None):
        check_split(split, ["train", "test"])
        if dataset != "builtin":
            raise UsageError(f"unknown dataset {dataset!r}; choose builtin")
        lengths = LENGTHS if split == "train" else (7,)
        tasks = [Task(content_id(n), n, source_id=f"corridor{n}", type=f"odd{n % 2}") for n in lengths]
        taskset = ListTaskSet(split, tasks, dataset=dataset, suite=self.suite)
        super().__init__(taskset, data_key="corridor", max_steps=max_steps, render_mode=render_mode)

    def _load(self, task: Task) -> None:
        self._cell, self._fallen = 0, False

    def _apply(self, action: str) -> Outcome:
        if action == "break":
            raise RuntimeError("the corridor broke")
        if action == "fall":
            self._fallen = True
            return Outcome(-1.0, terminated=True)
        if action not in self._admissible():
            return self._reject(action)
        self._cell += 1 if action == "right" else -1
        return Outcome(float(self.np_random.random()), terminated=self._cell == self.task.content)

    def _reject(self, action: str) -> Outcome:
        return Outcome(-0.5, valid=False)

    def _observe(self) -> str:
        text = f"cell {self._cell} of {self.task.content}"
        return text if self._valid else f"{text}; not accepted"

    def _admissible(self) -> tuple[str, ...]:
        return ("right", "left", "fall") if self._cell else ("right", "fall")

    def _status(self) -> Status:
        won = self._cell == self.task.content
        return Status(won, float(won), self._cell / self.task.content)

    def _state(self) -> Any:
        return (self._cell, self._fallen)

    def _check_state(self, task: Task, state: Any, terminated: bool) -> None:
        if not 0 <= state[0] <= task.content:
            raise ValueError(f"no corridor of length {task.content} has a cell {state[0]}")

    def _set_state(self, state: Any) -> None:
        self._cell, self._fallen = state

    def _extra_info(self) -> dict[str, Any]:
        return {"cell": self._cell}

    def oracle(self) -> "RightPolicy":
        return RightPolicy()

    def walkthrough(self, task: Task) -> tuple[str, ...] | None:
        return None if task.content == 8 else ("right",) * task.content


class CorridorVectorEnv(SerialVectorEnv):
    """Corridors side by side."""

    env_class = CorridorEnv


class RightPolicy:
    """Always walks right."""

    def act(self, requests):
        return [Completion("right") for _ in requests]
