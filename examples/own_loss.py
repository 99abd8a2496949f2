"""A loss of one's own: CISPO (MiniMax, 2025, arXiv:2506.13585, Eqs. 4-5).

    r_t = pi(a_t) / pi_old(a_t),    w_t = min(r_t, 1 + clip_high)
    L   = -mean_t sg(w_t) A_t log pi(a_t)

sg stops the gradient: a clipped token keeps a gradient of bounded weight, where PPO's surrogate gives it
none. The ratio has no lower bound, as in the paper's runs.

    agentgym train grpo --env agentgym/EZPoints-v0 --model tiny:0.1m --loss examples.own_loss:cispo
"""

from __future__ import annotations

from torch import Tensor

from agentgym.algos.loss import LossInput


def cispo(given: LossInput) -> tuple[Tensor, Tensor]:
    """Weight log-likelihoods by clipped importance ratios.

    Args:
        given: c tokens of a part of a mini-batch.

    Returns:
        (c,) terms to be minimised, and which of them have a clipped weight.
    """
    ratio = given.ratio.detach()
    most = 1 + given.objective.clip_high
    return -ratio.clamp(max=most) * given.advantages * given.log_probs, ratio > most
