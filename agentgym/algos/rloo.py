"""RLOO: REINFORCE with a leave-one-out baseline (Ahmadian et al., 2024, arXiv:2402.14740).

    A_i = R_i - 1/(N-1) sum over j != i of R_j = N/(N-1) (R_i - mean_g R)            Section 2.3

The baseline of an episode is the mean of the other N - 1 of its group, so it does not depend on the episode
itself and leaves the gradient unbiased. Every step of episode i has its advantage.

verl-agent (`VERL_AGENT`) takes each step row for an episode of its own: N counts rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from agentgym.algos.advantage import EpisodeStat, InvalidPenalty, Singleton, episode_relative
from agentgym.algos.batch import StepBatch
from agentgym.algos.objective import Objective
from agentgym.arrays import Floats

OBJECTIVE = Objective(kl_coefficient=0.01)
"""The paper's REINFORCE is this with one update per batch, where every ratio is 1."""

VERL_AGENT: Mapping[str, Any] = MappingProxyType(
    {"episode_stat": "cross_steps", "singleton": "raw", "invalid_penalty": "row"}
)
"""What verl-agent does."""


def advantage(
    batch: StepBatch,
    *,
    episode_stat: EpisodeStat = "trajectory",
    singleton: Singleton = "zero",
    invalid_penalty: InvalidPenalty = "reward",
    penalty: float = 0.1,
) -> Floats:
    """Compare each episode's outcome with the mean of the others of its group.

    Args:
        batch: the steps.
        episode_stat: what N and the mean count once.
        singleton: advantage of an episode alone in its group.
        invalid_penalty: where the price of a rejected action goes.
        penalty: the price; 0.1, in search 0.01.

    Returns:
        (n,) advantages; exactly 0 where all outcomes of a group are equal.

    Raises:
        ValueError: an unknown switch.
    """
    centred = episode_relative(
        batch,
        std=False,
        episode_stat=episode_stat,
        singleton=singleton,
        invalid_penalty=invalid_penalty,
        penalty=penalty,
    )
    members = batch.step == 0 if episode_stat == "trajectory" else np.ones(len(batch), dtype=np.bool_)
    names, index = np.unique(batch.group, return_inverse=True)
    size = np.bincount(index[members], minlength=len(names))[index]
    return centred * size / np.maximum(size - 1, 1)
