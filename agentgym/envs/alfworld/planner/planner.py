"""Plans for a compiled game, proven shortest unless a budget is exceeded.

`reductions` leaves out what no shortest plan needs, `landmarks` says how many steps remain at least,
and `search` finds a plan. A plan found within the budget is as short as any of the whole game. Beyond
it the search starts anew, trusting its estimates more than the way gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.operations import Operation
from agentgym.envs.alfworld.planner.planning_task import planning_task
from agentgym.envs.alfworld.planner.reductions import seen_from, simplified
from agentgym.envs.alfworld.planner.search import Search, Stop
from agentgym.errors import UsageError

BUDGET = 3_000
"""States priced before the search for a shortest plan is given up."""

GREEDY_BUDGET = 100_000
"""States priced before a state is taken for hopeless."""

GREEDY_WEIGHT = 5
"""Weight of a remaining step against one taken, once any plan will do."""


class GamePlan(NamedTuple):
    """A way to the goal."""

    operations: tuple[Operation, ...]
    shortest: bool
    """Whether it is proven that no way is shorter."""


class Planner:
    """Finds plans in one game; holds nothing of any episode."""

    def __init__(self, game: Game):
        """Reduce the game to what can matter to any of its states."""
        self._game = game
        self.task = simplified(planning_task(game), game.initial)
        """What can matter to a state of the game."""

    def plan(self, state: int) -> list[Operation] | None:
        """Return operations that lead from ``state`` to the goal; None where there are none."""
        plan = self.solve(state)
        return None if plan is None else list(plan.operations)

    def solve(self, state: int, *, budget: int = BUDGET) -> GamePlan | None:
        """Return a plan from a reachable state; a shortest one within the budget.

        ``budget``: states that the search for a shortest plan may price; 0 takes any plan. None where the
        goal cannot be reached, or no plan was found among `GREEDY_BUDGET` states.
        """
        task = seen_from(self.task, state)
        for limit, weight in ((budget, 1), (GREEDY_BUDGET, GREEDY_WEIGHT)):
            search = Search(task, weight)
            path = search.run(state, limit)
            if path is not None:
                return GamePlan(tuple(self._operations(state, path, search.mask)), shortest=weight == 1)
            if search.exhausted:
                break
        return None

    def _operations(self, state: int, path: Sequence[Stop], mask: int) -> Iterator[Operation]:
        """Yield the operations of a path.

        Where several do the same, such as going to receptacles that stand together, the one is taken
        that shares most objects with the path's own action and the next.
        """
        objects = [stop.action.objects for stop in path]
        for k, stop in enumerate(path):
            aims = {name for names in objects[k : k + 2] for name in names}
            fitting = [
                operation
                for operation in self._game.operations(state).values()
                if not (self._game.apply(state, operation) ^ stop.state) & mask
            ]
            if not fitting:
                raise UsageError(
                    f"a game has two actions with the command of {stop.action.schema}: rename one"
                )
            best = max(fitting, key=lambda operation: len(aims.intersection(operation.objects)))
            state = self._game.apply(state, best)
            yield best


def golden_steps(game: Game) -> int | None:
    """Return the length of a shortest plan for a game.

    Returns:
        None where the goal cannot be reached, or where no plan could be proven shortest.
    """
    plan = Planner(game).solve(game.initial)
    return len(plan.operations) if plan is not None and plan.shortest else None
