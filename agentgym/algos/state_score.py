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
"""Time t of a state's score."""

VisitScope: TypeAlias = Literal["task", "all"]
"""Trajectories that count as visits of a state."""

Frontier: TypeAlias = Literal["distinct", "all"]
"""States from which a tree goes on."""

Lifetime: TypeAlias = Literal["run", "tree"]
"""Lifetime of the counts of visits."""


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
        t: the schedule's time, at least 1: depth, visits, or finished trajectories.
        alpha: rate at which the score of a state that succeeds falls.
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
    """Reward steps by novelty, by what is learnt and by success in [0, 1]; ``total`` is the state's N_tot.

    ``weight``: a fixed w, which otherwise falls with N_tot.
    """
    w = 0.5 * np.exp(-decay * np.asarray(total, np.float64)) if weight is None else weight
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
    """Rate at which the score of a state that succeeds falls."""
    xi: PositiveInt = 10
    """Failures after which a state may be given up."""
    zeta: Annotated[float, UNIT_INTERVAL] = 0.1
    """Success rate at or below which such a state is given up."""
    largest: PositiveInt = 8
    """Largest number of samples of a state, G_max."""
    decay: NonNegativeFloat = 0.1
    """Rate at which the weight w falls with the visits N_tot."""
    fixed_weight: Annotated[float, Bounds(0, 0.5)] | None = None
    """w of every state, whatever its visits; None for ``exp(-decay N_tot) / 2``."""
    schedule: Schedule = "depth"
    """Time t of a state's score: the state's depth in its trajectory, from 1 (Appendix C.4, A.4); the
    finished trajectories through it ("visits", neither the paper's rule nor its code's); or 1 and the
    finished ones of the run, one counter for all states ("global", public code)."""
    scope: VisitScope = "task"
    """Trajectories that count as visits of a state: its task's, or those of all tasks in which an observation
    has the same text ("all", public code; needs ``match="text"``)."""
    budget: NonNegativeInt = 0
    """Samples that a tree may take; 0 for as many as a group of whole episodes may have steps."""
    repeats: PositiveInt = 1
    """Trees of a task, one after the other, before the next task takes its place. S tells the states apart
    that earlier trees have passed; with one tree a task it is 1 nearly everywhere until tasks come again."""
    frontier: Frontier = "distinct"
    """States from which a tree goes on, now or later: those that are new to the tree ("distinct"), or all
    that it reaches."""
    backtracking: bool = True
    """Whether a tree goes on with the states that wait where its own branch ends; otherwise it ends there."""
    batches: NonNegativeInt = 0
    """Number of whole trees in each place, on average, after which a run ends: a batch is a tree in every
    place. 0: the run ends with its iterations alone."""
    counts: Lifetime = "run"
    """Lifetime of the counts of visits: the run, or a tree."""
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
        earned = float(
            reward(novel, success, here, following, total, decay=self.decay, weight=self.fixed_weight)
        )
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
