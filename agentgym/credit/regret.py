"""Regret of steps: how many steps each costs beyond a shortest way to a win.

With d(s) the length of a shortest way from a state to a win, the regret of a step from s to s' is

    r = 1 + d(s') - d(s),

0 for a step of a shortest way and infinite for one into a dead end; in a dead end nothing is left to lose,
and r is 0. The regrets of an episode won add up to its steps less d of its first state. The belief regret of
a step is the least that it has in the true world or in one of those that `GoalDistance.imagined` names, all
of which the observations before it allow and in which a win was still possible,

    b = min over w of 1 + d_w(s'_w) - d_w(s_w)  <=  r,

so that looking into a place that may hold what is sought is no mistake. A game that shows its whole state has
one world, and b = r. Where lengths are not proven, all of this is an interval.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self, cast

from agentgym.core.distances import NO_WAY, GoalDistance, StepBounds
from agentgym.core.suite_spec import REGRET_MEASURES, Measure
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.log.frames import EpisodeFrame, ReplayedFrames, frames
from agentgym.evaluation.log.replay import ReplayGames
from agentgym.evaluation.log.results import ABORTED, EvalSample
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.suites.suite import PlayedEnv
from agentgym.io.optional import load_reference

NO_REGRET = StepBounds(0.0, 0.0)


@dataclass(frozen=True, slots=True)
class EpisodeRegret:
    """Regret of the T steps of an episode."""

    left: tuple[StepBounds, ...]
    """Steps of a shortest way to a win from each of the T + 1 states."""
    belief: tuple[StepBounds, ...]
    """Belief regret of each step."""
    limit: int
    """Step limit of the episode."""

    @property
    def known(self) -> tuple[StepBounds, ...]:
        """Regret of each step, with the hidden state known."""
        return tuple(step_regret(before, after) for before, after in pairwise(self.left))

    @property
    def undone(self) -> tuple[bool, ...]:
        """Whether each step provably undoes progress: more steps are left after it than before."""
        return tuple(after.low > before.high for before, after in pairwise(self.left))

    def share(self, steps: Sequence[StepBounds]) -> float:
        """Return what steps provably lose in all, as a share of the step limit and 1 at most."""
        return min(1.0, total(steps).low / self.limit)

    @property
    def decisive(self) -> int | None:
        """Number of the first step, from 1, after which a win within the step limit is provably out of reach.

        None where it never is, or was from the start.
        """
        late = (turn for turn, left in enumerate(self.left) if left.low > self.limit - turn)
        return next(late, 0) or None


@dataclass(frozen=True, slots=True)
class RegretSummary:
    """Regret of the steps of some episodes."""

    episodes: int
    steps: int
    known: StepBounds
    """Mean regret of a step; steps into dead ends, whose regret is infinite, are left out."""
    belief: StepBounds
    """Mean belief regret of a step, likewise."""
    undone: int
    """Number of steps that undo progress."""
    dead_ends: int
    """Number of steps into a dead end."""
    decisive: tuple[int, ...]
    """Decisive step of each episode that has one, in order."""
    unproven: int
    """Number of states whose distance is an interval."""

    @classmethod
    def of(cls, found: Sequence[EpisodeRegret]) -> Self:
        """Sum up episodes."""
        known, belief = (
            [each for one in found for each in getattr(one, kind)] for kind in ("known", "belief")
        )
        return cls(
            episodes=len(found),
            steps=len(known),
            known=_mean(known),
            belief=_mean(belief),
            undone=sum(sum(one.undone) for one in found),
            dead_ends=sum(each.low == math.inf for each in known),
            decisive=tuple(sorted(one.decisive for one in found if one.decisive is not None)),
            unproven=sum(each.low < each.high for one in found for each in one.left),
        )

    @property
    def sentence(self) -> str:
        """All of it, in words."""
        late = f", step {self.decisive[len(self.decisive) // 2]} in the middle" if self.decisive else ""
        doubt = f"; {self.unproven} distances are not proven" if self.unproven else ""
        return (
            f"{self.episodes} episodes, {self.steps} steps: mean regret {self.known}, of belief "
            f"{self.belief}; {self.undone / max(1, self.steps):.1%} of steps undo progress, {self.dead_ends} "
            f"lead into a dead end; {len(self.decisive)} episodes have a decisive step{late}{doubt}"
        )


def total(steps: Iterable[StepBounds]) -> StepBounds:
    """Return the sum of regrets."""
    lows, highs = zip(*steps, strict=True) if (steps := list(steps)) else ((), ())
    return StepBounds(sum(lows), sum(highs))


def _mean(steps: Sequence[StepBounds]) -> StepBounds:
    finite = [each for each in steps if each.low < math.inf]
    count = max(1, len(finite))
    return StepBounds(sum(each.low for each in finite) / count, sum(each.high for each in finite) / count)


def step_regret(before: StepBounds, after: StepBounds) -> StepBounds:
    """Return the regret of a step, from the distances of the states before and after it.

    Example:
        >>> step_regret(StepBounds(3, 3), StepBounds(4, 4))
        StepBounds(low=2, high=2)
    """
    if before.low == math.inf:
        return NO_REGRET
    least = 0.0 if before.high == math.inf else max(0.0, 1 + after.low - before.high)
    return StepBounds(least, max(0.0, 1 + after.high - before.low))


def goal_distance(game: AgentEnv[Any]) -> GoalDistance:
    """Return the distance to a win in an episode that has begun; UsageError where a suite has none."""
    reference = game.suite_spec.distance
    if reference is None:
        raise UsageError(f"{game.suite}: no shortest way to a win can be proven, so steps have no regret")
    return cast(GoalDistance, load_reference(reference, trusted=True)(game))


@dataclass(frozen=True, slots=True)
class RegretFrame:
    """A state of an episode with its distance, and the regret of the step that led there."""

    frame: EpisodeFrame
    left: StepBounds
    known: StepBounds | None
    """Regret of the step; None for the first state."""
    belief: StepBounds | None
    """Belief regret of the step; likewise."""

    def __str__(self) -> str:
        """The figures, in words."""
        step = "" if self.known is None else f"regret {self.known}, of belief {self.belief}; "
        return f"{step}steps to a win: {self.left}"


def regret_frames(game: AgentEnv[Any], played: Iterable[EpisodeFrame]) -> Iterator[RegretFrame]:
    """Yield the states of an episode, in each of which ``game`` is, with their regret."""
    distance, before, left = None, None, NO_WAY
    for frame in played:
        distance = distance or goal_distance(game)
        state, earlier = game.snapshot().state, left
        left = distance.left(state)
        known = belief = None
        if frame.step is not None:
            known = step_regret(earlier, left)
            belief = _least(distance, distance.imagined(frame.step, frame.observation, before, state), known)
        before = state
        yield RegretFrame(frame, left, known, belief)


def measure_regret(game: AgentEnv[Any], played: Iterable[EpisodeFrame]) -> EpisodeRegret:
    """Return the regret of an episode from its states, as `regret_frames` takes them."""
    found = list(regret_frames(game, played))
    belief = tuple(each.belief for each in found if each.belief is not None)
    return EpisodeRegret(tuple(each.left for each in found), belief, game.max_steps)


def _least(distance: GoalDistance, worlds: Iterable[tuple[Any, Any]], known: StepBounds) -> StepBounds:
    """Return the least regret over the true world and others in which a win was still possible."""
    for before, after in worlds:
        if known.high == 0:
            break
        left = distance.left(before)
        if left.low < math.inf:
            regret = step_regret(left, distance.left(after))
            known = StepBounds(min(known.low, regret.low), min(known.high, regret.high))
    return known


def regret_of_run(
    run: StoredRun, episodes: Sequence[EvalSample]
) -> Iterator[tuple[EvalSample, EpisodeRegret]]:
    """Replay episodes of a run and yield their regret; UsageError where a replay departs from its record."""
    with ExitStack() as stack:
        games = ReplayGames([found.env for found in run.log.envs], run.answers, stack, run.log.state_schemas)
        for episode in episodes:
            game, env = games.of(episode.env)
            yield episode, _replayed(game, env, episode)


def with_regret_measures(run: StoredRun, shown: Mapping[str, tuple[Measure, ...]]) -> list[EvalSample]:
    """Return a run's results with `REGRET_MEASURES` in those of the environments that show one.

    Where a distance is not proven, its lower bound counts, so that no step loses more than is proven. An
    episode that ended in an error has the worse bound, as in every column.

    Args:
        run: a verified run.
        shown: columns of each environment, by label.

    Raises:
        UsageError: a replay departs from its record.
    """
    labels = {label for label, columns in shown.items() if {*columns} & {*REGRET_MEASURES}}
    asked = [each for each in run.results if each.env in labels]
    names = [column.name for column in REGRET_MEASURES]
    found = {each.id: dict.fromkeys(names, 1.0) for each in asked}
    for episode, regret in regret_of_run(run, [each for each in asked if each.end_reason not in ABORTED]):
        shares = map(regret.share, (regret.known, regret.belief))
        found[episode.id] = dict(zip(names, shares, strict=True))
    return [replace(each, measures={**each.measures, **found.get(each.id, {})}) for each in run.results]


def _replayed(game: AgentEnv[Any], env: PlayedEnv, episode: EvalSample) -> EpisodeRegret:
    played = ReplayedFrames(frames(game, env, episode), episode.hash_chain)
    regret = measure_regret(game, played)
    if played.differs_at is not None:
        raise UsageError(
            f"episode {episode.id}, step {played.differs_at}: {played.why}; `agentgym verify` it"
        )
    return regret
