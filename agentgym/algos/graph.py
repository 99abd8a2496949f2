"""The graph of a group's episodes: nodes are states, edges are steps, and wins lead to SUCCESS."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from agentgym.algos.advantage import joint, segment_ends
from agentgym.algos.batch import StepBatch
from agentgym.algos.matching import Match, check_known, match_states
from agentgym.core.arrays import Bools, Floats, Ints
from agentgym.core.options import check_choice
from agentgym.core.stopwatch import stage


@stage("grouping")
def match_edges(batch: StepBatch, match: Match = "state", *, threshold: float = 0.95) -> tuple[Ints, Ints]:
    """Number the states acted in and the states that followed, alike: the two ends of each step.

    Within a trajectory a step leads to where the next one starts. Its last state was not acted in, so it
    has neither text nor embedding here: it is the state it shares ``next_state`` with, or a new one.

    Args:
        batch: n steps, with ``next_state``.
        match: as `match_states`.
        threshold: as `match_states`.

    Returns:
        (n,) sources, as `match_states` numbers them up to renaming, and (n,) targets.

    Raises:
        ValueError: as `match_states`, or a next state is missing.
    """
    check_known("next_state", batch.next_state)
    source = match_states(batch, match, threshold=threshold)
    n = len(batch)
    twice = np.concatenate([batch.group, batch.group])
    exact = joint(twice, np.concatenate([batch.state, batch.next_state]))
    if match == "state":
        return exact[:n], exact[n:]
    known = np.full(2 * n, -1, dtype=np.int64)
    known[exact[:n][::-1]] = source[::-1]  # of rows that share a state the first one's number stays
    arrived = known[exact[n:]]
    target = np.where(arrived >= 0, arrived, n + exact[n:])
    inside = ~segment_ends(batch.trajectory)
    target[inside] = source[1:][inside[:-1]]
    return source, target


class GraphSize(NamedTuple):
    """How large the graphs of a batch are, over all groups."""

    nodes: int
    """States, SUCCESS of each group that has one included."""
    edges: int
    """Distinct pairs of nodes with a step from one to the other."""
    steps: int


def graph_size(batch: StepBatch, match: Match = "state", *, threshold: float = 0.95) -> GraphSize:
    """Return the size of a batch's graphs; arguments and errors as `match_edges`.

    Example:
        >>> batch = StepBatch.of(group=[0] * 3, trajectory=[0, 0, 1], state="aba", next_state="b!b",
        ...                      reward=[0, 1, 0])
        >>> graph_size(batch)
        GraphSize(nodes=3, edges=2, steps=3)
    """
    source, target = match_edges(batch, match, threshold=threshold)
    success = _successes(batch)
    groups = joint(batch.group)
    arrived = np.where(success, -1 - groups, target)
    nodes = np.unique(np.concatenate([source, arrived]))
    edges = np.unique(np.stack([source, arrived]), axis=1).shape[1]
    return GraphSize(len(nodes), edges, len(batch))


StepCosts: TypeAlias = Literal["unit", "environment"]
"""What a step costs: 1, or what the environment says of it (`StepBatch.cost`)."""


def step_costs(batch: StepBatch, costs: StepCosts = "unit", cost: Floats | None = None) -> Floats:
    """Return (n,) what each step costs.

    A rejected action costs 1 at least, also where the environment charges nothing for it: it leads back to
    its own state, and would otherwise rank with the best of that state's actions.

    Args:
        batch: the steps; ``cost`` too under ``"environment"``.
        costs: who says what a step costs.
        cost: (n,) costs that are taken as they are instead.

    Raises:
        ValueError: a cost is missing, negative or not finite, or the shape is wrong.
    """
    check_choice("costs", costs, StepCosts)
    n = len(batch)
    if cost is None:
        if costs == "unit":
            return np.ones(n)
        if batch.cost is None:
            raise ValueError('cost is missing: costs="environment" needs what each step cost')
        return np.where(batch.valid, batch.cost, np.maximum(batch.cost, 1.0))
    if np.shape(cost) != (n,) or not (np.isfinite(cost) & (np.asarray(cost) >= 0)).all():
        raise ValueError(f"cost must hold {n} finite numbers that are not negative, one per step")
    return np.asarray(cost, dtype=np.float64)


@stage("grouping")
def distance(batch: StepBatch, source: Ints, target: Ints, cost: Floats) -> Floats:
    """Length of the shortest path to SUCCESS from where each step led.

    All groups at once: ``d(s) <- min over the edges of s of c + d(s')`` from SUCCESS outwards until
    nothing falls, as many passes over the edges as the longest shortest path has steps.

    Args:
        batch: the steps.
        source: (n,) node acted in; groups share none.
        target: (n,) node reached, were it not SUCCESS.
        cost: (n,) not negative.

    Returns:
        (n,) d(s'); where SUCCESS cannot be reached, 1 + the group's largest finite d.
    """
    success = _successes(batch)
    order = np.argsort(source, kind="stable")
    first = np.flatnonzero(np.diff(source[order], prepend=-1))
    nodes = source[order][first]
    head, tail, c = target[order], success[order], cost[order]
    d = np.full(max(source.max(initial=-1), target.max(initial=-1)) + 1, np.inf)
    while len(nodes):
        shorter = np.minimum.reduceat(c + np.where(tail, 0.0, d[head]), first)
        if not (shorter < d[nodes]).any():
            break
        d[nodes] = shorter
    from_here, left = d[source], np.where(success, 0.0, d[target])
    group = joint(batch.group)
    largest = np.zeros(len(batch))
    np.maximum.at(largest, group, np.where(np.isfinite(from_here), from_here, 0.0))
    return np.where(np.isfinite(left), left, largest[group] + 1.0)


@stage("grouping")
def distinct(batch: StepBatch, source: Ints, target: Ints, reward: Floats) -> Bools:
    """Mark the first step of each distinct edge: same states, same action, same worth.

    Args:
        batch: the steps, with ``actions``.
        source: (n,) node acted in.
        target: (n,) node reached.
        reward: (n,) what the step is worth.

    Raises:
        ValueError: ``actions`` is missing.
    """
    if batch.actions is None:
        raise ValueError('actions is missing: edges="unique" tells edges apart by their actions')
    names: dict[str, int] = {}
    action = np.array([names.setdefault(action, len(names)) for action in batch.actions], dtype=np.int64)
    arrived = np.where(_successes(batch), -1, target)
    worth = np.unique(reward, return_inverse=True)[1]
    first = np.unique(joint(source, arrived, action, worth), return_index=True)[1]
    marks = np.zeros(len(batch), dtype=np.bool_)
    marks[first] = True
    return marks


def _successes(batch: StepBatch) -> Bools:
    """Mark the steps that led to SUCCESS: the last one of each episode that was won."""
    return segment_ends(batch.trajectory) & batch.won
