"""Room memory: a player's knowledge of a household from its own observations and actions.

`RoomMemory` reads an episode's history by a fixed rule: past observations, the commands that were possible,
and those that were given. Nothing else is looked at: neither the game's state nor what the environment's info
tells beside its observations. `recall` and `recall_briefly` are that memory as text, which the
wordings ``alfworld-memory`` and ``alfworld-memory-terse`` tell instead of past turns.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, Self, TypeAlias

from agentgym.core.types import Request, Step
from agentgym.prompts.fields import PromptFields

APPLIANCES = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
"""Receptacles that a thing is cleaned, heated or cooled with."""

NONE = "none"
"""Word for an empty field."""

_COMMAND = re.compile(
    r"(?P<verb>go to|examine|open|take|put|move|clean|heat|cool|use) (?P<thing>[a-z]+ \d+)"
    r"(?: (?:from|in/on|in|on|to|with) (?P<place>[a-z]+ \d+))?"
)
_NAME = re.compile(r"[a-z]+ \d+")
_WORD = re.compile(r"[a-z]+")
_CONTENTS = re.compile(r"you see (?P<names>.*)")


class Command(NamedTuple):
    """A command by its parts; ``thing`` is a receptacle where one is gone to, opened or examined."""

    text: str
    verb: str
    thing: str
    place: str


@lru_cache(maxsize=4096)
def commands_of(actions: tuple[str, ...]) -> tuple[Command, ...]:
    """Return the commands that matter, by their parts."""
    return tuple(command for command in map(_parse, actions) if command)


@lru_cache(maxsize=65_536)
def _parse(text: str) -> Command | None:
    match = _COMMAND.fullmatch(text)
    return Command(text, match["verb"], match["thing"], match["place"] or "") if match else None


def kind_of(name: str) -> str:
    """Return the kind of a thing or receptacle, ``mug`` of ``mug 2``."""
    return name.partition(" ")[0]


@dataclass(slots=True)
class RoomMemory:
    """A player's knowledge of a room after some steps. Names are those of commands, as in ``mug 2``."""

    at: dict[str, str] = field(default_factory=dict)
    """Receptacle of every thing that has been seen and is not held."""
    receptacles: set[str] = field(default_factory=set)
    searched: set[str] = field(default_factory=set)
    """Receptacles whose contents have been seen."""
    closed: set[str] = field(default_factory=set)
    """Receptacles within reach that can be opened now."""
    place: str = ""
    """Receptacle gone to last."""
    held: str = ""
    moved: set[str] = field(default_factory=set)
    """Things that the player has put where they are."""
    treated: set[tuple[str, str]] = field(default_factory=set)
    """Commands and the things treated by them."""

    @classmethod
    def of(cls, request: Request) -> Self:
        """Read an episode's history."""
        *_, memory = cls.replay(request)
        return memory

    @classmethod
    def replay(cls, request: Request) -> Iterator[Self]:
        """Yield the memory, one and the same, as it is at each turn of an episode up to now."""
        memory = cls()
        seen = (*(step.observation for step in request.history), request.observation)
        for step, answer in zip(request.history, seen[1:], strict=True):
            memory._survey(step.admissible_actions)
            yield memory
            if step.valid:
                memory._follow(step.action, answer)
        memory._survey(request.admissible_actions)
        yield memory

    def take(self, step: Step, answer: str) -> None:
        """Learn from a step, and from the observation that answered it."""
        self._survey(step.admissible_actions)
        if step.valid:
            self._follow(step.action, answer)

    def look(self, actions: tuple[str, ...]) -> Self:
        """Learn from what can be done now; return itself."""
        self._survey(actions)
        return self

    def of_kind(self, kind: str) -> list[str]:
        """Return the things seen that are of a kind."""
        return [thing for thing in self.at if kind_of(thing) == kind]

    def held_words(self) -> list[str]:
        """Return the held object and its changes, as words."""
        done = [verb for verb, thing in sorted(self.treated) if thing == self.held]
        return [self.held, *done] if self.held else []

    def place_words(self) -> list[str]:
        """Return the place gone to last, and whether it is closed, as words."""
        closed = ["closed"] if self.place in self.closed else []
        return [self.place, *closed] if self.place else []

    def _survey(self, actions: tuple[str, ...]) -> None:
        """Learn from admissible actions: the objects in reach, and those not behind a closed door."""
        near, self.closed = set(), set()
        for command in commands_of(actions):
            if command.verb == "go to":
                self.receptacles.add(command.thing)
            elif command.verb == "examine" and command.thing != self.held:
                near.add(command.thing)
            elif command.verb == "open":
                self.closed.add(command.thing)
            elif command.verb == "take":
                self.at[command.thing] = command.place
            elif command.verb == "use":
                self.at[command.thing] = self.place
        self.receptacles |= near
        if not self.held:  # a full hand can take nothing
            self.searched |= near - self.closed

    def _follow(self, action: str, answer: str) -> None:
        """Learn from what a command did."""
        for _, verb, thing, place in commands_of((action.strip(),)):
            if verb in ("go to", "open"):
                self.place = thing
                contents = _CONTENTS.search(answer)
                if contents:
                    self.searched.add(thing)
                    self.at.update(dict.fromkeys(_NAME.findall(contents["names"]), thing))
            elif verb == "take":
                self.held = thing
                self.at.pop(thing, None)
                self.moved.discard(thing)
            elif verb in ("put", "move"):
                self.held = ""
                self.at[thing] = place
                self.moved.add(thing)
            elif verb in APPLIANCES:
                self.treated.add((verb, thing))


