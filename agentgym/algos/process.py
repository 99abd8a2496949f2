"""Losses of process reward models, in torch: language models whose log-ratios are rewards.

Tokens come as in `agentgym.algos.loss`: packed or padded, with a `TokenLayout` that says which count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, logsigmoid

from agentgym.algos.loss import TokenLayout
from agentgym.core.options import check_choice

Pooling: TypeAlias = Literal["sum", "mean"]
"""Pooling of a trajectory's step rewards: their sum (iStar Eq. 2), or their mean (its public code)."""


def implicit_rewards(
    log_probs: Tensor, ref_log_probs: Tensor, layout: TokenLayout, *, beta: float = 0.05
) -> Tensor:
    """Reward of each response, ``beta`` times the sum of its tokens' log-ratios.

    Args:
        log_probs: (n, L) or (T,) under the reward model.
        ref_log_probs: same shape, under what it is compared with: iStar's old policy, PRIME's reference.
        layout: layout of the tokens that count.
        beta: scale.

    Returns:
        (n,), differentiable in ``log_probs``.
    """
    return beta * layout.sums(layout.pick(log_probs) - layout.pick(ref_log_probs).detach())


def pool(step_rewards: Tensor, trajectory: Tensor, pooling: Pooling = "sum") -> Tensor:
    """Pool the rewards of each trajectory's steps.

    Args:
        step_rewards: (n,).
        trajectory: (n,) trajectory of each step, any numbers.
        pooling: sum or mean.

    Returns:
        (m,) in ascending order of the numbers.

    Raises:
        ValueError: lengths differ, or an unknown pooling.
    """
    check_choice("pooling", pooling, Pooling)
    if trajectory.shape != step_rewards.shape:
        raise ValueError(f"trajectory must have shape {tuple(step_rewards.shape)}: one per step")
    names, index, steps = torch.unique(trajectory, return_inverse=True, return_counts=True)
    total = torch.zeros(len(names), dtype=step_rewards.dtype, device=step_rewards.device)
    total = total.index_add(0, index, step_rewards)
    return total if pooling == "sum" else total / steps


@dataclass(frozen=True, slots=True)
class PreferenceLoss:
    """What `preference_loss` returns."""

    loss: Tensor
    """Scalar; 0 without a gradient's worth of pairs."""
    pairs: int
    """Pairs of a success and a failure of one group."""
    accuracy: Tensor
    """Scalar share of pairs in which the success scores higher, detached; 0 without pairs."""


def preference_loss(
    scores: Tensor, outcome: Tensor, group: Tensor, *, threshold: float = 0.0
) -> PreferenceLoss:
    """Trajectory-level DPO (iStar Eq. 2): ``-log sigmoid(h+ - h-)``, mean over pairs of a group.

    Args:
        scores: (m,) implicit reward h of each trajectory.
        outcome: (m,) its outcome; above ``threshold`` it succeeded.
        group: (m,) its task.
        threshold: 0; 6 for SOTOPIA's goal score.

    Raises:
        ValueError: lengths differ.
    """
    if not scores.shape == outcome.shape == group.shape:
        raise ValueError(
            f"outcome and group must have shape {tuple(scores.shape)} like the scores: one per trajectory"
        )
    won = outcome > threshold
    better, worse = ((group[:, None] == group[None, :]) & won[:, None] & ~won[None, :]).nonzero(as_tuple=True)
    margin = scores[better] - scores[worse]
    pairs = max(len(margin), 1)
    return PreferenceLoss(-logsigmoid(margin).sum() / pairs, len(margin), (margin.detach() > 0).sum() / pairs)


def outcome_loss(scores: Tensor, outcome: Tensor) -> Tensor:
    """Cross-entropy of ``sigmoid(scores)`` with outcomes (PRIME), mean over answers.

    Args:
        scores: (m,) implicit reward of each answer, beta times its tokens' log-ratios, the last one's too.
        outcome: (m,) 0 or 1.

    Raises:
        ValueError: an outcome is neither 0 nor 1, or lengths differ.
    """
    if outcome.shape != scores.shape:
        raise ValueError(f"outcome must have shape {tuple(scores.shape)} like the scores: one per answer")
    if not ((outcome == 0) | (outcome == 1)).all():
        raise ValueError("outcome must be 0 or 1 for PRIME: say which answers succeeded")
    total = binary_cross_entropy_with_logits(scores, outcome.to(scores.dtype), reduction="sum")
    return total / max(len(scores), 1)
