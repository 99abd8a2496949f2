"""GraphGPO: credit by distance to success in the graph of a task's episodes.

Nodes are the states seen in a group, edges its steps; the last step of an episode that was won leads to one
more node, SUCCESS, any other last step to the state it really reached. With d the length of the shortest
path to SUCCESS and c the cost of a step (1 by default):

    R(s, a, s') = r_succ omega^(d(s') + c)                       (4)
    A^G         = (R - mean of R in s) / std of R in s           (6)
    A           = beta_G A^G + beta_E A^E                        (8)

Where SUCCESS cannot be reached, d = 1 + the largest finite d of the group. A step alone in its state, and
every step of a group without a success, has A^G = 0. Success is ``won``, not a reward above 0.

Public code leaves out "+ c" (``convention="reference"``; a common factor, which shows where ``std=False``),
counts steps in A^E, takes 0.1 off R for rejected actions (`VERL_AGENT`), and joins similar texts into nodes
but groups by exact text; here nodes are groups. ``edges="unique"`` reads Eq. 5's set of edges literally.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

from agentgym.algos import gigpo
from agentgym.algos.advantage import episode_relative, penalties, relative
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.graph import StepCosts, distance, distinct, match_edges, step_costs
from agentgym.algos.matching import Match
from agentgym.core.arrays import Floats, Ints
from agentgym.core.options import POSITIVE_UNIT, check_choice

Convention: TypeAlias = Literal["paper", "reference"]
Edges: TypeAlias = Literal["occurrence", "unique"]

OBJECTIVE, TOKEN_OBJECTIVE = gigpo.OBJECTIVE, gigpo.TOKEN_OBJECTIVE
"""Eq. 9, which is GiGPO's, and what the public code minimises."""

VERL_AGENT: Mapping[str, Any] = MappingProxyType({"convention": "reference", **gigpo.VERL_AGENT})
"""Options of the authors' public code."""


def advantage(
    batch: StepBatch,
    *,
    omega: Annotated[float, POSITIVE_UNIT] = 0.1,
    success_reward: float = 10.0,
    costs: StepCosts = "unit",
    cost: Floats | None = None,
    graph_weight: float = 1.0,
    episode_weight: float = 1.0,
    std: bool = True,
    convention: Convention = "paper",
    edges: Edges = "occurrence",
    match: Match = "state",
    threshold: Annotated[float, POSITIVE_UNIT] = 0.95,
    compat: Compat = PAPER,
) -> Floats:
    """Advantage of each step by where it led, plus its episode's.

    Args:
        batch: the steps; ``actions`` too for ``edges="unique"``.
        omega: share of the reward left per unit of distance, (0, 1]: ALFWorld .1, WebShop .2, Sokoban .8.
        success_reward: r_succ.
        costs: whether every step costs 1, or what the environment says, such as that of its tool calls
            (``info["step_cost"]``).
        cost: (n,) cost of each step instead, finite and not negative.
        graph_weight: beta_G.
        episode_weight: beta_E.
        std: whether to divide by standard deviations.
        convention: whether R counts the step's own cost.
        edges: whether every step is a member of its state's statistics, or each distinct edge.
        match: criterion by which two states are one node.
        threshold: least similarity under ``match="similar"`` and ``"embedding"``.
        compat: A^E's statistics and groups of one, and the invalid-action penalty: with
            ``invalid_penalty="row"`` R has it too.

    Returns:
        (n,) advantages.

    Raises:
        ValueError: an unknown choice, a value out of range, or a needed column is missing.
    """
    check_choice("edges", edges, Edges)
    source, target = match_edges(batch, match, threshold=threshold)
    own = step_costs(batch, costs, cost)
    reward = success_reward * _discount(batch, source, target, omega, own, convention)
    if compat.invalid_penalty == "row":
        reward = reward - penalties(batch, compat)
    counted = None if edges == "occurrence" else distinct(batch, source, target, reward)
    graph = relative(reward, source, std=std, counted=counted)
    graph = np.where(np.isin(batch.group, batch.group[batch.won]), graph, 0.0)
    episode = episode_relative(batch, std=std, compat=compat)
    return graph_weight * graph + episode_weight * episode


def _discount(
    batch: StepBatch, source: Ints, target: Ints, omega: float, own: Floats, convention: Convention
) -> Floats:
    """Return (n,) ``omega^(d(s') + c)`` of Eq. 4."""
    check_choice("convention", convention, Convention)
    POSITIVE_UNIT.check("omega", omega)
    left = distance(batch, source, target, own)
    return np.asarray(omega ** (left + own if convention == "paper" else left), dtype=np.float64)


ALGORITHM = Algorithm(
    title="GraphGPO",
    paper="Cheng et al. 2026, arXiv:2605.26684",
    equation="4-5",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    states=True,
    page="graphgpo",
)
