"""Steps to a win: what a suite knows of the shortest ways of its games."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from agentgym.core.types import Observation, Step


class StepBounds(NamedTuple):
    """Bounds on a number of steps: equal where it is proven, infinite where no steps do it."""

    low: float
    high: float

    def __str__(self) -> str:
        """The number, or both bounds; ``none`` where no steps do it."""
        low, high = (f"{each:.4g}" if each < math.inf else "none" for each in self)
        return low if low == high else f"{low}..{high}"

    @property
    def as_json(self) -> list[float | None]:
        """Both bounds; None for infinite ones, which JSON does not have."""
        return [each if each < math.inf else None for each in self]


NO_WAY = StepBounds(math.inf, math.inf)
"""Distance of a dead end."""


class GoalDistance:
    """Steps to a win in one episode, whose steps it is shown in order."""

    def __init__(self, left: Callable[[Any], StepBounds]):
        """Take the length of a shortest way to a win as a function of the state, `Snapshot.state`."""
        self.left = left

    def imagined(self, step: Step, answer: Observation, before: Any, after: Any) -> Iterable[tuple[Any, Any]]:
        """Return what a step would lead from and to in other worlds that the observations before it allow.

        None by default, for games that show their whole state. ``answer``: the observation after the step.
        """
        return ()
