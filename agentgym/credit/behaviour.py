"""Policies with known action probabilities over a state graph, and episodes that they play."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from agentgym.algos.batch import StepBatch
from agentgym.core.arrays import Bools, Floats, Ints
from agentgym.credit.graph import WIN_REWARD, StateGraph
from agentgym.credit.truth import Truth
from agentgym.errors import UsageError


def mixture(graph: StateGraph, strength: float, *, rejected: float = 0.0) -> Floats:
    """Return (E,) the probabilities of a mixture of the oracle and chance.

    With probability |strength| it draws among the actions that begin a shortest way to a win (for a negative
    strength: among the others), else among all actions that are accepted. A state without such actions, or
    from which no win can be reached, is left to chance.

    Args:
        graph: the task's states.
        strength: from -1 to 1.
        rejected: probability of the edge `agentgym.credit.graph.REJECTED`, where a state has it.
    """
    away, source = graph.distances, graph.source
    accepted = np.where(_sums(graph, graph.valid)[source] > 0, graph.valid, True)
    nearer = away[graph.target] < away[source]
    liked = accepted & (nearer if strength >= 0 else ~nearer) & np.isfinite(away[source])
    chance = accepted / _sums(graph, accepted)[source]
    number = _sums(graph, liked)[source]
    weight = np.where(number > 0, abs(strength), 0.0)
    result: Floats = weight * liked / np.maximum(number, 1.0) + (1.0 - weight) * chance
    refused = _sums(graph, ~graph.valid)[source]
    share = np.where((refused > 0) & (refused < np.diff(graph.first)[source]), rejected, 0.0)
    return (1.0 - share) * result + share * ~graph.valid / np.maximum(refused, 1.0)


def _sums(graph: StateGraph, flags: Bools) -> Floats:
    """Return (S,) the number of marked edges of each state."""
    return np.bincount(graph.source, flags, len(graph.won)).astype(np.float64)


def strength_for(
    graphs: Sequence[StateGraph], success: float, *, horizon: int, rejected: float = 0.0
) -> float:
    """Return the strength at which `mixture` wins a share of its episodes, on average over tasks.

    Args:
        graphs: the tasks.
        success: share of episodes won.
        horizon: the step limit.
        rejected: as `mixture` takes it.

    Raises:
        UnreachableSuccessError: no strength reaches that share.
    """

    def won(strength: float) -> float:
        policies = (mixture(graph, strength, rejected=rejected) for graph in graphs)
        pairs = zip(graphs, policies, strict=True)
        return float(np.mean([Truth.of(graph, p, horizon=horizon).values[-1, 0] for graph, p in pairs]))

    return strength_at(won, success, low=-1.0, width=1e-4)


class UnreachableSuccessError(UsageError):
    """No strength of a policy wins that share of its episodes."""


def strength_at(won: Callable[[float], float], success: float, *, low: float, width: float) -> float:
    """Return the strength at which a policy wins a share of its episodes, by bisection.

    Args:
        won: share of episodes won at a strength, which rises with it.
        success: share that is asked for.
        low: least strength; the greatest is 1.
        width: width of the last interval, whose middle is returned.

    Raises:
        UnreachableSuccessError: no strength reaches that share.
    """
    high, least, most = 1.0, won(low), won(1.0)
    if not least <= success <= most:
        least, most = math.ceil(1000 * least) / 1000, math.floor(1000 * most) / 1000
        raise UnreachableSuccessError(
            f"a share of wins of {success:g} is out of reach on these tasks: take one from {least} to {most}"
        )
    while high - low > width:
        middle = (low + high) / 2
        low, high = (middle, high) if won(middle) < success else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True, slots=True)
class Run:
    """Steps of one task's group, episode after episode."""

    edge: Ints
    """(n,) edges taken."""
    left: Ints
    """(n,) steps left before each."""
    member: Ints
    """(n,) index of the episode."""
    texts: tuple[str, ...]
    """n observations before the steps."""

    @classmethod
    def of(cls, graph: StateGraph, edge: Ints, left: Ints, member: Ints, *, horizon: int) -> Run:
        """Return a run with the observations that its edges led to."""
        seen = np.where(left < horizon, graph.text[np.append(0, edge[:-1])], 0)
        return cls(edge, left, member, tuple(graph.texts[each] for each in seen.tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Episodes:
    """Groups of episodes on state graphs, one group a task, with the truth about their steps."""

    batch: StepBatch
    """n steps, as training collects them; a win earns `WIN_REWARD`."""
    task: Ints
    """(n,) index of the task."""
    edge: Ints
    """(n,) edge of the task's graph that the step takes."""
    state: Ints
    """(n,) state that it is taken in; numbers go on from task to task."""
    next_state: Ints
    """(n,) state that followed; the batch numbers both anew."""
    left: Ints
    """(n,) steps left before it."""
    advantage: Floats
    """(n,) its true advantage, on the scale on which a win is 1; or an unbiased estimate of it."""
    error: Floats
    """(n,) half the difference of the two independent estimates whose mean `advantage` is; 0 where exact."""


def play(truths: Sequence[Truth], size: int, rng: np.random.Generator) -> Episodes:
    """Play a group of episodes of each task.

    Args:
        truths: the tasks, with the policy.
        size: episodes of a group.
        rng: source of the draws.
    """
    return episodes_of(truths, [_play_task(truth, size, rng) for truth in truths], size)


def episodes_of(
    truths: Sequence[Truth], runs: Sequence[Run], size: int, second: Sequence[Truth] | None = None
) -> Episodes:
    """Return groups of episodes that were played, one run a task.

    Args:
        truths: the tasks.
        runs: steps of each task's group.
        size: episodes of a group.
        second: estimates of the truths that are independent of ``truths``, where these are estimates.
    """
    task = np.repeat(np.arange(len(runs)), [len(run.edge) for run in runs])
    offset = np.cumsum([0, *(len(truth.graph.won) for truth in truths)])[task]
    pairs = list(zip(truths, runs, strict=True))
    columns = {
        name: np.concatenate([getattr(truth.graph, name)[run.edge] for truth, run in pairs])
        for name in ("source", "target", "valid", "wins")
    }
    ended = np.concatenate([truth.graph.ended[truth.graph.target[run.edge]] for truth, run in pairs])
    left = np.concatenate([run.left for run in runs])
    trajectory = task * size + np.concatenate([run.member for run in runs])
    state, next_state = columns["source"] + offset, columns["target"] + offset
    batch = StepBatch.of(
        group=task,
        trajectory=trajectory,
        state=state,
        next_state=next_state,
        reward=WIN_REWARD * columns["wins"],
        won=np.bincount(trajectory, columns["wins"])[trajectory] > 0,
        valid=columns["valid"],
        terminated=ended,
        truncated=~ended & (left == 1),
        tokens=np.ones(len(task), dtype=np.int64),
        progress=columns["wins"],
        texts=tuple(text for run in runs for text in run.texts),
        actions=tuple(truth.graph.actions[edge] for truth, run in pairs for edge in run.edge.tolist()),
    )
    advantage, again = (
        np.concatenate([truth.advantages(r.edge, r.left) for truth, r in zip(each, runs, strict=True)])
        for each in (truths, second or truths)
    )
    return Episodes(
        batch=batch,
        task=task,
        edge=np.concatenate([run.edge for run in runs]),
        state=state,
        next_state=next_state,
        left=left,
        advantage=(advantage + again) / 2,
        error=(advantage - again) / 2,
    )


def _play_task(truth: Truth, size: int, rng: np.random.Generator) -> Run:
    graph, horizon, bounds = truth.graph, truth.horizon, truth.bounds
    taken = np.full((horizon, size), -1)
    state, alive = np.zeros(size, dtype=np.int64), np.arange(size)
    for step in range(horizon):
        here = state[alive]
        low, high = bounds[graph.first[here]], bounds[graph.first[here + 1]]
        edge = np.searchsorted(bounds, low + (high - low) * rng.random(len(here)), side="right") - 1
        edge = np.clip(edge, graph.first[here], graph.first[here + 1] - 1)
        taken[step, alive] = edge
        state[alive] = graph.target[edge]
        alive = alive[~graph.ended[state[alive]]]
    member, time = np.nonzero(taken.T >= 0)
    return Run.of(graph, taken.T[member, time], horizon - time, member, horizon=horizon)
