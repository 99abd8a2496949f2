"""HGPO: a hierarchy of groups by common history (as verl-agent's recipe computes it).

Two steps share the group of level k when their last k states are the same, k = 1 .. K + 1:

    a_k = (G_t - mean_k) / (std_k + eps), or G_t - mean_k
    A   = sum_k w_k a_k,    w_k = (k + 1)^alpha / (sum over the kept levels of (k + 1)^alpha + eps)

The standard deviation is the population's (GiGPO's is the unbiased one). A level is kept where the step is
not alone in its group and a_k is not 0. ``base_group`` adds level 0, a_0 = A^E, which is GRPO's.

Deviations from public code: a_k counts as 0 when G_t differs from the mean by rounding only (1e-12 of the
largest), else the weights of a step would depend on the order of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np

from agentgym.algos import gigpo
from agentgym.algos.advantage import EPS, episode_relative, joint, relative, step_returns
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.matching import Match, match_states
from agentgym.algos.options import Discount
from agentgym.core.arrays import Floats, Ints
from agentgym.core.options import NOT_NEGATIVE, POSITIVE_UNIT

OBJECTIVE = gigpo.TOKEN_OBJECTIVE
"""Objective of the public code."""

VERL_AGENT: Mapping[str, Any] = gigpo.VERL_AGENT
"""Options of the authors' public code."""


def advantage(
    batch: StepBatch,
    *,
    gamma: Discount = 0.95,
    history: Annotated[int, NOT_NEGATIVE] = 2,
    alpha: float = 1.0,
    std: bool = True,
    base_group: bool = False,
    match: Match = "state",
    threshold: Annotated[float, POSITIVE_UNIT] = 0.95,
    compat: Compat = PAPER,
) -> Floats:
    """Weighted advantage of each step over groups of ever longer common histories.

    Args:
        batch: the steps.
        gamma: discount per step.
        history: K, how many earlier states a group may ask for.
        alpha: exponent of a history's length in its weight; 0 weighs all alike.
        std: whether to divide by the standard deviation (the paper's WebShop runs do not).
        base_group: whether to add the episode's advantage as level 0.
        match: criterion by which two states are the same.
        threshold: least similarity under ``match="similar"`` and ``"embedding"``.
        compat: level 0's statistics and groups of one, and the invalid-action penalty.

    Returns:
        (n,) advantages.

    Raises:
        ValueError: an unknown match, a negative history, or a column that the match needs is missing.
    """
    returns = step_returns(batch, gamma=gamma, compat=compat)
    state = match_states(batch, match, threshold=threshold)
    levels = [
        (k, relative(returns, group, ddof=0, std=std), relative(returns, group, std=False))
        for k, group in enumerate(_histories(batch, state, history), 1)
    ]
    if base_group:
        centred = episode_relative(batch, std=False, compat=compat)
        levels.append((0, episode_relative(batch, std=std, compat=compat), centred))
    rounding = 1e-12 * max(np.abs(returns).max(initial=0.0), np.abs(batch.outcome).max(initial=0.0))
    weighted = [((k + 1) ** alpha * ((np.abs(centred) > rounding) & (a != 0)), a) for k, a, centred in levels]
    total = sum((weight * a for weight, a in weighted), np.zeros(len(batch)))
    return total / (sum((weight for weight, _ in weighted), np.zeros(len(batch))) + EPS)


def _histories(batch: StepBatch, state: Ints, history: int) -> list[Ints]:
    """Number each step's last k states, k = 1 .. K + 1; a step with fewer gets a number of its own."""
    NOT_NEGATIVE.check("history", history)
    levels = [state]
    alone = np.arange(len(state)) + len(state)
    for k in range(1, history + 1):
        earlier = np.append(np.full(min(k, len(state)), -1), state[:-k])
        levels.append(np.where(batch.step >= k, joint(levels[-1], earlier), alone))
    return levels


ALGORITHM = Algorithm(
    title="HGPO",
    paper="He et al. 2026, arXiv:2602.22817",
    equation="hierarchy of groups",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    states=True,
    page="hgpo",
)