PlacesOf: TypeAlias = Callable[[RoomMemory, str, Iterable[str]], list[str]]


def recall(request: Request) -> str:
    """Return the memory of an episode as text.

    One line for each receptacle with things, in the order of names; one for those that were empty, one for
    those not looked into yet, one for what is held with what was done to it, and one for the place. A line
    without anything to tell says `NONE`.

    Example:
        >>> request = Request(episode=0, task_id="t", task_type="", turn=0, observation="A kitchen.", seed=7,
        ...                   admissible_actions=("go to drawer 2", "go to drawer 1", "look"), state_hash="0")
        >>> print(recall(request))
        empty: none
        unknown: drawer 1 2
        held: none
        here: none
    """
    memory = RoomMemory.of(request)
    contents: dict[str, list[str]] = {}
    for thing, place in memory.at.items():
        contents.setdefault(place, []).append(thing)
    return "\n".join(
        (
            *(f"in {place}: {_listed(contents[place])}" for place in sorted(contents)),
            f"empty: {_listed(memory.searched - contents.keys()) or NONE}",
            f"unknown: {_listed(memory.receptacles - memory.searched) or NONE}",
            f"held: {' '.join(memory.held_words()) or NONE}",
            f"here: {' '.join(memory.place_words()) or NONE}",
        )
    )


def recall_briefly(request: Request, task: str = "") -> str:
    """Return the memory of an episode in few words, with what is known of the words of the task.

    ``seen`` has each place where things are, other than the one gone to last, with the kinds of things
    there; ``unknown`` the places not looked into yet; ``held`` what is held, with what was done to it;
    ``here`` the place gone to last, whether it is closed, and the kinds of things in it. ``named`` tells of
    the words of the task that name kinds of things or places known so far, in the task's order: whether
    such a thing is ``held``, where it was ``moved`` by the player and where else it is, ``here`` for the
    place gone to last, or whether such a place is ``here`` or ``away``. Numbers of things that are not held
    are left out, and places that were empty.

    Example:
        >>> request = Request(episode=0, task_id="t", task_type="", turn=0, observation="A kitchen.", seed=7,
        ...                   admissible_actions=("go to drawer 2", "go to drawer 1", "look"), state_hash="0")
        >>> print(recall_briefly(request, "put a mug in drawer."))
        seen: none
        unknown: drawer 1 2
        held: none
        here: none
        named: drawer away
    """
    memory = RoomMemory.of(request)
    kinds: dict[str, set[str]] = {}
    for thing, place in memory.at.items():
        kinds.setdefault(place, set()).add(kind_of(thing))
    here = sorted(kinds.pop(memory.place, ()))
    facts = {
        "seen": " ".join(f"{place} {' '.join(sorted(kinds[place]))}" for place in sorted(kinds)),
        "unknown": _listed(memory.receptacles - memory.searched),
        "held": " ".join(memory.held_words()),
        "here": " ".join([*memory.place_words(), *here]),
        "named": " ".join(named(memory, task, _places)),
    }
    return "\n".join(f"{label}: {words or NONE}" for label, words in facts.items())


def named(memory: RoomMemory, task: str, places_of: PlacesOf) -> list[str]:
    """Return the knowledge of the kinds that a task names, as words; ``places_of`` tells places of things."""
    words: list[str] = []
    places = {kind_of(place) for place in memory.receptacles}
    for kind in dict.fromkeys(_WORD.findall(task.lower())):
        things, held = sorted(memory.of_kind(kind)), kind == kind_of(memory.held)
        if things or held:
            words += [kind, *(["held"] if held else [])]
            words += places_of(memory, "moved", [thing for thing in things if thing in memory.moved])
            words += places_of(memory, "seen", [thing for thing in things if thing not in memory.moved])
        elif kind in places:
            words += [kind, "here" if kind == kind_of(memory.place) else "away"]
    return words


def _places(memory: RoomMemory, label: str, things: Iterable[str]) -> list[str]:
    """Return a label and the places of some things, the one gone to last as ``here``; nothing for none."""
    found = {memory.at[thing] for thing in things}
    here = ["here"] if memory.place in found else []
    away = _listed(found - {memory.place})
    return [label, *here, *([away] if away else [])] if found else []


def memory_fields(request: Request, *, history: int) -> PromptFields:
    """Return the parts of a prompt, with `recall` for the observation and past turns."""
    return replace(PromptFields.of(request, history=0), observation=recall(request))


def brief_memory_fields(request: Request, *, history: int) -> PromptFields:
    """Return the parts of a prompt, with `recall_briefly` for the observation and past turns.

    The task is told after it, for what a small model reads last it finds most easily.
    """
    given = PromptFields.of(request, history=0)
    return replace(given, task="", observation=f"{recall_briefly(request, given.task)}\ntask: {given.task}")


def _listed(names: Iterable[str]) -> str:
    """Return names in order, each kind once: ``drawer 1 10 2 shelf 4``; nothing for none."""
    words: list[str] = []
    kind = ""
    for name in sorted(names):
        own, _, number = name.partition(" ")
        words += [number] if own == kind else [own, number]
        kind = own
    return " ".join(words)
