"""GiGPO: groups within groups (Feng et al., 2025, arXiv:2505.10978).

    A^E(tau_i) = (R(tau_i) - mean_g R) / F_norm                              (3)
    A^S(a_t)   = (G_t - mean of G in the state's group) / F_norm             (7)
    A(a_t)     = A^E(tau_i) + w A^S(a_t)                                     (8)

F_norm is the group's unbiased standard deviation, or 1 (``std=False``). A state's group holds every step of
the task taken in it, several of one trajectory when it came back; alone in its state a step has A^S = 0.

The public code (`VERL_AGENT`) counts a trajectory once per step in A^E's statistics, leaves a lone episode
its raw return, and takes the invalid-action penalty off the row after discounting. It also duplicates
rows before it forms statistics, which no option here reproduces.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any

from agentgym.algos import compat as codes
from agentgym.algos.advantage import episode_relative, relative, step_returns
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.matching import Match, match_states
from agentgym.algos.objective import Objective
from agentgym.algos.options import Discount
from agentgym.core.arrays import Floats
from agentgym.core.options import POSITIVE_UNIT

OBJECTIVE = Objective(ratio="step_product", aggregation="step-mean", kl_coefficient=0.01)
"""Eq. 9: the ratio of the whole action. No bound of clipping is printed; 0.2 is PPO's."""

TOKEN_OBJECTIVE = Objective(kl_coefficient=0.01)
"""Objective of the public code, with ratios of tokens. Take it where responses are long: a product over
hundreds of tokens soon leaves the clipping range."""

VERL_AGENT: Mapping[str, Any] = MappingProxyType({"compat": codes.VERL_AGENT, "match": "text"})
"""Options of the authors' public code."""


def advantage(
    batch: StepBatch,
    *,
    gamma: Discount = 0.95,
    weight: float = 1.0,
    episode_weight: float = 1.0,
    std: bool = True,
    match: Match = "state",
    threshold: Annotated[float, POSITIVE_UNIT] = 0.95,
    compat: Compat = PAPER,
) -> Floats:
    """Advantage of each step among its episode's group and among the steps taken in its state.

    Args:
        batch: the steps.
        gamma: discount per step of the returns that A^S compares.
        weight: weight of A^S, the paper's w.
        episode_weight: weight of A^E; 0 in the paper's ablation.
        std: whether F_norm is the standard deviation.
        match: criterion by which two states are the same.
        threshold: least similarity under ``"similar"`` and ``"embedding"``; the public search runs use 0.9.
        compat: A^E's statistics and groups of one (A^S of a step alone in its state is 0), and the
            invalid-action penalty.

    Returns:
        (n,) advantages.

    Raises:
        ValueError: an unknown match, or a column that the match needs is missing.
    """
    episode = episode_relative(batch, std=std, compat=compat)
    returns = step_returns(batch, gamma=gamma, compat=compat)
    step = relative(returns, match_states(batch, match, threshold=threshold), std=std)
    return episode_weight * episode + weight * step


ALGORITHM = Algorithm(
    title="GiGPO",
    paper="Feng et al. 2025, arXiv:2505.10978",
    equation="3, 7-8",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    states=True,
    page="gigpo",
)
