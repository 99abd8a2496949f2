"""One number for many environments: normalised scores, their mean, IQM, optimality gap and profile.

Aggregates run over seed x environment *means*: an interquartile mean over raw 0/1 episodes would be
degenerate (a success rate of .20 gives 0, .80 gives 1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.arrays import Floats
from agentgym.evaluation.statistics import (
    RESAMPLES,
    Estimate,
    combine,
    percentile_interval,
    resampling_counts,
)

PROFILE_AT = tuple(round(0.05 * i, 2) for i in range(21))
"""Normalised scores at which performance profiles are read."""


@dataclass(frozen=True, slots=True)
class Scale:
    """What scores 0 and 1 on an environment: the random agent's mean and the oracle's.

    Both are taken as exact: an interval of a normalised score is the agent's own.
    """

    floor: float
    oracle: float

    @property
    def usable(self) -> bool:
        """False where the oracle is no better than chance: nothing can be normalised."""
        return self.floor < self.oracle

    def normalise(self, score: Floats) -> Floats:
        """Return ``(score - floor) / (oracle - floor)``."""
        return np.asarray((score - self.floor) / (self.oracle - self.floor))

    def normalise_estimate(self, score: Estimate) -> Estimate:
        """Map an estimate and both ends of its interval."""
        value, low, high = self.normalise(np.array([score.value, score.low, score.high])).tolist()
        return Estimate(value, low, high, score.method)


@dataclass(frozen=True, slots=True)
class Aggregate:
    """An agent's normalised scores over all usable environments."""

    mean: Estimate
    iqm: Estimate
    """Interquartile mean: the mean without the lowest and highest quarter of the values."""
    optimality_gap: Estimate
    """Mean shortfall below the oracle; scores above the oracle count as none."""
    profile: tuple[Estimate, ...]
    """Share of seed x environment means above each score of `PROFILE_AT`."""


def iqm_weights(values: Floats) -> Floats:
    """Weights that make the interquartile mean of float64[n] a weighted sum; they add up to 1."""
    cut = values.size // 4
    weights = np.zeros(values.size)
    weights[np.argsort(values, kind="stable")[cut : values.size - cut]] = 1.0 / (values.size - 2 * cut)
    return weights


def interquartile_mean(values: Floats) -> Floats:
    """Return the interquartile mean over the last axis: ``floor(n / 4)`` values cut at either end."""
    cut = values.shape[-1] // 4
    kept = np.sort(values, axis=-1)[..., cut : values.shape[-1] - cut]
    return np.asarray(kept.mean(axis=-1), dtype=np.float64)


def optimality_gap(values: Floats) -> Floats:
    """Return the mean of ``max(0, 1 - x)`` over the last axis."""
    return np.asarray(np.maximum(0.0, 1.0 - values).mean(axis=-1))


def share_above(values: Floats, at: float) -> float:
    """Return the share of float64[n] above a score: one point of a performance profile."""
    return float((values > at).mean())


def hierarchical_bootstrap(
    scores: Sequence[Floats], rng: np.random.Generator, resamples: int = RESAMPLES
) -> Floats:
    """Resample training seeds and tasks together.

    Each replicate draws seeds (the same draw for all environments: a seed is one trained model) and,
    within each environment, tasks (the same draw for all seeds: they meet the same tasks).

    Args:
        scores: one float64[S, T_e] of task means per environment, S seeds each.
        rng: draws the resamples.
        resamples: B.

    Returns:
        float64[B, S, E]: the resampled seed x environment means.
    """
    seeds = scores[0].shape[0]
    drawn = rng.integers(seeds, size=(resamples, seeds))
    means = np.empty((resamples, seeds, len(scores)))
    for e, env_scores in enumerate(scores):
        tasks = env_scores.shape[1]
        for start in range(0, resamples, 1_000):  # bounds memory at 1,000 x tasks counts
            rows = slice(start, min(start + 1_000, resamples))
            counts = resampling_counts(tasks, rows.stop - start, rng)
            means[rows, :, e] = np.take_along_axis(counts @ env_scores.T / tasks, drawn[rows], axis=1)
    return means


def aggregate_one_seed(normalised: Sequence[Estimate]) -> Aggregate:
    """Aggregate an agent with one set of weights (or none): environments are independent.

    Intervals come from those of the environments, so that an environment solved every time still
    contributes its Wilson width. The order of environments within the IQM is taken as it is.

    Args:
        normalised: one normalised score per environment, at least one.
    """
    n = len(normalised)
    values = np.array([part.value for part in normalised])
    gaps = [
        Estimate(max(0.0, 1.0 - x.value), max(0.0, 1.0 - x.high), max(0.0, 1.0 - x.low), x.method)
        for x in normalised
    ]
    gap = combine(gaps, [1.0 / n] * n)
    lows, highs = np.array([x.low for x in normalised]), np.array([x.high for x in normalised])
    profile = tuple(
        Estimate(share_above(values, at), share_above(lows, at), share_above(highs, at), "combined")
        for at in PROFILE_AT
    )
    return Aggregate(
        mean=combine(normalised, [1.0 / n] * n),
        iqm=combine(normalised, iqm_weights(values).tolist()),
        optimality_gap=Estimate(gap.value, max(0.0, gap.low), gap.high, "combined"),
        profile=profile,
    )


def aggregate_seeds(scores: Sequence[Floats], scales: Sequence[Scale], rng: np.random.Generator) -> Aggregate:
    """Aggregate an agent trained with several seeds, by hierarchical bootstrap.

    Args:
        scores: one float64[S, T_e] of task means per environment.
        scales: one usable scale per environment.
        rng: draws the resamples.
    """
    observed = _normalise(np.stack([s.mean(axis=1) for s in scores], axis=-1), scales).ravel()
    resampled = _normalise(hierarchical_bootstrap(scores, rng), scales).reshape(RESAMPLES, -1)

    def estimate(statistic: Callable[[Floats], Floats]) -> Estimate:
        return percentile_interval(float(statistic(observed)), statistic(resampled))

    def profile_point(at: float) -> Estimate:
        return percentile_interval(share_above(observed, at), (resampled > at).mean(axis=-1))

    return Aggregate(
        mean=estimate(lambda x: np.asarray(x.mean(axis=-1))),
        iqm=estimate(interquartile_mean),
        optimality_gap=estimate(optimality_gap),
        profile=tuple(profile_point(at) for at in PROFILE_AT),
    )


def _normalise(means: Floats, scales: Sequence[Scale]) -> Floats:
    """Normalise float64[..., E], each environment on its own scale."""
    columns = [scale.normalise(means[..., e]) for e, scale in enumerate(scales)]
    return np.stack(columns, axis=-1)
