"""GRPO: group-relative policy optimisation (Shao et al., 2024, arXiv:2402.03300), and Dr. GRPO.

    A_i = (R_i - mean_g R) / (std_g R + eps)            GRPO, Section 4.1.2
    A_i = R_i - mean_g R                                Dr. GRPO (Liu et al., 2025, arXiv:2503.20783)

std_g is the unbiased deviation and eps 1e-6. Every step of episode i has its advantage.

verl-agent (`agentgym.algos.compat.VERL_AGENT`) counts an episode once per step in the statistics, so that
long and usually failed ones weigh more, leaves a lone episode its raw return, and takes the invalid-action
penalty off the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from agentgym.algos.advantage import EPS, episode_relative
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.objective import Objective
from agentgym.core.arrays import Floats

OBJECTIVE = Objective(aggregation="seq-mean-token-mean", kl_coefficient=0.01)
"""Eq. 3: each response's mean, with k3; 0.01 is what published runs on agents' tasks use, the paper 0.04."""

DR_GRPO_OBJECTIVE = Objective(aggregation="seq-mean-token-sum")
"""Objective of Dr. GRPO: no division by the response's length, no reference model."""

DR_GRPO: Mapping[str, Any] = MappingProxyType({"std": False})
"""Dr. GRPO's advantage; its objective sums tokens instead of averaging them."""


def advantage(
    batch: StepBatch,
    *,
    std: bool = True,
    eps: float = EPS,
    compat: Compat = PAPER,
) -> Floats:
    """Compare each episode's outcome with its group's.

    Args:
        batch: the steps.
        std: whether to divide by the deviation; False for Dr. GRPO.
        eps: constant added to the deviation.
        compat: statistics, groups of one, and the invalid-action penalty.

    Returns:
        (n,) advantages; exactly 0 where all outcomes of a group are equal.
    """
    return episode_relative(batch, std=std, eps=eps, compat=compat)


ALGORITHM = Algorithm(
    title="GRPO",
    paper="Shao et al. 2024, arXiv:2402.03300",
    equation="Section 4.1.2",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="episode",
    page="grpo",
)


DR_GRPO_ALGORITHM = Algorithm(
    title="Dr. GRPO",
    paper="Liu et al. 2025, arXiv:2503.20783",
    equation="Section 3.2",
    advantage=partial(advantage, **DR_GRPO),
    objective=DR_GRPO_OBJECTIVE,
    credit="episode",
    page="grpo",
)
