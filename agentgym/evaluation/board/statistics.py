"""Intervals and tests for scores of agents on tasks. The unit is the task, never the episode.

Attempts at one task resemble each other, so episodes are averaged within their task first; treating
them as independent gives intervals that are far too narrow. numpy only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.core.arrays import Floats

Method: TypeAlias = Literal["wilson", "t", "bootstrap", "combined"]

CONFIDENCE = 0.95
"""Coverage of every interval of the project."""

RESAMPLES = 9_999
"""Resamples of bootstraps and of Monte Carlo permutation tests."""

_CHUNK = 500
"""Resamples handled at a time: bounds memory at about ``_CHUNK * tasks * 8`` bytes."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number and its interval.

    Example:
        >>> str(Estimate(0.5, 0.25, 0.75, "wilson"))
        '0.50 [0.25, 0.75]'
    """

    value: float
    low: float
    high: float
    method: Method

    def scaled(self, factor: float) -> Estimate:
        """Return the estimate of a multiple, such as of a sum from that of a mean."""
        return Estimate(self.value * factor, self.low * factor, self.high * factor, self.method)

    def __str__(self) -> str:
        """Two decimals, the interval in brackets."""
        return f"{self.value:.2f} [{self.low:.2f}, {self.high:.2f}]"


# --- quantiles -------------------------------------------------------------------------------------


def _beta_fraction(a: float, b: float, x: float) -> float:
    """Continued fraction of the incomplete beta function, by Lentz's method (DLMF 8.17.22)."""
    tiny = 1e-300
    c, d = 1.0, 1.0 / ((1.0 - (a + b) * x / (a + 1.0)) or tiny)
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for numerator in (even, odd):
            d = 1.0 / ((1.0 + numerator * d) or tiny)
            c = (1.0 + numerator / c) or tiny
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return fraction


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function ``I_x(a, b)``."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    # the fraction converges fast only on this side of the mean; the other side is its mirror image
    if x < (a + 1.0) / (a + b + 2.0):
        return math.exp(log_front) * _beta_fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _beta_fraction(b, a, 1.0 - x) / b


def t_cdf(t: float, dof: float) -> float:
    """Return the probability that Student's t with ``dof`` degrees of freedom is at most ``t``.

    ``P = 1 - I_{dof / (dof + t^2)}(dof / 2, 1 / 2) / 2`` for t >= 0 (DLMF 8.17, by symmetry below 0).
    """
    tail = _incomplete_beta(dof / 2.0, 0.5, dof / (dof + t * t)) / 2.0
    return 1.0 - tail if t >= 0.0 else tail


@lru_cache(maxsize=4096)
def t_quantile(probability: float, dof: float) -> float:
    """Return the inverse of `t_cdf`, by bisection to the last bit.

    ``probability``: strictly between 0 and 1; ``dof``: degrees of freedom, above 0.
    """
    if not (0.0 < probability < 1.0 and dof > 0.0):
        raise ValueError(f"need 0 < probability < 1 and dof > 0, got {probability} and {dof}")
    if probability < 0.5:
        return -t_quantile(1.0 - probability, dof)
    low, high = 0.0, 1.0
    while t_cdf(high, dof) < probability:
        low, high = high, 2.0 * high
    while low < (middle := (low + high) / 2.0) < high:
        low, high = (middle, high) if t_cdf(middle, dof) < probability else (low, middle)
    return high


# --- intervals -------------------------------------------------------------------------------------


def wilson(mean: float, n: int, bounds: tuple[float, float] = (0.0, 1.0)) -> Estimate:
    """Score interval of a proportion (Wilson 1927), on any bounded scale.

    ``(p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)``. A mean of graded scores is
    treated as a proportion of the scale, which errs on the wide side: no distribution on the scale
    has a larger variance.

    ``n``: number of independent observations, at least 1; ``bounds``: least and greatest possible score.
    """
    least, greatest = bounds
    if n < 1 or not least <= mean <= greatest:
        raise ValueError(f"need n >= 1 and a mean within {bounds}, got n = {n} and mean {mean}")
    scale = greatest - least
    p = (mean - least) / scale
    z2 = NormalDist().inv_cdf((1.0 + CONFIDENCE) / 2.0) ** 2
    centre = p + z2 / (2.0 * n)
    half = math.sqrt(z2) * math.sqrt(p * (1.0 - p) / n + z2 / (4.0 * n * n))
    shrink = 1.0 + z2 / n
    # min and max: at p = 0 and p = 1 rounding would leave the mean outside by one bit
    low = min(p, max(0.0, (centre - half) / shrink))
    high = max(p, min(1.0, (centre + half) / shrink))
    return Estimate(mean, least + scale * low, least + scale * high, "wilson")


