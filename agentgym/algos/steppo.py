"""StepPO: the step, not the token, is the action (advantage, ratio and objective per step).

    delta_t = r_t + gamma V(s_(t+1)) - V(s_t),    A_t = delta_t + gamma lam A_(t+1)
    rho_t   = (product over the step's L tokens of pi / pi_old)^(1 / L)                            (7)
    J       = mean over trajectories of the mean over steps of min(rho_t A_t, clip(rho_t) A_t)     (8)

V(s_t) is the critic at the last token of the step's prompt, and is regressed to A_t + V(s_t) at that one
position. The gradient of a step's term is (rho A / L) times the sum of its tokens' score functions (44).

Deviations of public code, as options: it whitens A over all steps of the batch (``whiten=True``), averages
over all steps of the mini-batch and clips like GSPO (`PUBLIC_OBJECTIVE`), and takes a truncated episode's
future for 0 (``truncation="zero"``; here it is the critic's value of the state reached).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from agentgym.algos import ppo
from agentgym.algos.advantage import Truncation, after_last, gae, masked_whiten, step_rewards
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from agentgym.algos.objective import Objective
from agentgym.algos.options import Discount
from agentgym.algos.tokens import token_counts, token_rows
from agentgym.core.arrays import Floats

OBJECTIVE: Final = Objective(ratio="step_geomean", aggregation="trajectory-mean", kl_coefficient=0.001)
"""Eqs. 7 and 8. No clipping bound is printed; 0.2 is PPO's."""

PUBLIC_OBJECTIVE: Final = Objective(
    ratio="step_geomean", aggregation="step-mean", clip_low=3e-4, clip_high=4e-4, kl_coefficient=0.001
)
"""Objective of the authors' public code."""

TOKEN_RATIO: Final = Objective(kl_coefficient=0.001)
"""The ablation without the step's ratio."""


def advantage(
    batch: StepBatch,
    *,
    gamma: Discount = 0.99,
    lam: Discount = 1.0,
    whiten: bool = False,
    truncation: Truncation = "bootstrap",
    penalty: float = 0.1,
) -> Floats:
    """Generalised advantage of each step.

    Args:
        batch: the steps, with ``values``, and ``next_values`` where an episode was truncated.
        gamma: discount per step.
        lam: mixing weight.
        whiten: whether to shift and scale to mean 0 and variance 1 over all steps.
        truncation: value after a truncated episode.
        penalty: the invalid-action penalty, taken off the step's reward.

    Returns:
        (n,) advantages.

    Raises:
        ValueError: values are missing, or an option is out of range.
    """
    values = _values(batch)
    result = gae(
        step_rewards(batch, Compat(penalty=penalty)),
        values,
        batch.trajectory,
        gamma=gamma,
        lam=lam,
        bootstrap=after_last(batch, truncation),
    )
    return masked_whiten(result) if whiten else result


def returns(
    batch: StepBatch,
    *,
    gamma: Discount = 0.99,
    lam: Discount = 1.0,
    truncation: Truncation = "bootstrap",
    penalty: float = 0.1,
) -> Floats:
    """Return (n,) what the critic is regressed to: `advantage`, never whitened, plus the value."""
    return advantage(batch, gamma=gamma, lam=lam, truncation=truncation, penalty=penalty) + _values(batch)


def without_step_gae(
    batch: StepBatch,
    token_values: Floats,
    *,
    gamma: Discount = 0.99,
    lam: Discount = 1.0,
    whiten: bool = False,
    truncation: Truncation = "bootstrap",
    penalty: float = 0.1,
) -> Floats:
    """The ablation: GAE over response tokens, whose mean a step's tokens share, so that (7) and (8) apply.

    ``token_values`` is (T,), ``gamma`` per token; the rest is as in `advantage`. Returns (n,) advantages.
    """
    token = ppo.advantage(
        batch, values=token_values, gamma=gamma, lam=lam, whiten=False, truncation=truncation, penalty=penalty
    )
    lengths = token_counts(batch)
    sums = np.bincount(token_rows(lengths), token, len(batch))
    result = np.asarray(sums / np.maximum(lengths, 1), dtype=np.float64)
    return masked_whiten(result) if whiten else result


def _values(batch: StepBatch) -> Floats:
    if batch.values is None:
        raise ValueError("values is missing: give the critic's value at the last prompt token of each step")
    return batch.values


ALGORITHM = Algorithm(
    title="StepPO",
    paper="Wang et al. 2026, arXiv:2604.18401",
    equation="7-8",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    baseline="batch",
    stages="agentgym.training.stages.outcome:STEP_CRITIC",
    critic="step",
    page="steppo",
)

_STAGES = "agentgym.training.stages.outcome:SHARED_TOKENS"
WITHOUT_STEP_GAE = replace(
    ALGORITHM, title="StepPO without step GAE", advantage=without_step_gae, stages=_STAGES, critic="token"
)
"""The ablation of Figure 5 and Table 4."""
