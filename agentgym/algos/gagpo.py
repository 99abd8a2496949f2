"""GAGPO: GAE over the mean returns of states (Zhu et al., 2026, arXiv:2605.13217).

    V(s)    = mean of G_t over the group's steps taken in s,    G_t = sum_k gamma^k r_(t+k)
    delta_t = r_t + gamma V(s_(t+1)) - V(s_t),    V = 0 after an episode's last step
    A_t     = delta_t + gamma lam A_(t+1)
    A       = (A_t - mean of A_t over the group's steps) / their std

No critic is trained, and no advantage of the whole episode is added. With lam = 1, A_t = G_t - V(s_t).

The paper's own text was not at hand beyond its abstract. V, delta and A_t are those that accounts of the
paper describe and public code by others computes; gamma = 0.95 and lam = 0.8 are the defaults of that code.
The paper's deviation is not known; here it is the unbiased one. Its ablations normalise over the
batch or not at all (``norm``), or have lam = 0. The paper matches states by text, this by the environment's
hash.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import numpy as np

from agentgym.algos.advantage import gae, relative, step_returns, step_rewards
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from agentgym.algos.matching import Match, match_states
from agentgym.algos.objective import Objective
from agentgym.algos.options import Discount
from agentgym.core.arrays import Floats
from agentgym.core.options import POSITIVE_UNIT, check_choice

Norm: TypeAlias = Literal["group", "batch", "none"]
"""Steps whose mean and deviation normalise an advantage: its group's, all, or none."""

OBJECTIVE = Objective(ratio="step_geomean", aggregation="step-mean", kl_coefficient=0.01)
"""The ratio of a whole action, by the length of it. No bound of clipping is known; 0.2 is PPO's."""


def advantage(
    batch: StepBatch,
    *,
    gamma: Discount = 0.95,
    lam: Discount = 0.8,
    norm: Norm = "group",
    match: Match = "state",
    threshold: Annotated[float, POSITIVE_UNIT] = 0.95,
    penalty: float = 0.1,
) -> Floats:
    """Generalised advantage of each step, by the values of the states that it joins.

    Args:
        batch: the steps.
        gamma: discount per step.
        lam: mixing weight: 0 for one-step differences, 1 for returns less values.
        norm: whose mean and deviation normalise.
        match: criterion by which two states are the same.
        threshold: least similarity under ``match="similar"`` and ``"embedding"``.
        penalty: the invalid-action penalty, taken off the step's reward.

    Returns:
        (n,) advantages; exactly 0 where all of those that are compared are equal.

    Raises:
        ValueError: an option is out of range, or a column that the match needs is missing.
    """
    check_choice("norm", norm, Norm)
    compat = Compat(penalty=penalty)
    returns = step_returns(batch, gamma=gamma, compat=compat)
    state = match_states(batch, match, threshold=threshold)
    values = returns - relative(returns, state, std=False)
    result = gae(step_rewards(batch, compat), values, batch.trajectory, gamma=gamma, lam=lam)
    if norm == "none":
        return result
    return relative(result, batch.group if norm == "group" else np.zeros(len(batch), dtype=np.int64))


ALGORITHM = Algorithm(
    title="GAGPO",
    paper="Zhu et al. 2026, arXiv:2605.13217",
    equation="grouped values, GAE",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    states=True,
    page="gagpo",
)
