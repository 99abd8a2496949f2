"""G2PO: values of states, and what each step gains of it (Wang et al., 2026, arXiv:2606.22995).

Nodes are the states seen in a group, edges its steps. An episode that is worth R has T steps; step t = 1 .. T
leads from s to s', and what follows step T is worth R:

    v_t   = gamma^(T - t + 1) R
    V(s)  = mean of v_t over all steps taken in s, of all the group's episodes
    A^NC  = (V(s') - mean of V(s') over the steps from s) / their std
    delta = V(s') - V(s)
    A^EC  = (delta - mean of delta over the group's steps) / their std
    A     = A^E + w (A^NC + A^EC)                                       A^E as in GRPO

A step alone in its state has A^NC = 0; ``std=False`` divides by nothing.

Written from the authors' public code, which (`VERL_AGENT`) has 10 follow a success and 0 any other end, takes
the penalty of an invalid action off V(s') in A^NC but not in delta, and counts steps in A^E.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

import numpy as np

from agentgym.algos import gigpo
from agentgym.algos.advantage import episode_relative, penalties, relative, segment_ends, trajectory_sums
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.matching import Match, match_states
from agentgym.algos.options import Discount
from agentgym.core.arrays import Floats, Ints
from agentgym.core.options import POSITIVE_UNIT, UNIT_INTERVAL

OBJECTIVE, TOKEN_OBJECTIVE = gigpo.OBJECTIVE, gigpo.TOKEN_OBJECTIVE
"""GiGPO's, with the ratio of the whole action, and what the public code minimises."""

VERL_AGENT: Mapping[str, Any] = MappingProxyType({"success_reward": 10.0, **gigpo.VERL_AGENT})
"""Options of the authors' public code."""


def advantage(
    batch: StepBatch,
    *,
    gamma: Discount = 0.95,
    weight: float = 1.0,
    edge_weight: float = 1.0,
    episode_weight: float = 1.0,
    std: bool = True,
    success_reward: float | None = None,
    match: Match = "state",
    threshold: Annotated[float, POSITIVE_UNIT] = 0.95,
    compat: Compat = PAPER,
) -> Floats:
    """Advantage of each step by the values of the states that it joins, plus its episode's.

    Args:
        batch: the steps.
        gamma: discount per step of the episode's worth, from its end.
        weight: weight of A^NC + A^EC, the paper's w.
        edge_weight: weight of A^EC beside A^NC; 0 in the paper's ablation.
        episode_weight: weight of A^E.
        std: whether to divide by standard deviations; the public code does on ALFWorld, not on WebShop.
        success_reward: value after a success, and 0 after any other end; None: the episode's worth.
        match: criterion by which two states are one node.
        threshold: least similarity under ``match="similar"`` and ``"embedding"``.
        compat: A^E's statistics and groups of one, and the invalid-action penalty, which R pays except under
            ``invalid_penalty="row"``.

    Returns:
        (n,) advantages.

    Raises:
        ValueError: an unknown match, a value out of range, or a column that the match needs is missing.
    """
    by_row = compat.invalid_penalty == "row"
    penalty = penalties(batch, compat)
    state = match_states(batch, match, threshold=threshold)
    worth = batch.outcome if by_row else batch.outcome - trajectory_sums(batch, penalty)
    end = worth if success_reward is None else np.where(batch.won, success_reward, 0.0)
    value, reached = state_values(batch, state, worth, end, gamma=gamma)
    node = relative(reached - penalty if by_row else reached, state, std=std)
    edge = relative(reached - value, batch.group, std=std)
    episode = episode_relative(batch, std=std, compat=compat)
    return episode_weight * episode + weight * (node + edge_weight * edge)


def state_values(
    batch: StepBatch, state: Ints, worth: Floats, end: Floats, *, gamma: float
) -> tuple[Floats, Floats]:
    """Return (n,) V of the state acted in and (n,) V of the one that followed, ``end`` after a last step.

    ``state`` is (n,) numbers as of `match_states`, ``worth`` (n,) the episode's R on each of its rows.
    """
    UNIT_INTERVAL.check("gamma", gamma)
    left = np.repeat(batch.lengths, batch.lengths) - batch.step
    value = (np.bincount(state, worth * gamma**left) / np.maximum(np.bincount(state), 1))[state]
    return value, np.where(segment_ends(batch.trajectory), end, np.roll(value, -1))


ALGORITHM = Algorithm(
    title="G2PO",
    paper="Wang et al. 2026, arXiv:2606.22995",
    equation="values of states, node- and edge-centric advantages",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    states=True,
    page="g2po",
)
