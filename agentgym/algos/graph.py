"""The graph of a group's episodes: nodes are states, edges are steps, and wins lead to SUCCESS."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from agentgym.algos.advantage import joint, segment_ends
from agentgym.algos.batch import StepBatch
from agentgym.algos.matching import Match, check_known, match_actions, match_states
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
        match: criterion of equal states, as `match_states` takes it.
        threshold: least similarity, as `match_states` takes it.

    Returns:
        (n,) sources, as `match_states` numbers them up to renaming, and (n,) targets.

    Raises:
        ValueError: an error of `match_states`, or a missing next state.
    """
    check_known("next_state", batch.next_state)
    source = match_states(batch, match, threshold=threshold)
    n = len(batch)
    twice = np.concatenate([batch.group, batch.group])
    exact = joint(twice, np.concatenate([batch.state, batch.next_state]))
    if match == "state":
        return exact[:n], exact[n:]
    known = np.full(2 * n, -1, dtype=np.int64)
    known[exact[:n][::-1]] = source[::-1]  # rows that share a state take the first one's number
    arrived = known[exact[n:]]
    target = np.where(arrived >= 0, arrived, n + exact[n:])
    inside = ~segment_ends(batch.trajectory)
    target[inside] = source[1:][inside[:-1]]
    return source, target


StepCosts: TypeAlias = Literal["unit", "environment"]
"""Cost of a step: 1, or the environment's (`StepBatch.cost`)."""


def step_costs(batch: StepBatch, costs: StepCosts = "unit", cost: Floats | None = None) -> Floats:
    """Return (n,) what each step costs.

    A rejected action costs 1 at least, also where the environment charges nothing for it: it leads back to
    its own state, and would otherwise rank with the best of that state's actions.

    Args:
        batch: the steps; ``cost`` too under ``"environment"``.
        costs: source of a step's cost.
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
    action = match_actions(batch)
    arrived = np.where(_successes(batch), -1, target)
    worth = np.unique(reward, return_inverse=True)[1]
    first = np.unique(joint(source, arrived, action, worth), return_index=True)[1]
    marks = np.zeros(len(batch), dtype=np.bool_)
    marks[first] = True
    return marks


def _successes(batch: StepBatch) -> Bools:
    """Mark the steps that led to SUCCESS: the last one of each episode that was won."""
    return segment_ends(batch.trajectory) & batch.won
