"""Warnings about a run's numerics: what is wrong, and which setting to change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import TypeAlias

from agentgym.history.metrics import IterationMetrics

WINDOW = 5
"""Iterations whose means are compared with limits, since those of a few tasks vary."""

CLIPPED = 0.3
"""Share of clipped terms above which an update is too large."""

Watched: TypeAlias = tuple[float, ...]
"""Numbers of an iteration, in the order of `CHECKS`."""


def _unusable(metrics: IterationMetrics) -> float | None:
    """Return the share of groups without signal; None where most is won, and nothing is left to learn."""
    return 1 - metrics.usable_fraction if metrics.success < 0.9 else None


def _saturated(metrics: IterationMetrics) -> float | None:
    """Return 1 where an update had something to learn from, or no choice is left, and its gradient is 0."""
    stuck = metrics.grad_norm == 0 and (metrics.loss != 0 or metrics.entropy == 0)
    return float(stuck and (metrics.learner_tokens or 0) > 0)


CHECKS: tuple[tuple[Callable[[IterationMetrics], float | None], float, str], ...] = (
    (
        _saturated,
        0.5,
        "the weights have run away: the gradient is exactly 0 in {:.0%} of the iterations (grad_norm): begin "
        "again with a lower learner.learning_rate",
    ),
    (
        lambda metrics: metrics.logp_diff_wide,
        0.01,
        "engine and learner disagree: {:.1%} of the tokens differ by more than half a nat (logp_diff_wide): "
        "set learner.old_log_probs=recompute and learner.importance_cap=2, or learner.dtype=float32",
    ),
    (
        lambda metrics: metrics.clip_fraction,
        CLIPPED,
        "{:.0%} of the terms are clipped (clip_fraction): lower learner.learning_rate, or raise warmup",
    ),
    (
        lambda metrics: metrics.truncated,
        0.1,
        "{:.0%} of the importance weights are capped (truncated): lower rollout.max_staleness, or raise "
        "learner.importance_cap",
    ),
    (
        lambda metrics: metrics.kl,
        1.0,
        "an update moves the policy by {:.2g} nats a token (kl): lower learner.learning_rate, or "
        "learner.epochs and learner.minibatches",
    ),
    (
        _unusable,
        0.95,
        "{:.0%} of the groups have no signal (usable_fraction): raise rollout.group_size, set "
        "rollout.attempts=4, or play easier tasks",
    ),
)
"""Number of an iteration, its limit, and what is wrong and what to set above it; the gravest first."""


def watched(metrics: IterationMetrics) -> Watched:
    """Return the numbers that `CHECKS` look at, 0 where an iteration has none."""
    return tuple(float(number(metrics) or 0.0) for number, *_ in CHECKS)


def numerics_warning(recent: Sequence[Watched], *, grouped: bool) -> str:
    """Return the gravest warning about the means of some iterations; "" without any.

    All but the first wait for `WINDOW` iterations.

    ``grouped``: whether any group's returns have differed in the run, without which groups are no signal.

    Example:
        >>> numerics_warning([(0.0, 0.0, 0.45, 0.0, 0.0, 0.0)] * WINDOW, grouped=True)[:40]
        '45% of the terms are clipped (clip_fract'
    """
    for place, (number, limit, message) in enumerate(CHECKS if len(recent) >= WINDOW else CHECKS[:1]):
        value = fmean(numbers[place] for numbers in recent) if recent else 0.0
        if value > limit and (grouped or number is not _unusable):
            return message.format(value)
    return ""
