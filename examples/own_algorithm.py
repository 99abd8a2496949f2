"""An algorithm of one's own: OPO, an optimal baseline (Hao et al., 2025, arXiv:2505.23585).

    b   = sum_i l_i R_i / sum_i l_i        over the N episodes of a group
    A_i = R_i - b

l_i is the number of tokens that episode i was answered with. That is the constant baseline for which the
gradient's variance is least, if the gradients of tokens are orthogonal and of one norm.

    agentgym train examples.own_algorithm:OPO --env agentgym/EZPoints-v0 --model tiny:0.1m
"""

from __future__ import annotations

import numpy as np

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.objective import Objective
from agentgym.algos.tokens import token_counts
from agentgym.core.arrays import Floats


def advantage(batch: StepBatch) -> Floats:
    """Compare each episode's return with the length-weighted mean of its group.

    Args:
        batch: n steps, with the number of response tokens of each.

    Returns:
        (n,) advantages, the same on all steps of an episode.
    """
    group = np.unique(batch.group, return_inverse=True)[1]
    tokens = token_counts(batch)  # (n,)
    # a group's sums over steps are its sums over episodes: the outcome stands on each of an episode's steps
    weighted = np.bincount(group, weights=tokens * batch.outcome)
    baseline = weighted / np.maximum(np.bincount(group, weights=tokens), 1)
    return batch.outcome - baseline[group]


OPO = Algorithm(
    title="OPO",
    paper="Hao et al. 2025, arXiv:2505.23585",
    advantage=advantage,
    objective=Objective(aggregation="token-mean"),
    credit="episode",
)