def t_interval(values: Floats, bounds: tuple[float, float] = (-math.inf, math.inf)) -> Estimate:
    """Mean of independent values with Student's t interval, clipped to the scale.

    ``values``: float64[T], one value per task. Returns the estimate; its interval spans ``bounds`` when there
    is one value only.
    """
    if values.size == 0:
        raise ValueError("an interval needs at least one value")
    mean = float(values.mean())
    if values.size == 1:
        return Estimate(mean, *bounds, "t")
    half = t_quantile((1.0 + CONFIDENCE) / 2.0, values.size - 1) * standard_error(values)
    return Estimate(mean, min(mean, max(bounds[0], mean - half)), max(mean, min(bounds[1], mean + half)), "t")


def standard_error(values: Floats) -> float:
    """Return ``sd / sqrt(T)`` of float64[T] task means: clustered by task, because a task is one value."""
    return float(values.std(ddof=1) / math.sqrt(values.size))


def mean_score(scores: Floats, bounds: tuple[float, float] = (0.0, 1.0)) -> Estimate:
    """Mean score of one run with its interval.

    Wilson with n = tasks where there is one attempt per task or no variance between tasks, else
    Student's t over task means.

    ``scores``: float64[T, k], k attempts at each of T tasks.
    """
    if scores.ndim != 2 or scores.size == 0:
        raise ValueError(f"scores must be a non-empty [tasks, attempts] array, got shape {scores.shape}")
    if scores.min() < bounds[0] or scores.max() > bounds[1]:
        raise ValueError(f"scores must lie within {bounds}, got {scores.min()} to {scores.max()}")
    tasks, attempts = scores.shape
    task_means = scores.mean(axis=1)
    if attempts == 1 or np.ptp(task_means) == 0.0:
        # the mean of equal numbers may differ from them by a bit
        return wilson(min(bounds[1], max(bounds[0], float(task_means.mean()))), tasks, bounds)
    return t_interval(task_means, bounds)


