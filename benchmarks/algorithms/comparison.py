"""Statistics of the sweep: tests paired by seed, first crossings of a threshold, smoothing, coverage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.evaluation.board.statistics import holm, sign_flip_p

EMA = 0.95
WINDOW = 5
"""Iterations whose success is averaged before it is held against a threshold."""


def paired_p(differences: Floats, rng: np.random.Generator) -> float:
    """Two-sided sign-flip test of (seeds,) differences: each seed is a pair."""
    return float(sign_flip_p(differences.reshape(-1, 1), rng)[0])


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjustment of some p-values."""
    return holm(np.asarray(p_values, dtype=np.float64)).tolist() if p_values else []


def ema(values: Sequence[float], decay: float = EMA) -> Floats:
    """Return the exponential moving average, corrected for having begun at 0.

    Example:
        >>> ema([1.0, 1.0, 0.0], decay=0.5).round(3).tolist()
        [1.0, 1.0, 0.429]
    """
    result = np.empty(len(values))
    average = 0.0
    for place, value in enumerate(values):
        average = decay * average + (1 - decay) * value
        result[place] = average / (1 - decay ** (place + 1))
    return result


def first_above(values: Sequence[float], threshold: float) -> int | None:
    """Return the first iteration, from 1, up to which the last `WINDOW` average at least the threshold.

    Example:
        >>> first_above([0.0] * 5 + [1.0] * 5, 0.6), first_above([0.5] * 9, 0.6)
        (8, None)
    """
    sums = np.cumsum([0.0, *values])
    for end in range(WINDOW, len(values) + 1):
        if (sums[end] - sums[end - WINDOW]) / WINDOW >= threshold - 1e-9:
            return end
    return None


def on_grid(steps: Sequence[int], values: Floats, grid: Floats) -> Floats:
    """Return a curve at given environment steps, NaN beyond its ends."""
    return np.interp(grid, np.asarray(steps, dtype=np.float64), values, left=np.nan, right=np.nan)
