"""3SPO: spend rollouts where a state is still worth it (state score, step reward, state-wise expansion).

    p(s) = N_succ / (N_tot + 1e-6),    lambda(t) = alpha ln t
    S(s) = exp(-lambda(t) p(s)) 1[N_fail < xi or p(s) > zeta],    S = 1 where s is new
    R    = w 1[s' != s] + (1/2 - w) (S(s) - S(s')) + R_succ / 2,    w = exp(-N_tot / 10) / 2
    K(s) = ceil(G_max S(s))

At a state K actions are sampled from the *same* state and compared with each other; K = 1 takes one step
without an update, K = 0 stops there. t is the state's depth in its trajectory, from 1 (Appendix C.4, A.4);
the public code counts finished visits, and never calls its own rollout. Eqs. 1-4 are as its README
and core module give them.

With the published constants K is 0, 1 or 8 for every t >= 2: p is at least 0.1 where S is between 0 and 1,
so S is at most 2^-5. Any alpha above 30 gives the same K there; `shares` warns of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import numpy.typing as npt

from agentgym.algos.advantage import relative
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.matching import Match, match_states
from agentgym.algos.objective import Objective
from agentgym.algos.options import POSITIVE_UNIT
from agentgym.arrays import Floats, Ints

OBJECTIVE = Objective(kl_coefficient=0.01)
"""Clipped tokens; the sources name no other ratio."""


def score(
    successes: npt.ArrayLike,
    total: npt.ArrayLike,
    t: npt.ArrayLike,
    *,
    alpha: float = 50.0,
    xi: int = 10,
    zeta: float = 0.1,
) -> Floats:
    """Score states by how much is left to learn in them: S, in [0, 1].

    Args:
        successes: N_succ, finished trajectories through the state that succeeded.
        total: N_tot, finished trajectories through the state.
        t: the schedule's time, at least 1: depth, or whatever else is to count.
        alpha: how fast a state that succeeds loses interest.
        xi: failures before a state may be given up.
        zeta: rate of success at or below which it then is.

    Returns:
        S, exactly 0 only where the state is given up.

    Raises:
        ValueError: counts that cannot be, or t < 1.
    """
    won, seen, time = np.broadcast_arrays(np.asarray(successes), np.asarray(total), np.asarray(t, np.float64))
    if not ((won >= 0) & (won <= seen)).all():
        raise ValueError("successes must be between 0 and total")
    if not (time >= 1).all():
        raise ValueError("t must be at least 1: depths and visits count from 1")
    p = won / (seen + 1e-6)
    exponent = np.maximum(-alpha * np.log(time) * p, -700.0)  # exp would underflow to "given up"
    return np.asarray(np.exp(exponent) * ((seen - won < xi) | (p > zeta)), dtype=np.float64)


def rollouts(scores: npt.ArrayLike, *, largest: int = 8) -> Ints:
    """Number of actions to sample at states: K = ceil(G_max S)."""
    return np.ceil(largest * np.asarray(scores, np.float64)).astype(np.int64)


def shares(k: Ints, *, largest: int = 8) -> Floats:
    """Share of states that got 0, 1, .. G_max rollouts; warns where nothing lies between 1 and G_max."""
    counts = np.bincount(k, minlength=largest + 1)
    if len(k) and not counts[2:largest].any():
        warnings.warn("3SPO allots 0, 1 or G_max rollouts only: lower alpha", RuntimeWarning, stacklevel=2)
    return counts / max(len(k), 1)


def reward(
    changed: npt.ArrayLike,
    success: npt.ArrayLike,
    score_here: npt.ArrayLike,
    score_next: npt.ArrayLike,
    total: npt.ArrayLike,
    *,
    decay: float = 0.1,
) -> Floats:
    """Reward steps by novelty, by what is learnt and by success in [0, 1]; ``total`` is the state's N_tot."""
    w = 0.5 * np.exp(-decay * np.asarray(total, np.float64))
    gain = np.asarray(score_here, np.float64) - np.asarray(score_next, np.float64)
    return np.asarray(w * np.asarray(changed) + (0.5 - w) * gain + 0.5 * np.asarray(success), np.float64)


def advantage(
    batch: StepBatch,
    *,
    std: bool = True,
    match: Match = "state",
    threshold: Annotated[float, POSITIVE_UNIT] = 0.95,
) -> Floats:
    """Compare the actions sampled at each state by ``batch.reward``, which holds `reward`; (n,)."""
    return relative(batch.reward, match_states(batch, match, threshold=threshold), std=std)


@dataclass(slots=True)
class Visits:
    """Finished trajectories through each state of each task, and how many of them succeeded."""

    counts: dict[tuple[Hashable, Hashable], tuple[int, int]] = field(default_factory=dict)
    """(task, state) -> (successes, total)."""

    def add(self, task: Hashable, states: Iterable[Hashable], won: bool) -> None:
        """Count a finished trajectory, once in each distinct state."""
        for state in set(states):
            successes, total = self.counts.get((task, state), (0, 0))
            self.counts[task, state] = (successes + int(won), total + 1)


ALGORITHM = Algorithm(
    title="3SPO",
    paper="3SPO's public README and core module",
    equation="1-4",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    states=True,
    stages=None,
    snapshot=True,
    page="spo3",
)