def combine(parts: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """Interval of a weighted sum of independent estimates (Zou and Donner 2008, "MOVER").

    ``low = x - sqrt(sum w_e^2 (x_e - l_e)^2)`` and alike above, so that the one-sided width of every
    part's own interval is kept; a part with no variance keeps its Wilson width.

    ``parts``: one estimate per environment; ``weights``: non-negative, one per part.
    """
    w = np.asarray(weights)
    value = float(sum(weight * part.value for weight, part in zip(w, parts, strict=True)))
    below = np.array([part.value - part.low for part in parts])
    above = np.array([part.high - part.value for part in parts])
    low, high = math.hypot(*(w * below)), math.hypot(*(w * above))
    return Estimate(value, value - low, value + high, "combined")


def ratio_of_sums(numerators: Floats, denominators: Floats, rng: np.random.Generator) -> Estimate | None:
    """Ratio of two totals over tasks, for example tokens per success, with a bootstrap interval.

    ``numerators``: float64[T]; ``denominators``: float64[T], non-negative. None where they sum to 0; the
    upper end is infinite where more than 2.5 % of the resamples have a denominator of 0.
    """
    if denominators.sum() == 0.0:
        return None
    counts = resampling_counts(len(numerators), 2_000, rng)
    below = counts @ denominators
    ratios = np.where(below > 0.0, counts @ numerators / np.where(below > 0.0, below, 1.0), np.inf)
    # order statistics, not np.quantile: interpolating towards an infinite ratio gives nan
    low, high = np.sort(ratios)[[round(q * (len(ratios) - 1)) for q in _tails()]]
    return Estimate(float(numerators.sum() / denominators.sum()), float(low), float(high), "bootstrap")


def resampling_counts(items: int, resamples: int, rng: np.random.Generator) -> Floats:
    """Draw ``items`` out of as many with replacement; count how often each came.

    Several times faster than multinomial draws, and it turns resampled sums into a matrix product.

    Returns float64[resamples, items], rows adding up to ``items``.
    """
    drawn = rng.integers(items, size=(resamples, items), dtype=np.int32)
    cells = drawn + np.arange(resamples, dtype=np.int64)[:, None] * items
    counts = np.bincount(cells.ravel(), minlength=resamples * items)
    return counts.reshape(resamples, items).astype(np.float64)


def percentile_interval(value: float, resampled: Floats) -> Estimate:
    """Estimate with the central 95 % of its resampled values as interval."""
    low, high = np.quantile(resampled, _tails())
    return Estimate(value, float(low), float(high), "bootstrap")


def _tails() -> tuple[float, float]:
    return (1.0 - CONFIDENCE) / 2.0, (1.0 + CONFIDENCE) / 2.0


# --- comparisons -----------------------------------------------------------------------------------


def sign_flip_p(terms: Floats, rng: np.random.Generator, resamples: int = RESAMPLES) -> Floats:
    """Two-sided sign-flip permutation test of paired differences.

    If two agents are alike, each task's difference is as likely to have either sign. The statistic is
    the absolute sum; with 13 tasks or fewer (for 9,999 resamples) all sign patterns are enumerated,
    else ``p = (1 + patterns at least as extreme) / (1 + resamples)``.

    ``terms``: float64[T, P]: each task's weighted difference, one column per pair of agents. Columns share
    the sign patterns. Returns float64[P] p-values.
    """
    tasks = len(terms)
    observed = np.abs(terms.sum(axis=0))
    # sums in another order differ by rounding; a tie must count as a tie
    threshold = observed - 1e-9 * np.abs(terms).sum(axis=0)
    exact = tasks <= 16 and 2**tasks <= resamples + 1
    total = 2**tasks if exact else resamples
    extreme = np.zeros(terms.shape[1])
    for start in range(0, total, _CHUNK):
        size = min(_CHUNK, total - start)
        if exact:
            packed = np.arange(start, start + size, dtype="<u2").view(np.uint8).reshape(size, 2)
        else:
            packed = rng.integers(0, 256, size=(size, (tasks + 7) // 8), dtype=np.uint8)
        bits = np.unpackbits(packed, axis=1, count=tasks, bitorder="little")
        signs = 1.0 - 2.0 * bits.astype(np.float64)
        extreme += (np.abs(signs @ terms) >= threshold).sum(axis=0)
    return extreme / total if exact else (1.0 + extreme) / (1.0 + total)


def holm(p_values: Floats) -> Floats:
    """Holm's step-down adjustment: reject where the result is at most the level (Holm 1979).

    ``p_values``: float64[P]. Returns float64[P] adjusted p-values: the running maximum over sorted p of ``(P
    - i) p_i``, at most 1.
    """
    order = np.argsort(p_values, kind="stable")
    scaled = p_values[order] * np.arange(len(p_values), 0, -1)
    adjusted = np.empty_like(p_values)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(scaled))
    return adjusted


def ranks(better: npt.NDArray[np.bool_]) -> list[int]:
    """Rank of each row: 1 + the number of rows significantly better. Equal ranks form a tied set.

    ``better``: bool[R, R]; ``better[i, j]`` says that row i is significantly better than row j.
    """
    return [1 + int(count) for count in better.sum(axis=0)]


def minimum_detectable_difference(
    sd: float, tasks: int, level: float = 1.0 - CONFIDENCE, power: float = 0.8
) -> float:
    """Smallest true difference that a paired comparison finds with the given power.

    ``(t(1 - level / 2) + t(power)) sd / sqrt(T)`` with T - 1 degrees of freedom.

    ``sd``: standard deviation of a task's paired difference; two independent agents that solve half of all
    tasks have ``sqrt(1 / 2)``; ``tasks``: T, at least 2; ``level``: two-sided level of the test; ``power``:
    probability of finding the difference.
    """
    quantiles = t_quantile(1.0 - level / 2.0, tasks - 1) + t_quantile(power, tasks - 1)
    return quantiles * sd / math.sqrt(tasks)
