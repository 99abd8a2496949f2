"""PRIME: process reinforcement through implicit rewards (Cui et al., 2025, arXiv:2502.01456).

A reward model that is a language model scores each token by its log-ratio to a reference, and is trained on
outcomes alone (`agentgym.algos.process.outcome_loss`), before it scores:

    q_t = log pi_RM(y_t) - log pi_ref(y_t),    r_t = beta q_t, 0 at the last token
    r   <- r / (max |sum_{s >= t} r_s| + eps)                         over the batch
    R_t = c_p (N r_t - sum_j mean_t r^j) / (N - 1)  +  [t last] c_o (N o - sum_j o^j) / (N - 1)
    A   = whiten(sum_{s >= t} R_s)

with N answers to a prompt and sums over them. Here an answer is an episode, the tokens of its steps one after
the other; ``sequence="row"`` has every step answer for itself with its episode's outcome, as trainers built
for one turn do, and then N counts steps.

Deviations of public code: it divides by N - 1 = 0 for an answer alone with its prompt, which is 0 here
(``singleton="raw"`` leaves it unbaselined), and knows prompts by position where this reads ``group``.
"""

from __future__ import annotations

import numpy as np

from agentgym.algos.advantage import joint, masked_whiten, segment_ends
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Singleton
from agentgym.algos.filters import within_accuracy
from agentgym.algos.objective import Objective
from agentgym.algos.tokens import SequenceOf, check_tokens, token_counts, token_mask, token_rows
from agentgym.core.arrays import Bools, Floats, Ints
from agentgym.core.options import check_choice

OBJECTIVE = Objective()
"""PPO's clipped tokens."""


def advantage(
    batch: StepBatch,
    q: Floats,
    *,
    mask: Bools | None = None,
    beta: float = 0.05,
    process_weight: float = 5.0,
    outcome_weight: float = 5.0,
    sequence: SequenceOf = "trajectory",
    singleton: Singleton = "zero",
) -> Floats:
    """Advantage of each response token.

    Args:
        batch: the steps, with ``tokens`` and an ``outcome`` of 0 or 1.
        q: (T,) log-ratios of the response tokens of all steps.
        mask: (T,) the tokens that count; all by default.
        beta: scale of the token rewards.
        process_weight: c_p.
        outcome_weight: c_o.
        sequence: tokens of one answer: a trajectory's or a row's.
        singleton: value of an answer alone with its prompt.

    Returns:
        (T,) whitened advantages, 0 on masked tokens.

    Raises:
        ValueError: an outcome is not binary, ``tokens`` is missing, a shape is wrong, or an unknown choice.
    """
    check_choice("sequence", sequence, SequenceOf)
    check_choice("singleton", singleton, Singleton)
    outcome, counted = check_binary(batch), token_mask(batch, mask)
    check_tokens(batch, "q", q)
    first = np.flatnonzero(batch.step == 0) if sequence == "trajectory" else np.arange(len(batch))
    answer = np.repeat(np.arange(len(first)), np.diff(first, append=len(batch)))
    segment = answer[token_rows(token_counts(batch))[counted]]
    last = segment_ends(segment)
    reward = np.where(last, 0.0, beta * q[counted])
    reward = reward / (np.abs(_sums_to_end(reward, segment)).max(initial=0.0) + 1e-6)
    length = np.bincount(segment, minlength=len(first))
    mean = np.bincount(segment, reward, len(first)) / np.maximum(length, 1)
    factor, baseline = _leave_one_out(mean, batch.group[first], singleton)
    total = process_weight * (factor[segment] * reward - baseline[segment])
    factor, baseline = _leave_one_out(outcome[first], batch.group[first], singleton)
    total[last] += (outcome_weight * (factor * outcome[first] - baseline))[segment[last]]
    result = np.zeros(len(counted))
    result[counted] = masked_whiten(_sums_to_end(total, segment))
    return result


def keep(batch: StepBatch, *, low: float = 0.2, high: float = 0.8) -> Bools:
    """Mark (n,) the rows whose prompt is neither too hard nor too easy.

    Args:
        batch: the steps, with an ``outcome`` of 0 or 1.
        low: lowest share of successes that is kept.
        high: highest share that is kept.
    """
    return within_accuracy(batch, check_binary(batch), (low, high))


def check_binary(batch: StepBatch) -> Floats:
    """Return (n,) the outcomes; ValueError where one is neither 0 nor 1."""
    wrong = np.flatnonzero((batch.outcome != 0) & (batch.outcome != 1))
    if len(wrong):
        raise ValueError(
            f"outcome must be 0 or 1 for PRIME, row {wrong[0]} is {batch.outcome[wrong[0]]}: "
            "use batch.with_columns(outcome=batch.won.astype(float))"
        )
    return batch.outcome


def _sums_to_end(x: Floats, segment: Ints) -> Floats:
    """Sum what follows within each segment: differences of one running sum, since nothing is discounted."""
    running = np.cumsum(x)
    last = np.flatnonzero(segment_ends(segment))
    return np.repeat(running[last], np.diff(last, prepend=-1)) - running + x


def _leave_one_out(value: Floats, group: Ints, singleton: Singleton) -> tuple[Floats, Floats]:
    """Return (m,) factors N / (N - 1) and baselines, the group's sum / (N - 1)."""
    number = joint(group)
    size, total = np.bincount(number)[number], np.bincount(number, value)[number]
    others = np.maximum(size - 1, 1)
    alone = 1.0 if singleton == "raw" else 0.0
    return np.where(size > 1, size / others, alone), np.where(size > 1, total / others, 0.0)


ALGORITHM = Algorithm(
    title="PRIME",
    paper="Cui et al. 2025, arXiv:2502.01456",
    equation="implicit process rewards, leave-one-out",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="token",
    unit="token",
    stages="agentgym.training.stages.reward_model:PRIME",
    reward_model=True,
    binary=True,
    scored_by_reference=True,
    page="prime",
)
