"""Warnings about a run's numerics: what is wrong, and which setting to change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from agentgym.history.metrics import IterationMetrics

CLIPPED = 0.3
"""Share of clipped terms above which an update is too large."""

Watched: TypeAlias = tuple[float, ...]
"""Numbers of an iteration, in the order of `CHECKS`."""


@dataclass(frozen=True, slots=True)
class NumericsCheck:
    """A number of iterations that should stay below a limit."""

    number: Callable[[IterationMetrics], float | None]
    limit: float
    message: str
    """What is wrong and what to set, with the number as ``{value}``."""


def _unusable(metrics: IterationMetrics) -> float | None:
    """Return the share of groups without signal; None where most is won, and nothing is left to learn."""
    return 1 - metrics.usable_fraction if metrics.success < 0.9 else None


CHECKS: tuple[NumericsCheck, ...] = (
    NumericsCheck(
        lambda metrics: metrics.logp_diff_wide,
        0.01,
        "engine and learner disagree: {value:.1%} of the tokens differ by more than half a nat "
        "(logp_diff_wide): set learner.old_log_probs=recompute and learner.importance_cap=2, or "
        "learner.dtype=float32",
    ),
    NumericsCheck(
        lambda metrics: metrics.clip_fraction,
        CLIPPED,
        "{value:.0%} of the terms are clipped (clip_fraction), so that updates are too large: lower "
        "learner.learning_rate, or raise warmup",
    ),
    NumericsCheck(
        lambda metrics: metrics.truncated,
        0.1,
        "{value:.0%} of the importance weights are capped (truncated): lower rollout.max_staleness, or raise "
        "learner.importance_cap",
    ),
    NumericsCheck(
        lambda metrics: metrics.kl,
        1.0,
        "an update moves the policy by {value:.2g} nats a token (kl): lower learner.learning_rate, or "
        "learner.epochs and learner.minibatches",
    ),
    NumericsCheck(
        _unusable,
        0.95,
        "{value:.0%} of the groups have no signal (usable_fraction): raise rollout.group_size, set "
        "rollout.attempts=4, or play easier tasks",
    ),
)
"""Checks, the gravest first. Their limits are far above those of runs that learn (benchmarks/studies)."""


def watched(metrics: IterationMetrics) -> Watched:
    """Return the numbers that `CHECKS` look at, 0 where an iteration has none."""
    return tuple(float(check.number(metrics) or 0.0) for check in CHECKS)


def numerics_warning(recent: Sequence[Watched], *, grouped: bool) -> str:
    """Return the gravest warning about the means of some iterations; "" without any.

    ``grouped``: whether any group's returns have differed in the run, without which groups are no signal.

    Example:
        >>> numerics_warning([(0.0, 0.4, 0.0, 0.0, 0.0), (0.0, 0.5, 0.0, 0.0, 0.0)], grouped=True)[:40]
        '45% of the terms are clipped (clip_fract'
    """
    for place, check in enumerate(CHECKS):
        value = fmean(numbers[place] for numbers in recent) if recent else 0.0
        if value > check.limit and (grouped or check.number is not _unusable):
            return check.message.format(value=value)
    return ""
