"""Choice among readings: what the best of several evaluations of equal agents comes to by chance alone.

A reading is a share of tasks that are won. Of k equal checkpoints read on n tasks, each won with chance p,
the best has the distribution ``F(x; n, p)^k`` (order statistics of the binomial). A result that is the mean
over seeds is a mean of such maxima.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.evaluation.board.statistics import CONFIDENCE

MAX_TASKS = 20_000
"""Most tasks of a reading, over all seeds: distributions of more are not computed."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A number with the ends of its interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Choice:
    """How a result came about: the mean over seeds of the best of some readings each.

    Example:
        >>> round(100 * Choice(tasks=128, readings=30).expected(0.8), 1)
        86.9
    """

    tasks: int
    readings: int = 1
    """Readings of which the best is shown; 1 for none to choose from."""
    seeds: int = 1

    def outcomes(self, chance: float) -> Floats:
        """Return the probability of 0 to ``tasks * seeds`` wins, added up over seeds."""
        if self.readings == 1:
            return _binomial(self.tasks * self.seeds, chance)
        best = best_of(_binomial(self.tasks, chance), self.readings)
        total = best
        for _ in range(self.seeds - 1):
            total = np.convolve(total, best)
        return total

    def expected(self, chance: float) -> float:
        """Return the expected result of checkpoints that win each task with this chance."""
        return _mean(self.outcomes(chance))

    def true_success(self, result: float) -> Interval:
        """Return the success that leads to a result, with its interval.

        The value is the success whose expected result this is. The ends of the interval are those at which
        the mid-p value of the result is 2.5 %; ``benchmarks/choosing.md`` has its coverage.
        """
        wins = round(result * self.tasks * self.seeds)

        def below(chance: float) -> float:
            outcomes = self.outcomes(chance)
            return float(outcomes[:wins].sum() + outcomes[wins] / 2.0)

        tail = (1.0 - CONFIDENCE) / 2.0
        low = 0.0 if wins == 0 else _solve(lambda chance: below(chance) > 1.0 - tail)
        high = 1.0 if wins == self.tasks * self.seeds else _solve(lambda chance: below(chance) > tail)
        value = result if self.readings == 1 else _solve(lambda chance: self.expected(chance) < result)
        return Interval(min(max(value, low), high), low, high)


def resampled_gain(wins: Floats, readings: int) -> float:
    """Return what the best of some readings adds where all are of the same tasks, which differ.

    A reading wins each task with its own chance, the task's mean here, and varies less than one of new tasks.
    Means of ``k`` attempts lie further apart than chances do, which makes readings vary too little by
    ``(k - 1) / k``: the gain is scaled by the root of that.

    ``wins``: 0 or 1, float64[T, k], of k >= 2 attempts of equal agents at each task.
    """
    outcomes: Floats = np.ones(1)
    for chance in wins.mean(axis=1):
        outcomes = np.convolve(outcomes, np.array([1.0 - chance, chance]))
    attempts = wins.shape[1]
    return (_mean(best_of(outcomes, readings)) - float(wins.mean())) * math.sqrt(attempts / (attempts - 1))


def best_of(outcomes: Floats, readings: int) -> Floats:
    """Return the distribution of the greatest of some independent readings, given that of one."""
    return np.asarray(np.diff(np.minimum(np.cumsum(outcomes), 1.0) ** readings, prepend=0.0))


def _mean(outcomes: Floats) -> float:
    return float(np.linspace(0.0, 1.0, len(outcomes)) @ outcomes)


def _binomial(n: int, chance: float) -> Floats:
    if chance in (0.0, 1.0):
        return np.asarray(np.arange(n + 1) == n * chance, dtype=np.float64)
    logs, wins = _log_factorials(n), np.arange(n + 1)
    logs = logs[n] - logs - logs[::-1] + wins * np.log(chance) + (n - wins) * np.log1p(-chance)
    return np.asarray(np.exp(logs))


@lru_cache(maxsize=64)
def _log_factorials(n: int) -> Floats:
    return np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])


def _solve(below: Callable[[float], bool]) -> float:
    """Return where a condition that holds for small chances ends, by bisection to 30 bits."""
    return bisect_left(range(1 << 30), True, key=lambda step: not below(step / (1 << 30))) / (1 << 30)
