"""PRIME: process reinforcement through implicit rewards (Cui et al., 2025, arXiv:2502.01456).

A reward model that is a language model scores each token by its log-ratio to a reference, and is trained on
outcomes alone (`agentgym.algos.process.outcome_loss`), before it scores:

    q_t = log pi_RM(y_t) - log pi_ref(y_t),    r_t = beta q_t, 0 at the last token
    r   <- r / (max |sum_{s >= t} r_s| + eps)                         over the batch
    R_t = c_p (N r_t - sum_j mean_t r^j) / (N - 1)  +  [t last] c_o (N o - sum_j o^j) / (N - 1)
    A   = whiten(sum_{s >= t} R_s)

with N answers to a prompt and sums over them. Here an answer is an episode, the tokens of its steps one after
the other; ``unit="step"`` has every step answer for itself with its episode's outcome, as trainers built
for one turn do, and then N counts steps.

Deviations of public code: it divides by N - 1 = 0 for an answer alone with its prompt, which is 0 here
(``singleton="raw"`` leaves it unbaselined), and knows prompts by position where this reads ``group``.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from agentgym.algos.advantage import Singleton, check_switch, discounted, joint, masked_whiten, segment_ends
from agentgym.algos.batch import Bools, Floats, Ints, StepBatch

Unit: TypeAlias = Literal["trajectory", "step"]


def advantage(
    batch: StepBatch,
    q: Floats,
    *,
    beta: float = 0.05,
    process_weight: float = 5.0,
    outcome_weight: float = 5.0,
    unit: Unit = "trajectory",
    singleton: Singleton = "zero",
) -> Floats:
    """Advantage of each response token.

    Args:
        batch: the steps, with ``tokens`` and an ``outcome`` of 0 or 1.
        q: (T,) log-ratios of the response tokens of all steps.
        beta: scale of the token rewards.
        process_weight: c_p.
        outcome_weight: c_o.
        unit: what one answer is.
        singleton: what an answer alone with its prompt gets.

    Returns:
        (T,) whitened advantages.

    Raises:
        ValueError: an outcome is not binary, ``tokens`` is missing or not T in all, or a switch is unknown.
    """
    check_switch("unit", unit, Unit)
    check_switch("singleton", singleton, Singleton)
    outcome = check_binary(batch)
    if batch.tokens is None or batch.tokens.sum() != len(q):
        raise ValueError(f"tokens must hold the number of response tokens of each step, {len(q)} in all")
    answer = joint(batch.trajectory) if unit == "trajectory" else np.arange(len(batch))
    segment = np.repeat(answer, batch.tokens)
    last = segment_ends(segment)
    reward = np.where(last, 0.0, beta * q)
    reward = reward / (np.abs(discounted(reward, segment, 1.0)).max(initial=0.0) + 1e-6)
    first = np.unique(answer, return_index=True)[1]  # one row per answer, in the order of their numbers
    length = np.bincount(segment, minlength=len(first))
    mean = np.bincount(segment, reward, len(first)) / np.maximum(length, 1)
    process = _leave_one_out(reward, mean, batch.group[first], segment, singleton)
    final = _leave_one_out(
        outcome[first], outcome[first], batch.group[first], np.arange(len(first)), singleton
    )
    total = process_weight * process + np.where(last, outcome_weight * final[segment], 0.0)
    return masked_whiten(discounted(total, segment, 1.0))


def keep(batch: StepBatch, *, low: float = 0.2, high: float = 0.8) -> Bools:
    """Mark the rows whose prompt is neither too hard nor too easy: share of successes in [low, high].

    Args:
        batch: the steps, with an ``outcome`` of 0 or 1.
        low: lowest share that is kept.
        high: highest share that is kept.

    Returns:
        (n,).
    """
    outcome, group = check_binary(batch), joint(batch.group)
    first = batch.step == 0
    share = np.bincount(group[first], outcome[first]) / np.maximum(np.bincount(group[first]), 1)
    return ((share >= low) & (share <= high))[group]


def check_binary(batch: StepBatch) -> Floats:
    """Return the outcomes, (n,).

    Raises:
        ValueError: one is neither 0 nor 1.
    """
    wrong = np.flatnonzero((batch.outcome != 0) & (batch.outcome != 1))
    if len(wrong):
        raise ValueError(
            f"outcome must be 0 or 1 for PRIME, row {wrong[0]} is {batch.outcome[wrong[0]]}: "
            "use batch.with_columns(outcome=batch.won.astype(float))"
        )
    return batch.outcome


def _leave_one_out(x: Floats, mean: Floats, group: Ints, answer: Ints, singleton: Singleton) -> Floats:
    """``(N x - sum of the answers' means) / (N - 1)``, where ``answer`` says whose each entry of x is."""
    number = joint(group)
    size, total = np.bincount(number)[number][answer], np.bincount(number, mean)[number][answer]
    alone = x if singleton == "raw" else np.zeros(len(x))
    return np.where(size > 1, (size * x - total) / np.maximum(size - 1, 1), alone)
