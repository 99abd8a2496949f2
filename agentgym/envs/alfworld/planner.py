"""Shortest plans, by A* over what matters of a compiled game.

`planning_task` leaves out what no shortest plan needs, `landmarks` says how many steps remain at
least. A state is priced only when its turn comes; until then it inherits a bound from the state it
was reached from: an action outside that state's landmarks leaves all of them to be met, any other
action meets one. Plans are proven shortest unless the search exceeds its budget; then the search starts
anew, trusting its estimates more than the way gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from agentgym.envs.alfworld.game import Game
from agentgym.envs.alfworld.landmarks import HOPELESS, Bound, Relaxation
from agentgym.envs.alfworld.operations import Operation
from agentgym.envs.alfworld.planning_task import (
    PlanningTask,
    atoms,
    planning_task,
    seen_from,
    simplified,
)

BUDGET = 3_000
"""States priced before the search for a shortest plan is given up."""

GREEDY_BUDGET = 100_000
"""States priced before a state is taken for hopeless."""

HURRY = 5
"""What a remaining step weighs against one gone, once any plan will do."""


class Plan(NamedTuple):
    """A way to the goal."""

    operations: tuple[Operation, ...]
    shortest: bool
    """Whether it is proven that no way is shorter."""


class Planner:
    """Finds plans in one game; holds nothing of any episode."""

    def __init__(self, game: Game):
        """Reduce the game to what can matter to any of its states."""
        self._game = game
        self._task = simplified(planning_task(game), game.initial)

    def plan(self, state: int) -> list[Operation] | None:
        """Return operations that lead from ``state`` to the goal; None where there are none."""
        plan = self.solve(state)
        return None if plan is None else list(plan.operations)

    def solve(self, state: int, *, budget: int = BUDGET) -> Plan | None:
        """Return a plan from a state that can be reached in the game; a shortest one within the budget.

        Args:
            state: where it starts.
            budget: states that the search for a shortest plan may price; 0 to take any plan.

        Returns:
            None where the goal cannot be reached, or where no plan was found among `GREEDY_BUDGET` states.
        """
        if self._game.won(state):
            return Plan((), shortest=True)
        task = seen_from(self._task, state)
        for limit, weight in ((budget, 1), (GREEDY_BUDGET, HURRY)):
            search = _Search(self._game, task, weight)
            found = search.run(state, limit)
            if found is not None or search.exhausted:
                return None if found is None else Plan(tuple(found), shortest=weight == 1)
        return None


@dataclass(slots=True)
class _Node:
    """What is known of a state."""

    state: int
    gone: int
    """Steps from the start."""
    before: _Node | None
    operation: Operation | None
    """What led here from the state before; None at the start."""
    bound: Bound | None = None
    """None until its turn comes."""


class _Search:
    """One search from one state."""

    def __init__(self, game: Game, task: PlanningTask, weight: int):
        self._game, self._actions, self._weight = game, task.actions, weight
        self._mask = atoms(task)
        self._relaxation = Relaxation(task)
        self._nodes: dict[int, _Node] = {}
        self._queue: list[tuple[int, int, int, int, _Node]] = []
        self._pushed = 0
        self.exhausted = False
        """Whether nothing is left to be searched."""

    def run(self, start: int, limit: int) -> list[Operation] | None:
        """Return the operations of a plan; None where there is none, or ``limit`` states were priced."""
        priced = 0
        first = self._nodes[start & self._mask] = _Node(start & self._mask, 0, None, None)
        self._push(first, 0)
        while self._queue:
            _, least, _, gone, node = heappop(self._queue)
            if gone > node.gone:
                continue  # reached on a shorter way since
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
                return _path(node)
        self.exhausted = True
        return None

    def _push(self, node: _Node, least: int) -> None:
        """Queue a state that is at least ``least`` steps from the goal; of equals the last comes first."""
        self._pushed += 1
        heappush(self._queue, (node.gone + self._weight * least, least, -self._pushed, node.gone, node))

    def _expand(self, node: _Node, bound: Bound, least: int) -> None:
        gone = node.gone + 1
        for k, action in enumerate(self._actions):
            if node.state & action.looked_at != action.wanted:
                continue
            after = self._game.apply(node.state, action.operation) & self._mask
            known = self._nodes.get(after)
            if known is None:
                known = self._nodes[after] = _Node(after, gone, node, action.operation)
            elif known.gone <= gone:
                continue
            else:
                known.gone, known.before, known.operation = gone, node, action.operation
            if known.bound is None:
                self._push(known, max(bound.steps - (k in bound.landmarks), least - 1))
            elif known.bound.steps < HOPELESS:
                self._push(known, known.bound.steps)


def _path(node: _Node) -> list[Operation]:
    path = []
    while node.before is not None and node.operation is not None:
        path.append(node.operation)
        node = node.before
    return path[::-1]


def golden_steps(game: Game) -> int | None:
    """Return the length of a shortest plan for a game.

    Returns:
        None where the goal cannot be reached, or where no plan could be proven shortest.
    """
    plan = Planner(game).solve(game.initial)
    return len(plan.operations) if plan is not None and plan.shortest else None
