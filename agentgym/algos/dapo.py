"""DAPO: decoupled clip and dynamic sampling (Yu et al., 2025, arXiv:2503.14476).

    A_i = (R_i - mean_g R) / std_g R                                                       (9)
    R_i includes -(length - (L_max - L_cache)) / L_cache where a response is that long    (13)

DAPO is GRPO's advantage with four changes around it: groups whose episodes all earn the same are resampled
(`agentgym.algos.filters`), the upper clipping bound is higher, the loss averages tokens (`OBJECTIVE`), and
responses near the length limit pay. There is no divergence penalty.

The paper writes for one response per episode; here each step's response pays for its own length, and the
price is part of that step's reward.
"""

from __future__ import annotations

from agentgym.algos import grpo
from agentgym.algos.advantage import EPS, EpisodeStat, InvalidPenalty, Singleton, trajectory_sums
from agentgym.algos.batch import StepBatch
from agentgym.algos.filters import overlong_penalty
from agentgym.algos.objective import Objective
from agentgym.algos.tokens import token_counts
from agentgym.arrays import Floats

OBJECTIVE = Objective(clip_high=0.28)
"""Eq. 8: clip-higher, mean over tokens."""


def advantage(
    batch: StepBatch,
    *,
    max_tokens: int | None = None,
    buffer: int = 128,
    factor: float = 1.0,
    eps: float = EPS,
    episode_stat: EpisodeStat = "trajectory",
    singleton: Singleton = "zero",
    invalid_penalty: InvalidPenalty = "reward",
    penalty: float = 0.1,
) -> Floats:
    """Compare each episode's outcome, less what its long responses cost, with its group's.

    Args:
        batch: the steps; with ``tokens`` where ``max_tokens`` is set.
        max_tokens: the limit on a response's length that generation ran under; None: length costs nothing.
        buffer: length of the stretch before the limit over which the price grows.
        factor: the price at the limit.
        eps: as in `agentgym.algos.grpo.advantage`, like all that follow.
        episode_stat: what the statistics count once.
        singleton: advantage of an episode alone in its group.
        invalid_penalty: where the price of a rejected action goes.
        penalty: the price of a rejected action.

    Returns:
        (n,) advantages.

    Raises:
        ValueError: an unknown switch, or ``tokens`` is missing.
    """
    if max_tokens is not None:
        batch = shaped(batch, max_tokens=max_tokens, buffer=buffer, factor=factor)
    return grpo.advantage(
        batch,
        eps=eps,
        episode_stat=episode_stat,
        singleton=singleton,
        invalid_penalty=invalid_penalty,
        penalty=penalty,
    )


def shaped(batch: StepBatch, *, max_tokens: int, buffer: int = 128, factor: float = 1.0) -> StepBatch:
    """Take the price of long responses off rewards and outcomes (Eq. 13)."""
    price = overlong_penalty(token_counts(batch), max_tokens=max_tokens, buffer=buffer, factor=factor)
    return batch.with_columns(
        reward=batch.reward + price, outcome=batch.outcome + trajectory_sums(batch, price)
    )
