"""A tiny environment whose chance depends on the seed: walk right on a slippery floor."""

import math
import os
import time
from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium

from agentgym.core.suite_spec import Measure, SuiteSpec
from agentgym.core.tasks import ListTaskSet, Task
from agentgym.core.types import Completion, Policy, Request, Trajectory
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.errors import MissingDataError
from agentgym.vector.serial import SerialVectorEnv

ENV_ID = "tests/Corridor-v0"
MEASURED_ID = "tests/MeasuredCorridor-v0"


class WalkRight:
    def act(self, requests: Sequence[Request]) -> list[Completion]:
        return [Completion("right", prompt_tokens=10, completion_tokens=2, cost=0.001) for _ in requests]


class Listener(WalkRight):
    """Hears how episodes end."""

    ends: ClassVar[list[int]] = []
    """Which attempt at its task each was."""

    def __init__(self, envs: object):
        self.ends.clear()

    def ended(self, trajectory: Trajectory) -> None:
        self.ends.append(trajectory.rollout)


class CorridorEnv(AgentEnv[str]):
    suite = "corridor"
    default_max_steps = 8

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: str = "builtin",
        slip: float = 0.2,
        delay: float = 0.0,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        if dataset != "builtin":
            raise MissingDataError(f"no data {dataset!r}: run `agentgym data import corridor PATH`")
        size = int(os.environ.get("CORRIDOR_TASKS", "40"))
        tasks = [
            Task(f"{i:032x}", i % 5 + 2, f"corridor#{i}", "long" if i % 5 > 2 else "short")
            for i in range(size)
        ]
        self._slip = slip
        self._delay = delay
        super().__init__(
            ListTaskSet(split, tasks, dataset=dataset, suite="corridor"),
            data_key=dataset,
            max_steps=max_steps,
            render_mode=render_mode,
        )

    def _load(self, task: Task) -> None:
        self._length: int = task.content
        self._at = 0

    def _apply(self, action: str) -> Outcome:
        if self._delay:
            time.sleep(self._delay)
        if action not in ("left", "right"):
            return Outcome(-0.3, valid=False)
        if self.np_random.random() >= self._slip:
            self._at = max(-1, self._at + (1 if action == "right" else -1))
        over = self._at in (-1, self._length)
        return Outcome(1.0 if self._at == self._length else -0.1, terminated=over)

    def _observe(self) -> str:
        return f"You are at {self._at} of {self._length}."

    def _admissible(self) -> tuple[str, ...]:
        return ("left", "right")

    def _status(self) -> Status:
        won = self._at == self._length
        return Status(won, float(won), max(0, self._at) / self._length)

    def _state(self) -> Any:
        return (self._at, self._length)

    def _set_state(self, state: Any) -> None:
        self._at, self._length = state

    def oracle(self) -> Policy:
        return WalkRight()


class MeasuredCorridorEnv(CorridorEnv):
    """One measure of each direction, and a sum."""

    suite_spec = SuiteSpec(
        name="corridor",
        measures=(
            Measure(name="near", about="share of the way gone"),
            Measure(name="left", about="share of the way left", bounds=(0.0, 1.5), better="lower"),
            Measure(name="slips", about="steps that led nowhere", bounds=(0.0, math.inf), better="neither"),
            Measure(
                name="moves",
                about="steps played",
                bounds=(0.0, math.inf),
                unit="steps",
                total=True,
                better="neither",
            ),
        ),
    )

    def _measures(self) -> dict[str, float]:
        way = self._at / self._length
        slips = float(max(0, self._turn - abs(self._at)))
        return {"near": max(0.0, way), "left": 1.0 - way, "moves": float(self._turn), "slips": slips}


class CorridorVectorEnv(SerialVectorEnv):
    env_class = CorridorEnv


class MeasuredCorridorVectorEnv(SerialVectorEnv):
    env_class = MeasuredCorridorEnv


def register() -> None:
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(ENV_ID, entry_point=CorridorEnv, vector_entry_point=CorridorVectorEnv)
        gymnasium.register(
            MEASURED_ID, entry_point=MeasuredCorridorEnv, vector_entry_point=MeasuredCorridorVectorEnv
        )
