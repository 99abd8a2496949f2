"""RLOO: REINFORCE with a leave-one-out baseline (Ahmadian et al., 2024, arXiv:2402.14740).

    A_i = R_i - 1/(N-1) sum over j != i of R_j = N/(N-1) (R_i - mean_g R)            Section 2.3

The baseline of an episode is the mean of the other N - 1 of its group, so it does not depend on the episode
itself and leaves the gradient unbiased. Every step of episode i has its advantage.

verl-agent (`agentgym.algos.compat.VERL_AGENT`) takes each step row for an episode of its own: N counts rows.
"""

from __future__ import annotations

import numpy as np

from agentgym.algos.advantage import episode_relative
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.objective import Objective
from agentgym.core.arrays import Floats

OBJECTIVE = Objective(kl_coefficient=0.01)
"""The paper's REINFORCE is this with one update per batch, where every ratio is 1."""


def advantage(batch: StepBatch, *, compat: Compat = PAPER) -> Floats:
    """Compare each episode's outcome with the mean of the others of its group.

    Args:
        batch: the steps.
        compat: unit of N and the mean, groups of one, and the invalid-action penalty.

    Returns:
        (n,) advantages; exactly 0 where all outcomes of a group are equal.
    """
    centred = episode_relative(batch, std=False, compat=compat)
    members = batch.step == 0 if compat.episode_stat == "trajectory" else np.ones(len(batch), dtype=np.bool_)
    names, index = np.unique(batch.group, return_inverse=True)
    size = np.bincount(index[members], minlength=len(names))[index]
    return centred * size / np.maximum(size - 1, 1)


ALGORITHM = Algorithm(
    title="RLOO",
    paper="Ahmadian et al. 2024, arXiv:2402.14740",
    equation="Section 2.3",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="episode",
    page="rloo",
)
