"""Rewards of calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

PENALTY: Final = -0.5
"""For a query that was made before, a paper that is not in the pool, or one that has been expanded."""

BEST: Final = 3
"""New papers of a call whose scores count."""

DISCRETE_FROM: Final = 0.4
"""Scores from here on count 1, the others 0, where rewards are discrete."""


@dataclass(frozen=True, slots=True)
class CallReward:
    """The reward of a call that was made: the sum of the `BEST` new scores, less its cost.

    Example:
        >>> CallReward().of([0.25, 0.75, 0.5, 0.5]), CallReward(discrete=True, cost=0.5).of([0.3, 0.4])
        (1.75, 0.5)
    """

    cost: float = 0.0
    discrete: bool = False

    def of(self, scores: Iterable[float]) -> float:
        """Return the reward, given the scores of the papers that came into the pool."""
        best = sorted(scores, reverse=True)[:BEST]
        if self.discrete:
            best = [float(score >= DISCRETE_FROM) for score in best]
        return sum(best) - self.cost
