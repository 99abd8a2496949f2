"""One number for many environments: normalised scores, their mean, IQM, optimality gap and profile.

Aggregates run over seed x environment *means*: an interquartile mean over raw 0/1 episodes would be
degenerate (a success rate of .20 gives 0, .80 gives 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.evaluation.board.statistics import Estimate, combine, over_runs

PROFILE_AT = tuple(round(0.05 * i, 2) for i in range(21))
"""Normalised scores at which performance profiles are evaluated."""

IQM_SEEDS = 3
"""Training seeds from which on an interquartile mean is shown; over fewer it cuts environments, not seeds."""


@dataclass(frozen=True, slots=True)
class Scale:
    """Scale of an environment's scores: the random agent's mean is 0, the oracle's is 1.

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
    iqm: Estimate | None
    """Interquartile mean: the mean without the lowest and highest quarter of the values; None below
    `IQM_SEEDS` training seeds."""
    optimality_gap: Estimate
    """Mean shortfall below the oracle; a score above the oracle counts as no shortfall."""
    profile: tuple[Estimate, ...]
    """Share of seed x environment means above each score of `PROFILE_AT`."""


def interquartile_mean(values: Floats, weights: Floats) -> Floats:
    """Return the weighted interquartile mean over the last axis.

    A quarter of the weight is cut at either end; a value that lies across a cut counts in part. With equal
    weights and a multiple of four values that is the mean of the middle half.

    ``values``: float64[..., n]; ``weights``: float64[n], adding up to 1.
    """
    order = np.argsort(values, axis=-1, kind="stable")
    upper = np.cumsum(weights[order], axis=-1)
    lower = upper - weights[order]
    inside = np.clip(upper, 0.25, 0.75) - np.clip(lower, 0.25, 0.75)
    middle = (np.take_along_axis(values, order, axis=-1) * inside).sum(axis=-1) / inside.sum(axis=-1)
    return np.asarray(middle, dtype=np.float64)


def optimality_gap(values: Floats, weights: Floats) -> Floats:
    """Return the weighted mean of ``max(0, 1 - x)`` over the last axis."""
    return np.asarray(np.maximum(0.0, 1.0 - values) @ weights)


def share_above(values: Floats, at: float, weights: Floats) -> float:
    """Return the weighted share of float64[n] above a score: one point of a performance profile."""
    return math.fsum(weights[values > at])  # a vector product is rounded differently on another processor


def aggregate_one_seed(normalised: Sequence[Estimate], weights: Floats) -> Aggregate:
    """Aggregate an agent with one set of weights (or none): environments are independent.

    Intervals come from those of the environments, so that an environment solved every time still
    contributes its Wilson width.

    ``normalised``: one normalised score per environment, E of them, at least one; ``weights``: float64[E],
    how much each counts; adding up to 1.
    """
    values = np.array([part.value for part in normalised])
    gaps = [
        Estimate(max(0.0, 1.0 - x.value), max(0.0, 1.0 - x.high), max(0.0, 1.0 - x.low), x.method)
        for x in normalised
    ]
    gap = combine(gaps, weights.tolist())
    lows, highs = np.array([x.low for x in normalised]), np.array([x.high for x in normalised])
    profile = tuple(
        Estimate(
            share_above(values, at, weights),
            share_above(lows, at, weights),
            share_above(highs, at, weights),
            "combined",
        )
        for at in PROFILE_AT
    )
    return Aggregate(
        mean=combine(normalised, weights.tolist()),
        iqm=None,
        optimality_gap=Estimate(gap.value, max(0.0, gap.low), gap.high, "combined"),
        profile=profile,
    )


def aggregate_seeds(
    scores: Sequence[Floats], scales: Sequence[Scale], bounds: Sequence[tuple[float, float]], weights: Floats
) -> Aggregate:
    """Aggregate an agent trained with several seeds: its runs are the sample, tasks are crossed with them.

    The mean's interval is that of `over_runs`. The IQM has the mean's variance, the gap its own between runs
    and the mean's between tasks; a profile's shares vary between runs alone.

    ``scores``: one float64[S, T_e] of task means per environment; ``scales``: one usable scale per
    environment; ``bounds``: least and greatest score of each; ``weights``: float64[E], how much each
    environment counts; adding up to 1.
    """
    seeds = len(scores[0])
    normalised = [scale.normalise(env_scores) for scale, env_scores in zip(scales, scores, strict=True)]
    means = np.stack([env_scores.mean(axis=1) for env_scores in normalised], axis=-1)  # [S, E]
    blocks = [weight * env_scores for weight, env_scores in zip(weights, normalised, strict=True)]
    ends = np.stack([scale.normalise(np.array(end)) for scale, end in zip(scales, bounds, strict=True)])
    least, greatest = (weights @ ends).tolist()
    middle = None
    if seeds >= IQM_SEEDS:
        whole, own = interquartile_mean(means.ravel(), np.tile(weights / seeds, seeds)), means @ weights
        middle = over_runs(blocks, (float(ends.min()), float(ends.max())), whole + own - own.mean())
    gaps = optimality_gap(means, weights)
    shares = ([share_above(row, at, weights) for row in means] for at in PROFILE_AT)
    return Aggregate(
        mean=over_runs(blocks, (least, greatest)),
        iqm=middle,
        optimality_gap=over_runs(blocks, (0.0, float(optimality_gap(ends[:, 0], weights))), gaps),
        profile=tuple(over_runs([], (0.0, 1.0), np.array(share)) for share in shares),
    )
