"""RTMC: Monte-Carlo values of actions in a group's tree of rollouts (Wang et al., 2026, arXiv:2604.11037).

    R_t     = sum_l gamma^l r_(t+l)
    Q(s, a) = mean of R_t over the N(s, a) rollouts that took a in s, each at its first time
    V(s)    = sum_a N(s, a) Q(s, a) / N(s),    N(s) = sum_a N(s, a)
    V'(s)   = (N(s) V(s) + n V_0) / (N(s) + n)                                                 (11)
    A       = Q(s, a) - V'(s)

V_0 is the group's rate of success, n = 2 and gamma = 0.99. Where one rollout alone visits a state, two thirds
of the distance between its return and V_0 are left. ``std`` divides by the deviation of A over the group's
steps and takes no mean off.

The paper's own text was not at hand. The equations are those of a paper that compares itself with RTMC. The
first visit, n, gamma and Eq. 11 are those of public code by others, whose default is ``std=True``. V_0 is
here the mean return of the group's episodes: the rate where a win earns 1. The paper abstracts the states
and actions of coding agents to signatures; here they are the environment's states and the texts of actions.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from agentgym.algos.advantage import joint, relative, step_returns, step_rewards, trajectory_sums
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from agentgym.algos.matching import Match, match_actions, match_states
from agentgym.algos.objective import Objective
from agentgym.algos.options import Discount
from agentgym.core.arrays import Floats, Ints
from agentgym.core.options import NOT_NEGATIVE, POSITIVE_UNIT, NonNegativeFloat

OBJECTIVE = Objective()
"""Clipped tokens; the sources name no other ratio and no divergence."""

FLAT = 1e-8
"""Deviation of a group's advantages up to which public code does not divide them."""


def advantage(
    batch: StepBatch,
    *,
    gamma: Discount = 0.99,
    prior: NonNegativeFloat = 2.0,
    std: bool = False,
    match: Match = "state",
    threshold: Annotated[float, POSITIVE_UNIT] = 0.95,
    penalty: float = 0.1,
) -> Floats:
    """Value of each step's action in its state, less the state's smoothed value.

    Args:
        batch: the steps, with ``actions``.
        gamma: discount per step.
        prior: the n of Eq. 11, in rollouts; 0 for V itself.
        std: whether to divide by the population's deviation over the group's steps.
        match: criterion by which two states are the same.
        threshold: least similarity under ``match="similar"`` and ``"embedding"``.
        penalty: the invalid-action penalty, taken off the step's reward.

    Returns:
        (n,) advantages; equal for all steps that take one action in one state of a group.

    Raises:
        ValueError: an option is out of range, or ``actions`` or a column that the match needs is missing.
    """
    NOT_NEGATIVE.check("prior", prior)
    compat = Compat(penalty=penalty)
    returns = step_returns(batch, gamma=gamma, compat=compat)
    state = match_states(batch, match, threshold=threshold)
    pair = joint(state, match_actions(batch))
    first = np.unique(joint(pair, batch.trajectory), return_index=True)[1]
    total, size = _sums(returns, state, first)
    chosen, times = _sums(returns, pair, first)
    won, episodes = _sums(trajectory_sums(batch, step_rewards(batch, compat)), batch.group, batch.starts)
    result = chosen / times - (total + prior * won / episodes) / (size + prior)
    return result / _deviation(result, batch.group) if std else result


def _sums(x: Floats, group: Ints, rows: Ints) -> tuple[Floats, Ints]:
    """Return (n,) sums of ``x`` over each group's members among ``rows``, and (n,) how many they are."""
    index = joint(group)
    sums = np.asarray(np.bincount(index[rows], x[rows]), dtype=np.float64)
    return sums[index], np.bincount(index[rows])[index]


def _deviation(x: Floats, group: Ints) -> Floats:
    """Return (n,) the population's deviation in each row's group, 1 where the group is flat."""
    squares, size = _sums(relative(x, group, std=False) ** 2, group, np.arange(len(x)))
    deviation = np.sqrt(squares / size)
    return np.where(deviation > FLAT, deviation, 1.0)


ALGORITHM = Algorithm(
    title="RTMC",
    paper="Wang et al. 2026, arXiv:2604.11037",
    equation="11",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    states=True,
    page="rtmc",
)
