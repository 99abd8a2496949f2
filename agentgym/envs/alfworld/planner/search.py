"""A* over the states of a planning task.

A state is priced only when its turn comes; until then it inherits a bound from the state it was
reached from: an action outside that state's landmarks leaves all of them to be met, any other action
meets one.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from agentgym.envs.alfworld.planner.landmarks import HOPELESS, Bound, Relaxation
from agentgym.envs.alfworld.planner.planning_task import PlanningAction, PlanningTask, atom_of, bits


class Stop(NamedTuple):
    """One step of a path."""

    action: PlanningAction
    state: int
    """State after the step."""


class BitChange(NamedTuple):
    """An action on bits."""

    looked_at: int
    wanted: int
    keep: int
    became: int
    conditional: tuple[tuple[int, int, int, int], ...]


@dataclass(slots=True)
class _Node:
    """Search node of a state."""

    state: int
    gone: int
    """Steps from the start."""
    before: _Node | None
    """Node of the state before; None at the start."""
    action: int
    """Index of what led here from the state before; -1 at the start."""
    bound: Bound | None = None
    """Lower bound of the path to the goal; None until the node's turn comes."""


class Search:
    """Searches from one state."""

    mask: int
    """Atoms that the search looks at: states are equal where these are."""
    exhausted: bool
    """Whether nothing is left to be searched."""

    def __init__(self, task: PlanningTask, weight: int = 1):
        """Prepare a search.

        ``weight``: of a remaining step against a past one; with 1, paths are shortest.
        """
        self._actions, self._weight = task.actions, weight
        self.mask = bits(atom_of(x) for x in task.needed())
        self.exhausted = False
        self._changes = [change_of(action, self.mask) for action in task.actions]
        self._relaxation = Relaxation(task)
        self._nodes: dict[int, _Node] = {}
        self._queue: list[tuple[int, int, int, int, int, _Node]] = []
        self._pushed = 0

    def run(self, start: int, limit: int) -> list[Stop] | None:
        """Return a path to the goal; None where there is none, or where ``limit`` states were priced."""
        start &= self.mask
        self._nodes[start] = _Node(start, 0, None, -1)
        self._push(self._nodes[start], 0)
        priced = 0
        while self._queue:
            _, least, _, _, gone, node = heappop(self._queue)
            if gone > node.gone:
                continue  # a shorter way was found since
            if node.bound is None:
                if priced == limit:
                    return None
                priced += 1
                node.bound = self._relaxation.bound(node.state)
            if node.bound.steps > least:
                if node.bound.steps < HOPELESS:
                    self._push(node, node.bound.steps)
            elif node.bound.steps:
                self._expand(node, node.bound, least)
            else:
                return self._path(node)
        self.exhausted = True
        return None

    def _push(self, node: _Node, least: int, rank: int = 0) -> None:
        """Queue a state that is at least ``least`` steps from the goal.

        Of equals the one of the highest rank comes first, then the last.
        """
        self._pushed += 1
        total = node.gone + self._weight * least
        heappush(self._queue, (total, least, -rank, -self._pushed, node.gone, node))

    def _expand(self, node: _Node, bound: Bound, least: int) -> None:
        """Queue the successors; first those that meet the landmark farthest from the goal."""
        state, gone = node.state, node.gone + 1
        for k, (looked_at, wanted, keep, became, conditional) in enumerate(self._changes):
            if state & looked_at != wanted:
                continue
            after = state & keep | became
            for seen, value, also_keep, also in conditional:
                if state & seen == value:
                    after = after & also_keep | also
            known = self._nodes.get(after)
            if known is None:
                known = self._nodes[after] = _Node(after, gone, node, k)
            elif known.gone <= gone:
                continue
            else:
                known.gone, known.before, known.action = gone, node, k
            if known.bound is None:
                met = bound.landmarks.get(k, -1)
                self._push(known, max(bound.steps - (met >= 0), least - 1), met)
            elif known.bound.steps < HOPELESS:
                self._push(known, known.bound.steps)

    def _path(self, node: _Node) -> list[Stop]:
        path = []
        while node.before is not None:
            path.append(Stop(self._actions[node.action], node.state))
            node = node.before
        return path[::-1]


def change_of(action: PlanningAction, mask: int) -> BitChange:
    """Return an action on the bits of ``mask``."""
    wanted = bits(x for x in action.needs if x >= 0)
    looked_at = wanted | bits(~x for x in action.needs if x < 0)
    if action.operation is None:
        became = bits(x for x in action.gives if x >= 0)
        return BitChange(looked_at, wanted, mask & ~bits(~x for x in action.gives if x < 0), became, ())
    keep, became, conditional = action.operation.change
    masked = (
        (seen, value, keep, became & mask)
        for seen, value, keep, became in conditional
        if (became | ~keep) & mask
    )
    return BitChange(looked_at, wanted, keep & mask, became & mask, tuple(masked))
