"""Curricula: which tasks are played, from easy ones to hard ones, stage by stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Any

import numpy as np

from agentgym.core.arrays import Ints
from agentgym.core.options import Bounds, NonNegativeInt, check_choice, check_fields
from agentgym.core.tasks import Task, TaskSet
from agentgym.errors import UsageError
from agentgym.history.numerics import WINDOW

TYPE = "type"
"""Name of the tasks' type among their metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CurriculumConfig:
    """Stages of difficulty, and when the next one begins: at the first of its conditions that holds.

    Example:
        >>> CurriculumConfig(by="optimal_moves", levels=(3, 6, 12), iterations=20).levels
        (3, 6, 12)
    """

    by: str = ""
    """Key of `agentgym.core.tasks.Task.metadata` that measures difficulty, such as Sokoban's
    ``optimal_moves`` or MuSiQue's ``hops``; or ``type``."""
    levels: tuple[Any, ...] = ()
    """Difficulty added by each stage: its greatest number, or its words, such as ``("easy", "medium",
    "hard")``. Tasks beyond the last stage are never played."""
    iterations: NonNegativeInt = 0
    """Iterations of a stage; 0 for no limit by iterations."""
    success: Annotated[float, Bounds(0, 1)] = 0.0
    """Mean success over the stage's last five iterations that ends it; 0 for no limit by success."""

    def __post_init__(self) -> None:
        """Check that the stages differ, and begin with the first."""
        check_fields(self)
        if not self.by:
            raise UsageError("a curriculum goes by a fact of tasks: set curriculum.by, such as hops")
        words = all(isinstance(level, str) for level in self.levels)
        numbers = all(type(level) in (int, float) for level in self.levels)
        distinct = len(set(self.levels)) == len(self.levels) > 1
        if not distinct or not (words or (numbers and list(self.levels) == sorted(self.levels))):
            raise UsageError(
                "curriculum.levels are at least two numbers in ascending order, or words, each once, got "
                f"{list(self.levels)!r:.60}"
            )
        if not (self.iterations or self.success):
            raise UsageError("say when a stage ends: set curriculum.iterations, curriculum.success or both")


class Curriculum:
    """The stages of a run: which tasks each has, and from which position of the order on.

    Example:
        >>> from agentgym.envs.sokoban.env import SokobanEnv
        >>> config = CurriculumConfig(by="optimal_moves", levels=(2, 4), iterations=2)
        >>> curriculum = Curriculum(config, SokobanEnv(max_optimal=4).tasks)
        >>> curriculum.report(0.5), curriculum.report(0.5)
        (False, True)
        >>> curriculum.begin_next(32)
        >>> curriculum.stage_at(31), curriculum.stage_at(32)
        (0, 1)
    """

    def __init__(self, config: CurriculumConfig, tasks: TaskSet):
        """Look at all tasks; `UsageError` where they lack the fact, or a stage adds none of them."""
        self.config = config
        self._stages = _stages(config, tasks)  # stage of each task; one more than the last for none
        self._starts = [0]
        self._successes: list[float] = []
        """Success of each iteration since the last stage began."""

    def stage_at(self, position: int) -> int:
        """Return the stage of a position in the order of tasks, from 0."""
        return sum(start <= position for start in self._starts) - 1

    def start(self, stage: int) -> int:
        """Return the position from which on a stage is played."""
        return self._starts[stage]

    def tasks(self, stage: int) -> Ints:
        """Return the places in the split of a stage's tasks."""
        return np.flatnonzero(self._stages <= stage)

    def report(self, success: float) -> bool:
        """Take the success of an iteration; return whether the next stage should begin."""
        config = self.config
        self._successes.append(success)
        if len(self._starts) == len(config.levels):
            return False
        done, last = len(self._successes), self._successes[-WINDOW:]
        by_success = 0 < config.success <= fmean(last) and done >= WINDOW
        return by_success or 0 < config.iterations <= done

    def begin_next(self, position: int) -> None:
        """Begin the next stage at a position."""
        self._starts.append(position)
        self._successes = []

    def describe(self) -> Mapping[str, float]:
        """Return the newest stage and the number of its tasks, for the log."""
        stage = len(self._starts) - 1
        return {"stage": float(stage), "tasks": float(len(self.tasks(stage)))}

    def state_dict(self) -> dict[str, Any]:
        """Return how far the run has come."""
        return {"starts": list(self._starts), "successes": list(self._successes)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self._starts, self._successes = list(state["starts"]), list(state["successes"])


def _stages(config: CurriculumConfig, tasks: TaskSet) -> Ints:
    """Return the first stage that plays each task; the number of stages where none does."""
    facts = [_fact(task, config.by) for task in tasks]
    _check(config, facts, tasks[0])
    if isinstance(config.levels[0], str):
        places = {level: stage for stage, level in enumerate(config.levels)}
        stages = np.array([places.get(fact, len(places)) for fact in facts])
    else:
        stages = np.searchsorted(np.array(config.levels, np.float64), np.array(facts, np.float64))
    counts = np.bincount(stages, minlength=len(config.levels))
    for level, count in zip(config.levels, counts, strict=False):
        if not count:
            known = ", ".join(map(str, sorted(set(facts))[:20]))
            raise UsageError(f"the level {level!r} of curriculum.levels adds no task: {config.by} is {known}")
    return stages


def _fact(task: Task, name: str) -> Any:
    return task.type if name == TYPE else task.metadata.get(name)


def _check(config: CurriculumConfig, facts: Sequence[Any], example: Task) -> None:
    """Refuse a fact that tasks lack, or whose values cannot be compared with the levels."""
    kinds = {name: _kind(value) for name, value in {TYPE: example.type, **example.metadata}.items()}
    known = [name for name, kind in kinds.items() if kind]
    check_choice("curriculum.by", config.by, known)
    wanted = _kind(config.levels[0])
    if any(_kind(fact) != wanted for fact in facts):
        raise UsageError(
            f"curriculum.levels are {wanted}s, and {config.by} is not one of every task: choose another fact "
            f"or other levels ({config.by} of the first is {_fact(example, config.by)!r:.40})"
        )


def _kind(value: Any) -> str:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return "number" if number else "word" if isinstance(value, str) else ""
