"""How near an estimator of advantages comes to the truth: seven measures over groups that are drawn again.

E is the mean over all steps of all draws, A the true advantage, a the estimate. A *step* is an action in a
state of a task with so many steps left; m is the mean of a over the draws in which the step was taken.

Where A is known only as two independent estimates A1 and A2 (`agentgym.credit.continuations`), A is their
mean and E[A^2] becomes E[A1 A2] = E[A^2] - E[error^2]: correlation and bias are free of the noise of A.
Ranks and signs cannot be freed of it, and a gradient needs the advantages of all actions: these measures are
nan. So are bias and variance where fewer than `MIN_SHARED` of the steps are in two draws.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from agentgym.algos.advantage import joint
from agentgym.core.arrays import Floats
from agentgym.credit.behaviour import Episodes
from agentgym.credit.truth import Truth

MIN_SHARED = 0.5
"""Least share of steps that two draws have, for bias and variance where A is estimated."""

CLEAR = 0.1
"""Advantage from which on a wrong sign counts: a tenth of a win."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CreditAgreement:
    """Measures of one estimator. Without any signal correlations are 0, bias is 1 and variance 0.

    E[m^2] and |u|^2 are unbiased estimates that may leave the range that a square can have: bias, variance
    and cosine are cut to theirs, so that those of pure noise are 1, 1 and anything.
    """

    correlation: float
    """``E[a A] / sqrt(E[a^2] E[A^2])``: Pearson's about 0, where a step neither helps nor harms."""
    rank: float
    """Spearman's: Pearson's correlation of the ranks of a and A."""
    wrong_signs: float
    """``P(a A < 0 given |A| > CLEAR)``."""
    no_signal: float
    """``P(a = 0)``."""
    bias: float
    """``1 - E[m A]^2 / (E[m^2] E[A^2])``: what no number of groups would mend."""
    variance: float
    """``1 - E[m^2] / E[a^2]``: the part of the estimate that differs from draw to draw of the same step.

    About ``correlation^2 = (1 - bias) (1 - variance)``: both leave out steps that only one draw has, and m
    counts a draw once however often it has the step."""
    cosine: float
    """``<u, g> / (|u| |g|)``, g the gradient of V in a table of logits, u the mean over draws of
    ``sum_t a_t grad log pi``; |u|^2 is estimated from pairs of different draws."""


def agreement(
    truths: Sequence[Truth], draws: Sequence[Episodes], estimates: Sequence[Floats]
) -> CreditAgreement:
    """Measure an estimator.

    Args:
        truths: the tasks.
        draws: two or more draws of groups of all tasks.
        estimates: (n,) advantages of each draw, on any scale.
    """
    a, truth = np.concatenate(estimates), np.concatenate([draw.advantage for draw in draws])
    error = np.concatenate([draw.error for draw in draws])
    clear, exact = np.abs(truth) > CLEAR, not error.any()
    bias, variance = _bias_and_variance(draws, a, truth, error)
    return CreditAgreement(
        correlation=_ratio(float(a @ truth), math.sqrt((a @ a) * max(truth @ truth - error @ error, 0.0))),
        rank=_correlation(_ranks(a), _ranks(truth)) if exact else math.nan,
        wrong_signs=_ratio(float((a * truth < 0)[clear].sum()), float(clear.sum())) if exact else math.nan,
        no_signal=float((a == 0).mean()),
        bias=bias,
        variance=variance,
        cosine=_cosine(truths, draws, estimates) if exact else math.nan,
    )


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below > 0 else 0.0


def _correlation(x: Floats, y: Floats) -> float:
    x, y = x - x.mean(), y - y.mean()
    return _ratio(float(x @ y), math.sqrt((x @ x) * (y @ y)))


def _ranks(x: Floats) -> Floats:
    """Return (n,) ranks, equal values sharing the mean of theirs."""
    _, index, counts = np.unique(x, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[index]


def reliability(draws: Sequence[Episodes]) -> CreditAgreement:
    """Measure the estimates of the truth themselves, from two halves: ``sqrt(E[A1 A2] / E[A^2])``."""
    truth, error = (np.concatenate([getattr(draw, n) for draw in draws]) for n in ("advantage", "error"))
    known = _ratio(float(truth @ truth - error @ error), float(truth @ truth))
    values = dict.fromkeys((field.name for field in fields(CreditAgreement)), math.nan)
    return CreditAgreement(**{**values, "correlation": math.sqrt(max(known, 0.0))})


def _bias_and_variance(
    draws: Sequence[Episodes], a: Floats, truth: Floats, error: Floats
) -> tuple[float, float]:
    """Compare means of steps that two or more draws have; E[m^2] is over pairs of different draws."""
    parts = [np.concatenate([getattr(draw, name) for draw in draws]) for name in ("task", "edge", "left")]
    step = joint(*parts)
    draw = np.repeat(np.arange(len(draws)), [len(each.task) for each in draws])
    cell = joint(step, draw)
    _, rows = np.unique(cell, return_index=True)
    mean, of = np.bincount(cell, a) / np.bincount(cell), step[rows]
    number, total = np.bincount(of), np.bincount(of, mean)
    pairs = total**2 - np.bincount(of, mean**2)
    again = number > 1
    squares = np.where(again, pairs / np.maximum(number * (number - 1), 1), 0.0)
    weight, known = np.bincount(step) * again, again[step]
    signal = max(float(weight @ squares), 0.0)  # of noise it may come out negative
    product = float(weight @ (total / number * np.bincount(step, truth) / np.bincount(step)))
    if error.any() and known.mean() < MIN_SHARED:
        return math.nan, math.nan
    size_of_truth = float(truth[known] @ truth[known] - error[known] @ error[known])
    kept = _ratio(product**2, signal * size_of_truth)
    size = float(a[known] @ a[known])
    return 1.0 - min(kept, 1.0), max(1.0 - signal / size, 0.0) if size > 0 else 0.0


def _cosine(truths: Sequence[Truth], draws: Sequence[Episodes], estimates: Sequence[Floats]) -> float:
    """Compare the expected update with the gradient, all tasks in one vector."""
    gradients = [truth.gradient for truth in truths]
    total = [np.zeros(len(each)) for each in gradients]
    own, along = 0.0, 0.0
    for draw, a in zip(draws, estimates, strict=True):
        for number, truth in enumerate(truths):
            rows, size = draw.task == number, len(truth.policy)
            edge = draw.edge[rows]
            source = truth.graph.source
            there = np.bincount(source[edge], a[rows], len(truth.graph.won))[source]
            update = np.bincount(edge, a[rows], size) - truth.policy * there
            total[number] += update
            own += float(update @ update)
            along += float(update @ gradients[number])
    n = len(draws)
    length = (sum(float(each @ each) for each in total) - own) / (n * (n - 1))
    size_of_gradient = sum(float(each @ each) for each in gradients)
    cosine = _ratio(along / n, math.sqrt(length * size_of_gradient)) if length > 0 else 0.0
    return min(max(cosine, -1.0), 1.0)
