"""Steps from any state of a game to its goal: A* that keeps what it has proven for the states to come."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

from agentgym.core.distances import NO_WAY, StepBounds
from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.planner.landmarks import HOPELESS, Bound, Relaxation
from agentgym.envs.alfworld.planner.planner import BUDGET, Planner
from agentgym.envs.alfworld.planner.planning_task import PlanningTask, atom_of, bits
from agentgym.envs.alfworld.planner.reductions import relevant, without_detours
from agentgym.envs.alfworld.planner.search import change_of


class Distances:
    """Lengths of shortest plans from the states of one game."""

    def __init__(self, game: Game):
        """Reduce the game to what can matter to any of its states."""
        self._planner = Planner(game)
        self._task = without_detours(self._planner.task, game.initial, of_any=True)
        self.matters = bits(atom_of(x) for x in self._task.needed())
        """Atoms that states are told apart by."""
        given = frozenset().union(*(action.gives for action in self._task.actions))
        self._fading = bits(x for x in self._task.needed() - given if x >= 0)
        """Atoms that nothing makes true, such as that a thing is held which no plan takes."""
        self._searches: dict[int, _RepeatedSearch] = {}
        self._proven = _Proven({}, {})

    def left(self, state: int, *, budget: int = BUDGET) -> StepBounds:
        """Return bounds on the steps from a state to the goal, which are equal where they are proven.

        ``budget``: states that may be priced; beyond it, ``high`` is the length of some plan.
        """
        start = state & self.matters
        if start not in self._proven.exact:
            least = self._search(start).run(start, budget)
            if least is not None:
                plan = self._planner.solve(state, budget=0)
                return StepBounds(least, math.inf if plan is None else len(plan.operations))
        steps = self._proven.exact[start]
        return NO_WAY if steps == HOPELESS else StepBounds(steps, steps)

    def _search(self, state: int) -> _RepeatedSearch:
        """Return the search with all actions but those that need an atom which is false for good."""
        lost = self._fading & ~state
        if lost not in self._searches:
            actions = (
                each for each in self._task.actions if not lost & bits(x for x in each.needs if x >= 0)
            )
            task = relevant(PlanningTask(tuple(actions), self._task.goals))
            self._searches[lost] = _RepeatedSearch(task, self.matters, self._proven)
        return self._searches[lost]


class _Proven(NamedTuple):
    """Steps from states to the goal, as far as they are known."""

    exact: dict[int, int]
    """Proven numbers; `HOPELESS` where the goal cannot be reached."""
    least: dict[int, int]
    """Lower bounds."""


class _RepeatedSearch:
    """A*, each search of which begins with what those before have proven.

    After a search, the states of its plan are known exactly. Every other state s that it reached in g(s)
    steps is at least d - g(s) steps from the goal, d being the length of the plan (Adaptive A*, Koenig and
    Likhachev 2005).
    """

    def __init__(self, task: PlanningTask, mask: int, proven: _Proven):
        """Prepare the task, whose states are equal where ``mask`` is."""
        self._changes = [change_of(action, mask) for action in task.actions]
        self._relaxation = Relaxation(task)
        self._bounds: dict[int, Bound] = {}
        self._proven = proven

    def run(self, start: int, budget: int) -> int | None:
        """Prove the steps from a state; return a lower bound where the budget is spent before, else None."""
        exact, lows = self._proven
        gone: dict[int, int] = {start: 0}
        before: dict[int, int] = {}
        queue: list[tuple[int, int, int, int, int, int]] = [(0, 0, 0, 0, 0, start)]
        pushed = 0
        while queue:
            total, least, _, _, steps, state = heappop(queue)
            if steps > gone[state]:
                continue  # a shorter way was found since
            low = exact.get(state, lows.get(state, 0))
            if low <= least and state not in exact:
                if state not in self._bounds:
                    if not budget:
                        return total
                    budget -= 1
                    self._bounds[state] = self._relaxation.bound(state)
                bound = self._bounds[state]
                low = lows[state] = max(low, bound.steps)
                if not bound.steps:
                    exact[state] = 0
            if low > least:
                if low < HOPELESS:
                    pushed += 1
                    heappush(queue, (steps + low, low, 0, -pushed, steps, state))
            elif state in exact:
                self._learn(gone, before, state)
                return None
            else:
                for after, met in self._after(state, bound):
                    if steps + 1 < gone.get(after, HOPELESS):
                        gone[after], before[after] = steps + 1, state
                        pushed += 1
                        least = max(low - 1, bound.steps - (met >= 0))
                        heappush(queue, (steps + 1 + least, least, -met, -pushed, steps + 1, after))
        exact.update(dict.fromkeys(gone, HOPELESS))
        return None

    def _after(self, state: int, bound: Bound) -> Iterator[tuple[int, int]]:
        """Yield the states a step away, and the number of the landmark that each step meets, or -1."""
        for k, (looked_at, wanted, keep, became, conditional) in enumerate(self._changes):
            if state & looked_at == wanted:
                after = state & keep | became
                for seen, value, also_keep, also in conditional:
                    if state & seen == value:
                        after = after & also_keep | also
                yield after, bound.landmarks.get(k, -1)

    def _learn(self, gone: Mapping[int, int], before: Mapping[int, int], state: int) -> None:
        """Keep what a search has proven that ended in a state whose distance is known."""
        exact, lows = self._proven
        total = gone[state] + exact[state]
        for reached, steps in gone.items():
            if total - steps > lows.get(reached, 0):
                lows[reached] = total - steps
        while state in before:
            exact[before[state]] = exact[state] + 1
            state = before[state]
