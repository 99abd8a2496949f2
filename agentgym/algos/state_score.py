"""3SPO's state score S, the rollouts K that it allots and the reward R of a step; their options."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.core.arrays import Floats, Ints
from agentgym.core.options import UNIT_INTERVAL, Bounds, NonNegativeFloat, NonNegativeInt, PositiveInt

Schedule: TypeAlias = Literal["depth", "visits", "global"]
"""What lambda grows with."""

VisitScope: TypeAlias = Literal["task", "all"]
"""Whose visits a state has."""

Frontier: TypeAlias = Literal["distinct", "all"]
"""Which states a tree goes on with."""

Lifetime: TypeAlias = Literal["run", "tree"]
"""How long visits are remembered."""


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
    weight: float | None = None,
) -> Floats:
    """Reward steps by novelty, by what is learnt and by success in [0, 1].

    ``total`` is the state's N_tot, in which w decays; ``weight`` is a w that is the same everywhere.
    """
    w = 0.5 * np.exp(-decay * np.asarray(total, np.float64)) if weight is None else np.asarray(weight)
    gain = np.asarray(score_here, np.float64) - np.asarray(score_next, np.float64)
    return np.asarray(w * np.asarray(changed) + (0.5 - w) * gain + 0.5 * np.asarray(success), np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Allotment:
    """Options of 3SPO's rollouts, and the formulas with them; the defaults are the published constants.

    Example:
        >>> gentle = Allotment(alpha=1.0)
        >>> float(gentle.score(2, 4, depth=10).round(3)), gentle.samples(gentle.score(2, 4, depth=10))
        (0.316, 3)
        >>> Allotment(fixed=4).samples(0.0)
        4
    """

    alpha: NonNegativeFloat = 50.0
    """How fast a state that succeeds loses interest."""
    xi: PositiveInt = 10
    """Failures before a state may be given up."""
    zeta: Annotated[float, UNIT_INTERVAL] = 0.1
    """Rate of success at or below which it then is."""
    largest: PositiveInt = 8
    """Most samples of a state, G_max."""
    decay: NonNegativeFloat = 0.1
    """Of the weight w in the visits N_tot."""
    weight: Annotated[float, Bounds(0, 0.5)] | None = None
    """w itself, the same in every state; None for the one that decays."""
    schedule: Schedule = "depth"
    """What lambda grows with: the state's depth in its trajectory, from 1 (Appendix C.4, A.4); the finished
    trajectories through it ("visits", neither the paper's rule nor its code's); or 1 and the finished ones of
    the run, one counter for all states ("global", public code)."""
    scope: VisitScope = "task"
    """Whose visits a state has: those of its task, or those of all tasks in which an observation has the same
    text ("all", public code; needs ``match="text"``)."""
    budget: NonNegativeInt = 0
    """Samples that a tree may take; 0 for as many as a group of whole episodes may have steps."""
    repeats: PositiveInt = 1
    """Trees of a task, one after the other, before the next task takes its place. S tells the states apart
    that earlier trees have passed; with one tree a task it is 1 nearly everywhere until tasks come again."""
    frontier: Frontier = "distinct"
    """Which of the states reached are followed or wait on the frontier: those that the tree has not been in
    ("distinct"), or all."""
    backtrack: bool = True
    """Whether the states that were not followed wait on the frontier. Without, a tree is one path of
    expansions, which ends with its episode."""
    batches: NonNegativeInt = 0
    """Whole trees in each place, on average, after which a run ends: a batch is a tree in every place. 0: it
    ends with its iterations alone."""
    counts: Lifetime = "run"
    """How long visits are remembered: over the run, or within a tree."""
    fixed: NonNegativeInt = 0
    """Samples of every state, whatever its score; 0 for ``ceil(largest S)``."""
    state_score: bool = True
    """Whether states are scored; otherwise S is 1 everywhere: K is ``largest``, nothing is gained."""
    novelty: bool = True
    """Whether the reward has its term w R_novel."""
    gain: bool = True
    """Whether the reward has its term (1/2 - w) (S(s) - S(s'))."""
    penalty: NonNegativeFloat = 0.0
    """Invalid-action penalty, off the reward of a step that the environment does not accept."""

    def score(self, successes: int, total: int, depth: int, finished: int = 0) -> Floats:
        """Return S of a state; ``finished`` are the trajectories that were, of any task."""
        if not self.state_score:
            return np.ones(())
        time = {"depth": depth, "visits": max(total, 1), "global": finished + 1}[self.schedule]
        return score(successes, total, time, alpha=self.alpha, xi=self.xi, zeta=self.zeta)

    def samples(self, scored: npt.ArrayLike) -> int:
        """Return K of a state with a score."""
        return self.fixed or int(rollouts(scored, largest=self.largest))

    def reward(
        self,
        changed: bool,
        success: float,
        score_here: float,
        score_next: float,
        total: int,
        valid: bool = True,
    ) -> float:
        """Return R of a step, without the terms that are left out and less what an invalid action costs."""
        here, following = (score_here, score_next) if self.gain else (0.0, 0.0)
        novel = changed and self.novelty
        constant, w = self.decay, self.weight
        earned = float(reward(novel, success, here, following, total, decay=constant, weight=w))
        return earned if valid else earned - self.penalty


@dataclass(slots=True)
class Visits:
    """Finished trajectories through each state of each task, and how many of them succeeded."""

    counts: dict[tuple[Hashable, Hashable], tuple[int, int]] = field(default_factory=dict)
    """(task, state) -> (successes, total)."""
    finished: int = 0
    """Trajectories counted."""

    def add(self, task: Hashable, states: Iterable[Hashable], won: bool) -> None:
        """Count a finished trajectory, once in each distinct state."""
        self.finished += 1
        for state in set(states):
            successes, total = self.counts.get((task, state), (0, 0))
            self.counts[task, state] = (successes + int(won), total + 1)

    def of(self, task: Hashable, state: Hashable) -> tuple[int, int]:
        """Return (N_succ, N_tot) of a state."""
        return self.counts.get((task, state), (0, 0))
