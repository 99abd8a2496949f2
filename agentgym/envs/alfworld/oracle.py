"""The policy that plans its way through ALFWorld's games."""

from __future__ import annotations

from collections import OrderedDict
from functools import lru_cache

from agentgym.core.policies import SnapshotPolicy
from agentgym.core.types import Request, Snapshot
from agentgym.envs.alfworld.engine.dialects import Dialect
from agentgym.envs.alfworld.engine.operations import Operation
from agentgym.envs.alfworld.planner.planner import Planner
from agentgym.envs.alfworld.source import GameSource, load_game

REMEMBERED = 200_000
"""States whose next command is kept."""

MAX_CACHED_PLANNERS = 16
"""Games whose planner is kept; a game that is never left by its plan needs its planner once."""


MAX_CACHED_PLANS = 16_384
"""Games whose plan from the start is kept."""


@lru_cache(maxsize=MAX_CACHED_PLANS)
def first_plan(source: GameSource, dialect: Dialect) -> tuple[Operation, ...] | None:
    """Return the planner's plan from a game's start, as `Planner.plan`; None where it finds none."""
    game = load_game(source, dialect)
    plan = Planner(game).plan(game.initial)
    return None if plan is None else tuple(plan)


class ALFWorldOracle(SnapshotPolicy):
    """Plays a plan from the state it is shown, a shortest one where the planner can prove it.

    A state of which nothing is known is planned from, and so are states that no plan went through:
    whatever was done before, the oracle goes on from there. Where the goal is out of reach it plays
    the first admissible command.
    """

    def __init__(self, dialect: Dialect = "game"):
        """Take the dialect that the environment compiles games with."""
        self._dialect: Dialect = dialect
        self._next: dict[tuple[GameSource, int], str] = {}
        self._planners: OrderedDict[GameSource, Planner] = OrderedDict()

    def _choose(self, request: Request, snapshot: Snapshot) -> str:
        source: GameSource = snapshot.task.content
        bits: int = snapshot.state.bits
        if (source, bits) not in self._next:
            self._plan(source, bits, lost=request.admissible_actions[0])
        return self._next[source, bits]

    def _plan(self, source: GameSource, bits: int, lost: str) -> None:
        """Note the next command of every state on the way to the goal; ``lost`` if there is none."""
        if len(self._next) > REMEMBERED:
            self._next.clear()
        game = load_game(source, self._dialect)
        begins = bits == game.initial
        plan = first_plan(source, self._dialect) if begins else self._planner(source).plan(bits)
        if plan is None:
            self._next[source, bits] = lost
            return
        for operation in plan:
            self._next[source, bits] = operation.command
            bits = game.apply(bits, operation)

    def _planner(self, source: GameSource) -> Planner:
        planner = self._planners.get(source)
        if planner is None:
            planner = self._planners[source] = Planner(load_game(source, self._dialect))
        self._planners.move_to_end(source)
        if len(self._planners) > MAX_CACHED_PLANNERS:
            self._planners.popitem(last=False)
        return planner
