"""Household generator: a furnished room, objects in it, and a solvable task.

A candidate depends on nothing but the generator's version and three numbers. What is to be brought is
reachable by going, opening and taking, which nothing can undo; and at the start none of it is where it
belongs. So every task is solvable, and none is solved.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

from agentgym.core.rng import KeyRng
from agentgym.envs.alfworld.builtin.catalogue import LAMP, OPENABLE, ROOMS, THINGS, TOOLS
from agentgym.envs.alfworld.builtin.layouts import HELD_OUT, KNOWN, VERSION, RoomLayout, layouts

FAMILIES = ("pick", "look", "clean", "heat", "cool", "pick2")
DIFFICULTIES = ("easy", "medium", "hard")

DISTRACTORS = {"easy": (3, 7), "medium": (8, 15), "hard": (16, 28)}
"""Least and largest number of other objects in the room, by difficulty."""

SPARES = {"easy": 1, "medium": 1, "hard": 0}
"""Largest number of objects beyond those needed that would do, by difficulty."""


class Quest(NamedTuple):
    """Goal of a generated game."""

    family: str
    thing: str
    """Kind of what is brought or looked at."""
    target: str
    """Kind of furniture it is brought to; for ``look`` the lamp."""

    @property
    def needed(self) -> int:
        """The number of objects it needs."""
        return 2 if self.family == "pick2" else 1


class Item(NamedTuple):
    """A thing, and the piece of furniture (index into the layout's) that holds it at first."""

    kind: str
    piece: int


@dataclass(frozen=True, slots=True)
class Household:
    """One game, before it is written down."""

    layout: RoomLayout
    quest: Quest
    items: tuple[Item, ...]
    """Sorted, so that households which differ in no more than the order are equal."""
    difficulty: str

    @property
    def hidden(self) -> bool:
        """Whether fewer of the wanted things than needed are in sight at first."""
        pieces = self.layout.pieces
        wanted = [item for item in self.items if item.kind == self.quest.thing]
        return sum(pieces[item.piece].kind not in OPENABLE for item in wanted) < self.quest.needed


def difficulty_of(number: int) -> str:
    """Return the difficulty of task ``number``."""
    return DIFFICULTIES[number // len(FAMILIES) % len(DIFFICULTIES)]


def family_of(number: int) -> str:
    """Return the family of task ``number``."""
    return FAMILIES[number % len(FAMILIES)]


def generate(number: int, attempt: int, *, held_out: bool) -> Household:
    """Make one household.

    ``number`` is the task's, which decides family and difficulty; ``attempt`` numbers its candidates.
    """
    draws = KeyRng(VERSION, 1 + held_out, number, attempt)
    family, difficulty = family_of(number), difficulty_of(number)
    choices = settings(family, difficulty, held_out)
    room = draws.pick(sorted(choices))
    layout = draws.pick(choices[room])
    targets = _quests(layout, family)
    thing = draws.pick(sorted(targets))
    quest = Quest(family, thing, draws.pick(targets[thing]))
    items = [*_wanted(layout, quest, difficulty, draws), *_others(layout, quest, difficulty, draws)]
    return Household(layout, quest, tuple(sorted(items)), difficulty)


@cache
def settings(family: str, difficulty: str, held_out: bool) -> dict[str, tuple[RoomLayout, ...]]:
    """Return the layouts in which a family can be played, by room."""
    part = slice(KNOWN, KNOWN + HELD_OUT) if held_out else slice(KNOWN)
    rooms = {
        room: tuple(layout for layout in layouts(room, difficulty)[part] if _quests(layout, family))
        for room in ROOMS
    }
    return {room: fit for room, fit in rooms.items() if fit}


@cache
def _homes(layout: RoomLayout) -> dict[str, tuple[int, ...]]:
    """Return the pieces that can hold each kind of object of a room."""
    homes = {
        name: tuple(i for i, piece in enumerate(layout.pieces) if piece.kind in thing.homes)
        for name, thing in THINGS.items()
        if layout.room in thing.rooms
    }
    return {name: pieces for name, pieces in homes.items() if pieces}


@cache
def _quests(layout: RoomLayout, family: str) -> dict[str, tuple[str, ...]]:
    """Return what can be brought in a family's tasks, and where to; empty where the family has no place."""
    homes = _homes(layout)
    kinds = {piece.kind for piece in layout.pieces}
    movable = [name for name in homes if "take" in THINGS[name].abilities]
    if family == "look":
        return dict.fromkeys(movable, (LAMP,)) if LAMP in homes else {}
    tool = TOOLS.get(family)
    if tool is not None:
        movable = [name for name in movable if family in THINGS[name].abilities and tool in kinds]
    quests = {}
    for name in movable:
        ends = kinds & THINGS[name].homes
        targets = tuple(sorted(end for end in ends if end != tool and ends - {end}))
        if targets:
            quests[name] = targets
    return quests


def _wanted(layout: RoomLayout, quest: Quest, difficulty: str, draws: KeyRng) -> list[Item]:
    """Place the goal's objects anywhere but at the goal; in sight if easy, out of sight if hard."""
    kinds = [piece.kind for piece in layout.pieces]
    starts = [i for i in _homes(layout)[quest.thing] if kinds[i] != quest.target]
    shut = [i for i in starts if kinds[i] in OPENABLE]
    plain = [i for i in starts if kinds[i] not in OPENABLE]
    preferred = {"easy": plain, "medium": starts, "hard": shut}[difficulty] or starts
    number = quest.needed + draws.between(0, SPARES[difficulty])
    items = [Item(quest.thing, draws.pick(preferred)) for _ in range(number)]
    if quest.family == "look":
        items.append(Item(LAMP, draws.pick(_homes(layout)[LAMP])))
    return items


def _others(layout: RoomLayout, quest: Quest, difficulty: str, draws: KeyRng) -> list[Item]:
    """Scatter objects that the goal does not need; of lamps there is one at most."""
    homes = _homes(layout)
    names = [name for name in homes if name != quest.thing and (name, quest.family) != (LAMP, "look")]
    counts: Counter[str] = Counter()
    items = []
    for _ in range(draws.between(*DISTRACTORS[difficulty])):
        name = draws.pick(names)
        if counts[name] < (3 if "take" in THINGS[name].abilities else 1):
            counts[name] += 1
            items.append(Item(name, draws.pick(homes[name])))
    return items
