"""GRPO: group-relative policy optimisation (Shao et al., 2024, arXiv:2402.03300), and Dr. GRPO.

    A_i = (R_i - mean_g R) / (std_g R + eps)            GRPO, Section 4.1.2
    A_i = R_i - mean_g R                                Dr. GRPO (Liu et al., 2025, arXiv:2503.20783)

std_g is the unbiased deviation and eps 1e-6. Every step of episode i has its advantage.

verl-agent (`VERL_AGENT`) counts an episode once per step in the statistics, so that long and usually failed
ones weigh more, leaves a lone episode its raw return, and takes the price of a rejected action off the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agentgym.algos.advantage import EPS, EpisodeStat, InvalidPenalty, Singleton, episode_relative
from agentgym.algos.batch import StepBatch
from agentgym.algos.objective import Objective
from agentgym.arrays import Floats

OBJECTIVE = Objective(aggregation="seq-mean-token-mean", kl_coefficient=0.01)
"""Eq. 3: each response's mean, with k3; 0.01 is what published runs on agents' tasks use, the paper 0.04."""

DR_GRPO_OBJECTIVE = Objective(aggregation="seq-mean-token-sum")
"""Without division by the response's length, and without a reference."""

VERL_AGENT: Mapping[str, Any] = MappingProxyType(
    {"episode_stat": "cross_steps", "singleton": "raw", "invalid_penalty": "row"}
)
"""What verl-agent does."""

DR_GRPO: Mapping[str, Any] = MappingProxyType({"std": False})
"""Dr. GRPO's advantage; its objective sums tokens instead of averaging them."""


def advantage(
    batch: StepBatch,
    *,
    std: bool = True,
    eps: float = EPS,
    episode_stat: EpisodeStat = "trajectory",
    singleton: Singleton = "zero",
    invalid_penalty: InvalidPenalty = "reward",
    penalty: float = 0.1,
) -> Floats:
    """Compare each episode's outcome with its group's.

    Args:
        batch: the steps.
        std: whether to divide by the deviation; False for Dr. GRPO.
        eps: added to the deviation.
        episode_stat: what the statistics count once.
        singleton: advantage of an episode alone in its group.
        invalid_penalty: where the price of a rejected action goes.
        penalty: the price; 0.1, in search 0.01.

    Returns:
        (n,) advantages; exactly 0 where all outcomes of a group are equal.

    Raises:
        ValueError: an unknown switch.
    """
    return episode_relative(
        batch,
        std=std,
        eps=eps,
        episode_stat=episode_stat,
        singleton=singleton,
        invalid_penalty=invalid_penalty,
        penalty=penalty,
    )
