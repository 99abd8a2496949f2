"""DAPO: decoupled clip and dynamic sampling (Yu et al., 2025, arXiv:2503.14476).

    A_i = (R_i - mean_g R) / std_g R                                                       (9)
    R_i includes -(length - (L_max - L_cache)) / L_cache where a response is that long    (13)

DAPO is GRPO's advantage with four changes around it: groups whose episodes all earn the same are resampled
(`agentgym.algos.filters`), the upper clipping bound is higher, the loss averages tokens (`OBJECTIVE`), and
responses near the length limit are penalised. There is no divergence penalty.

The paper writes for one response per episode; here an episode pays the mean of what its responses would pay
by Eq. 13, so ``factor`` at most however many steps it has, and a win is not ranked below a loss whose outcome
is ``factor`` less. Each step's part of it is in that step's reward. In a training run the limit is that of
responses (``prompting.max_tokens``) unless ``algorithm_options.max_tokens`` states another.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from agentgym.algos import grpo
from agentgym.algos.advantage import EPS, trajectory_sums
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.filters import overlong_penalty
from agentgym.algos.objective import Objective
from agentgym.algos.tokens import token_counts
from agentgym.core.arrays import Floats
from agentgym.core.options import NonNegativeFloat, PositiveInt

OBJECTIVE = Objective(clip_high=0.28)
"""Eq. 8: clip-higher, mean over tokens."""


def advantage(
    batch: StepBatch,
    *,
    max_tokens: PositiveInt | None = None,
    buffer: PositiveInt | None = None,
    factor: NonNegativeFloat = 1.0,
    eps: float = EPS,
    compat: Compat = PAPER,
) -> Floats:
    """Compare each episode's outcome, less what its long responses cost, with its group's.

    Args:
        batch: the steps; with ``tokens`` where ``max_tokens`` is set.
        max_tokens: the limit on a response's length that generation ran under; None: length costs nothing.
        buffer: length of the stretch before the limit over which the overlong penalty grows; None for a
            quarter of the limit.
        factor: the penalty of an episode whose responses are all at the limit.
        eps: constant added to the deviation.
        compat: choices of public code, as in `agentgym.algos.grpo.advantage`.

    Returns:
        (n,) advantages.

    Raises:
        ValueError: a length is out of range, or ``tokens`` is missing.
    """
    if max_tokens is not None:
        stretch = max(1, max_tokens // 4) if buffer is None else buffer
        batch = shaped(batch, max_tokens=max_tokens, buffer=stretch, factor=factor)
    return grpo.advantage(batch, eps=eps, compat=compat)


def shaped(batch: StepBatch, *, max_tokens: int, buffer: int = 128, factor: float = 1.0) -> StepBatch:
    """Add the overlong penalty to rewards and outcomes (Eq. 13), of an episode from ``-factor`` to 0."""
    penalty = overlong_penalty(token_counts(batch), max_tokens=max_tokens, buffer=buffer, factor=factor)
    penalty = penalty / np.repeat(batch.lengths, batch.lengths)  # an episode pays the mean of its responses'
    return batch.with_columns(
        reward=batch.reward + penalty, outcome=batch.outcome + trajectory_sums(batch, penalty)
    )


ALGORITHM = Algorithm(
    title="DAPO",
    paper="Yu et al. 2025, arXiv:2503.14476",
    equation="9, 13",
    advantage=partial(advantage, max_tokens=512),
    objective=OBJECTIVE,
    credit="episode",
    follows={"max_tokens": "prompting.max_tokens"},
    page="dapo",
)
