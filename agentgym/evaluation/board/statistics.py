"""Intervals and tests for scores of agents on tasks. The unit is the training run; of one run, the task.

Attempts at one task resemble each other, so episodes are averaged within their task first; treating
them as independent gives intervals that are far too narrow. A statement about an algorithm is one about
runs that have not been trained yet; one run alone supports a statement about its checkpoint. numpy only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from statistics import NormalDist
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.core.arrays import Floats

Method: TypeAlias = Literal["wilson", "t", "runs", "bootstrap", "combined"]

CONFIDENCE = 0.95
"""Coverage of every interval of the project."""

POWER = 0.8
"""Probability with which a comparison finds the minimum detectable difference."""

RESAMPLES = 9_999
"""Resamples of bootstraps and of Monte Carlo permutation tests."""

_CHUNK = 500
"""Resamples computed at a time: bounds memory at about ``_CHUNK * tasks * 8`` bytes."""


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
    # the fraction converges fast only on this side of the mean; the other side follows by symmetry
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
    """Return the inverse of `t_cdf` for 0 < probability < 1, by bisection to the last bit."""
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


def wilson(mean: float, n: float, bounds: tuple[float, float] = (0.0, 1.0)) -> Estimate:
    """Score interval of a proportion (Wilson 1927), on any bounded scale.

    ``(p + z^2 / 2n -+ z sqrt(p (1 - p) / n + z^2 / 4n^2)) / (1 + z^2 / n)``. A mean of graded scores is
    treated as a proportion of the scale, which errs on the wide side: no distribution on the scale
    has a larger variance.

    ``n``: number, or effective number, of independent observations, above 0; ``bounds``: least and greatest
    possible score.
    """
    least, greatest = bounds
    if n <= 0 or not least <= mean <= greatest:
        raise ValueError(f"need n > 0 and a mean within {bounds}, got n = {n} and mean {mean}")
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


def over_runs(
    blocks: Sequence[Floats], bounds: tuple[float, float], values: Floats | None = None
) -> Estimate:
    """Mean over training runs and tasks, both of which are samples, with its interval.

    Runs and tasks are crossed, with mean squares A of runs, B of tasks and E of the rest, each divided by
    the number of values. The squared half-width is ``t_S^2 A (1 + 4 g_S) + t_T^2 (B - E) (1 + g_T)``, and at
    least ``t_T^2 B / (S - 1)``; t_S has S - 1 degrees of freedom and t_T those of the tasks. Between bounds
    it takes the place of the variance in Wilson's interval. ``g = 4 (1 - 2p)^2 c / (p (1 - p) (1 + c)^2 n)``
    is there the squared skewness of a mean of n beta distributed runs, or tasks, of mean p and variance
    c p (1 - p), from A - 2E / 3 or B - E: a few near a bound understate how far others lie. This form was
    chosen by the coverage in ``benchmarks/seeds.md``.

    ``blocks``: float64[S, T_e] of S >= 2 runs for each environment, so weighted that a run's value is the sum
    of its means over tasks; ``bounds``: least and greatest possible value, or infinite; ``values``:
    float64[S], each run's value where it is another statistic than that sum.
    """
    values = np.sum([block.mean(axis=1) for block in blocks], axis=0) if values is None else values
    runs, tasks, between, rest = len(values), 1, 0.0, 0.0
    for block in blocks:
        if (count := block.shape[1]) > 1:
            tasks += count - 1
            between += float(block.mean(axis=0).var(ddof=1)) / count
            errors = block - block.mean(axis=1, keepdims=True) - block.mean(axis=0) + block.mean()
            rest += float((errors**2).sum()) / ((runs - 1) * (count - 1) * block.size)
    run_t2 = t_quantile(_tails()[1], runs - 1) ** 2
    task_t2 = t_quantile(_tails()[1], tasks - 1) ** 2 if tasks > 1 else 0.0
    mean, of_runs = float(values.mean()), float(values.var(ddof=1)) / runs
    tasks_only = task_t2 * between / (runs - 1)
    if not np.isfinite(bounds).all():
        half = math.sqrt(max(run_t2 * of_runs + task_t2 * (between - rest), tasks_only))
        return Estimate(mean, max(bounds[0], mean - half), min(bounds[1], mean + half), "runs")
    scale = bounds[1] - bounds[0]
    mean = min(bounds[1], max(bounds[0], mean))  # the mean of equal numbers may differ from them by a bit
    p = (mean - bounds[0]) / scale
    spread = p * (1.0 - p) * scale**2

    def skewness(variance: float, count: int) -> float:
        c = max(0.0, variance) * count / spread
        return 4.0 * (1.0 - 2.0 * p) ** 2 / (p * (1.0 - p)) * c / (1.0 + c) ** 2 / count

    relative = 0.0
    if spread > 1e-12 * scale**2:
        by_runs = run_t2 * of_runs * (1.0 + 4.0 * skewness(of_runs - rest / 1.5, runs))
        by_tasks = task_t2 * (between - rest) * (1.0 + skewness(between - rest, tasks))
        relative = max(by_runs + by_tasks, tasks_only) / spread
    relative = relative or max(task_t2, run_t2 / runs) / tasks  # nothing varies
    effective = NormalDist().inv_cdf(_tails()[1]) ** 2 / relative
    return replace(wilson(mean, effective, bounds), method="runs")


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


def permuted_p(first: Floats, second: Floats, rng: np.random.Generator) -> float:
    """Two-sided permutation test of the difference between the means of two rows' runs.

    If two algorithms are alike, every way of dealing their runs into rows of these sizes is equally likely.
    All are enumerated where that is no more than `RESAMPLES`, else so many are drawn. Rows of one mean and
    other spreads are not alike, and tasks are taken as they are: no other tasks are spoken of.

    ``first``, ``second``: float64[S], value of each run. Returns the p value.
    """
    values, size = np.concatenate([first, second]), len(first)
    splits = math.comb(len(values), size)
    exact = splits <= RESAMPLES
    if exact:
        dealt = values[list(combinations(range(len(values)), size))]
    else:
        dealt = rng.permuted(np.tile(values, (RESAMPLES, 1)), axis=1)[:, :size]
    # the difference grows with the distance of a row's sum from its share; a tie must count as a tie
    share = values.sum() * size / len(values)
    threshold = abs(first.sum() - share) - 1e-9 * np.abs(values).sum()
    extreme = int((np.abs(dealt.sum(axis=1) - share) >= threshold).sum())
    return extreme / splits if exact else (1 + extreme) / (1 + RESAMPLES)


def can_be_told(runs: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Return which pairs of rows of so many runs can be told apart, after Holm over those that can.

    Two rows of one run each are tested over tasks and always can. The least p value of the others depends on
    numbers of runs alone, so that Holm's adjustment keeps its level without those that it leaves out.
    """
    splits = [math.inf if a == b == 1 else min(math.comb(a + b, a), 1 + RESAMPLES) for a, b in runs]
    least = np.array([(1 + (a == b)) / ways for (a, b), ways in zip(runs, splits, strict=True)])
    testable = least <= 1.0 - CONFIDENCE
    testable[testable] = holm(least[testable]) <= 1.0 - CONFIDENCE
    return np.asarray(testable, dtype=np.bool_)


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


def minimum_detectable_difference(sd: float, tasks: int) -> float:
    """Smallest true difference that a paired two-sided comparison of T >= 2 tasks finds with `POWER`.

    ``(t(1 - level / 2) + t(power)) sd / sqrt(T)`` with T - 1 degrees of freedom.

    ``sd``: standard deviation of a task's paired difference; two independent agents that solve half of all
    tasks have ``sqrt(1 / 2)``.
    """
    return detectable_difference(sd, tasks, tasks - 1)


def detectable_difference(sd: float, n: int, dof: int) -> float:
    """Return the smallest true difference, a mean of n values, found with `POWER` before Holm."""
    return (t_quantile((1.0 + CONFIDENCE) / 2.0, dof) + t_quantile(POWER, dof)) * sd / math.sqrt(n)
