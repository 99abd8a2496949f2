"""Rule-based baseline: an explorer with a player's view and memory.

It reads the goal's sentence, searches receptacles in the order of a prior (`agentgym.envs.alfworld.prior`),
and does the steps of the goal's family. It keeps nothing between turns: what it remembers is read from
the request's history, so an episode is the same in any batch.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from agentgym.core.policies import RequestPolicy
from agentgym.core.types import Policy, Request
from agentgym.envs.alfworld.memory import APPLIANCES, Command, RoomMemory, commands_of, kind_of
from agentgym.envs.alfworld.prior import chance
from agentgym.errors import UsageError
from agentgym.vector.core import AgentVectorEnv

TREATMENTS = {
    "clean": "clean",
    "wash": "clean",
    "hot": "heat",
    "heat": "heat",
    "warm": "heat",
    "cool": "cool",
    "cold": "cool",
    "chill": "cool",
}
"""Words of goals, and the command that each asks for."""

HAVE_DOORS = frozenset({"cabinet", "drawer", "fridge", "microwave", "safe"})
"""Kinds of receptacles that take a command more to look into."""

LAMP = "lamp"
"""Ending of the names of lamps."""

_FUNCTION_WORDS = frozenset(
    re.findall(
        "[a-z]+",
        "a an and at both bring by examine find gather holding in inspect it leave light look of on one put "
        "same some switch the them then to two under up while with",
    )
)


@dataclass(frozen=True, slots=True)
class HouseholdGoal:
    """Parsed goal sentence.

    Example:
        >>> parse_goal("find two pen and put them in drawer.")
        HouseholdGoal(thing='pen', target='drawer', treatment='', count=2)
        >>> parse_goal("switch on a desklamp while holding a pen.")
        HouseholdGoal(thing='pen', target='desklamp', treatment='', count=1)
    """

    thing: str
    target: str
    """Kind of receptacle that it is brought to, or of the lamp that it is looked at under."""
    treatment: str
    """``clean``, ``heat``, ``cool`` or nothing."""
    count: int


@lru_cache(maxsize=4096)
def parse_goal(sentence: str) -> HouseholdGoal:
    """Read a goal of one of the six families, in the words of any of ALFWorld's grammars."""
    words = re.findall("[a-z]+", sentence.lower())
    treatments = [TREATMENTS[word] for word in words if word in TREATMENTS]
    nouns = [word for word in words if word not in _FUNCTION_WORDS and word not in TREATMENTS]
    nouns.sort(key=lambda noun: noun.endswith(LAMP))  # a lamp may be named first
    if len(nouns) != 2 or len(treatments) > 1:
        raise UsageError(
            f"the agent 'rules' cannot read the goal {sentence!r}: it plays the six families of tasks, "
            "which task_types selects"
        )
    thing, target = nouns
    return HouseholdGoal(thing, target, "".join(treatments), 2 if "two" in words else 1)


def goal_words() -> tuple[str, ...]:
    """Return the words of goals that name no thing and no place, sorted."""
    return tuple(sorted({*_FUNCTION_WORDS, *TREATMENTS}))


def make_explorer(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``rules`` of ALFWorld."""
    return ExplorerPolicy()


class ExplorerPolicy(RequestPolicy):
    """Searches, remembers, and does a task's steps; see the module.

    Example:
        >>> request = Request(episode=0, task_id="t", task_type="heat", turn=0, observation="A kitchen.",
        ...                   admissible_actions=("go to drawer 1", "go to fridge 1", "look"), seed=7,
        ...                   state_hash="0", extra={"goal": "put a hot egg in garbagecan."})
        >>> ExplorerPolicy().act([request])[0].action
        'go to fridge 1'
    """

    def _action(self, request: Request) -> str:
        turn = _Turn(
            parse_goal(request.extra["goal"]), RoomMemory.of(request), commands_of(request.admissible_actions)
        )
        command = turn.act()
        return command.text if command else "look"


@dataclass(frozen=True, slots=True)
class _Turn:
    """One decision."""

    goal: HouseholdGoal
    memory: RoomMemory
    commands: tuple[Command, ...]

    def act(self) -> Command | None:
        """Return the command to give; None where there is none to be thought of."""
        if self.memory.held:
            return self._carry(self.memory.held)
        wanted = self._wanted()
        if not wanted:
            return self._search(self.goal.thing)
        return self._can("take", wanted[0]) or self._reach(self.memory.at[wanted[0]])

    def _carry(self, held: str) -> Command | None:
        goal, known = self.goal, self.memory
        if kind_of(held) != goal.thing:
            return self._can("put") or self._can("move") or self._can("go to")
        if goal.treatment and (goal.treatment, held) not in known.treated:
            appliances = self._of_kind(APPLIANCES[goal.treatment])
            return self._can(goal.treatment, held) or self._reach(*appliances)
        if goal.target.endswith(LAMP):
            lamps = known.of_kind(goal.target)
            if not lamps:
                return self._search(goal.target)
            return self._can("use", lamps[0]) or self._reach(known.at[lamps[0]])
        target = self._target()
        return self._can("put", held, target) or self._can("move", held, target) or self._reach(target)

    def _wanted(self) -> list[str]:
        """Return the things to be brought somewhere, those within reach first."""
        things = self.memory.of_kind(self.goal.thing)
        if self.goal.count > 1:
            things = [thing for thing in things if self.memory.at[thing] != self._target()]
        return sorted(things, key=lambda thing: (self._can("take", thing) is None, thing))

    def _target(self) -> str:
        """Return the destination: of the goal's kind, the one that has most of the objects already."""
        counts = Counter(self.memory.at[thing] for thing in self.memory.of_kind(self.goal.thing))
        return max(self._of_kind(self.goal.target), key=lambda place: counts[place], default="")

    def _search(self, kind: str) -> Command | None:
        """Look into the place that is most likely, for its cost in commands, to have a thing of a kind."""
        unsearched = sorted(self.memory.receptacles - self.memory.searched)
        worth = {place: self._chance(kind, place) / self._cost(place) for place in unsearched}
        ordered = sorted(unsearched, key=lambda place: -worth[place])
        return self._reach(*ordered)

    def _chance(self, kind: str, place: str) -> float:
        plain = kind == self.goal.thing and not self.goal.treatment and self.goal.count == 1
        if plain and kind_of(place) == self.goal.target:
            return 0.0  # else the goal would have been reached from the start
        return chance(kind, kind_of(place))

    def _cost(self, place: str) -> int:
        """Return the number of commands that show the content of a place."""
        return max(1, (self._can("go to", place) is not None) + (kind_of(place) in HAVE_DOORS))

    def _reach(self, *places: str) -> Command | None:
        """Return the first command that leads to what is in one of some places, the best place first."""
        for place in places:
            command = self._can("open", place) or self._can("go to", place) or self._can("examine", place)
            if command:
                return command
        return None

    def _of_kind(self, kind: str) -> list[str]:
        """Return the receptacles of a kind, that within reach first."""
        places = [place for place in self.memory.receptacles if kind_of(place) == kind]
        return sorted(places, key=lambda place: (self._can("go to", place) is not None, place))

    def _can(self, verb: str, thing: str = "", place: str = "") -> Command | None:
        """Return the admissible command of a verb, with this thing and place where they are given."""
        for command in self.commands:
            if command.verb == verb and thing in ("", command.thing) and place in ("", command.place):
                return command
        return None
