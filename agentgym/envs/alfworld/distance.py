"""Steps to a win in ALFWorld, in the game as it is and in those that a player may take it for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from agentgym.core.distances import GoalDistance
from agentgym.core.types import Observation, Step
from agentgym.envs.alfworld.engine.dialects import Dialect
from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.planes import union
from agentgym.envs.alfworld.env import ALFWorldEnv, ALFWorldState
from agentgym.envs.alfworld.memory import RoomMemory, commands_of
from agentgym.envs.alfworld.planner.distances import Distances
from agentgym.envs.alfworld.source import GameSource, load_game

MAX_CACHED_GAMES = 16
"""Games whose proven distances are kept."""


def goal_distance(env: ALFWorldEnv) -> GoalDistance:
    """Return the distance to the goal of the game being played."""
    return _HouseDistance(*_proven(env.task.content, env.dialect))


@lru_cache(MAX_CACHED_GAMES)
def _proven(source: GameSource, dialect: Dialect) -> tuple[Distances, _Placing]:
    game = load_game(source, dialect)
    return Distances(game), _Placing(game)


class _HouseDistance(GoalDistance):
    """Distances, and what the player has seen so far: what observations and possible commands have named."""

    def __init__(self, distances: Distances, placing: _Placing):
        super().__init__(lambda state: distances.left(state.bits))
        self._matters, self._placing, self._memory = distances.matters, placing, RoomMemory()

    def imagined(
        self, step: Step, answer: Observation, before: ALFWorldState, after: ALFWorldState
    ) -> Iterable[tuple[ALFWorldState, ALFWorldState]]:
        """Return the worlds without the unseen things, and with them in an unseen place that is turned to."""
        memory, placing = self._memory.look(step.admissible_actions), self._placing
        unseen = [name for name in placing.things if name not in memory.at and name != memory.held]
        aims = [each for each in commands_of((step.action.strip(),)) if each.verb in ("go to", "open")]
        aims = [each for each in aims if step.valid and each.thing not in memory.searched]
        memory.take(step, str(answer))
        if not (before.bits ^ after.bits) & self._matters:
            return ()  # it costs one step in every world
        worlds = [placing.within(before.bits, after.bits, unseen, each.verb, each.thing) for each in aims]
        worlds.append((placing.without(before.bits, unseen), placing.without(after.bits, unseen)))
        return [(before._replace(bits=one), after._replace(bits=other)) for one, other in worlds]


class _Placing:
    """Bits that say where the things of a game are."""

    def __init__(self, game: Game):
        names, truth, static = game.names, game.planes.truth, game.planes.static
        where = {names[fact[1]]: fact[2] for fact in static if fact[0] == "receptacleatlocation"}
        self._openable = {names[fact[1]] for fact in static if fact[0] == "openable"}
        self._lamps = {names[fact[1]] for fact in static if fact[0] == "toggleable"}
        self._agent = {fact[2]: bit for fact, bit in truth.items() if fact[0] == "atlocation"}
        self._places = {place: self._agent[at] for place, at in where.items() if at in self._agent}
        self.things: dict[str, dict[str, int]] = {}
        """For each thing by name the bits with which it is in a receptacle, by that one's name."""
        for fact in game.planes.atoms("inreceptacle"):
            thing, place = names[fact[1]], names[fact[2]]
            at = truth.get(("objectatlocation", fact[1], where.get(place, "")), 0)
            self.things.setdefault(thing, {})[place] = truth[fact] | at

    def without(self, bits: int, things: Iterable[str]) -> int:
        """Return a state in which things are nowhere."""
        return bits & ~union(bit for thing in things for bit in self.things[thing].values())

    def within(
        self, before: int, after: int, things: Sequence[str], verb: str, place: str
    ) -> tuple[int, int]:
        """Return what a step leads from and to where things are in the place that it turns to, if they fit.

        A lamp cannot be moved: the step then leads to where the lamp is, as the player may take that for it.
        """
        lamps = (thing for thing in things if thing in self._lamps)
        homes = [home for lamp in lamps for home, bit in self.things[lamp].items() if before & bit == bit]
        if homes and verb == "go to" and place not in self._openable:
            place = homes[0]
            after = after & ~union(self._agent.values()) | self._places[place]
        fitting = [thing for thing in things if place in self.things[thing]]
        there = union(self.things[thing][place] for thing in fitting)
        return self.without(before, fitting) | there, self.without(after, fitting) | there
