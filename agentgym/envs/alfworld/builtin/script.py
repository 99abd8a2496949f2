"""Write a household down: names, PDDL, the sentence of its task, and the shortest way to do it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from agentgym.data.gametext import GameText
from agentgym.envs.alfworld.builtin.catalogue import BASINS, LAMP, OPENABLE, ROOMS, THINGS, TOOLS
from agentgym.envs.alfworld.builtin.generator import Household, Quest
from agentgym.hashing import content_id

_PROBLEM = """\
(define (problem errand)
  (:domain housework)
  (:objects
{objects}
  )
  (:init
    (atLocation agent start)
{init}
  )
  (:goal
{goal}
  )
)
"""

_TAIL = """
grammar :: \"""
    {{
        "room": [{{"rhs": "{room}"}}],
        "task": [{{"rhs": "Your task is to: {sentence}."}}]
    }}
\""";
"""

_ABILITIES = {
    "take": "pickupable",
    "clean": "cleanable",
    "heat": "heatable",
    "cool": "coolable",
    "slice": "sliceable",
    "use": "toggleable",
}

_TESTS = {"clean": "(isClean ?o)", "heat": "(isHot ?o)", "cool": "(isCool ?o)"}

_SENTENCES = {
    "pick": ("bring {thing} to {target}", "find {thing} and leave it at {target}"),
    "look": ("inspect {thing} by the light of {target}", "hold {thing} under {target} that is switched on"),
    "clean": ("bring a clean {kind} to {target}", "wash {thing}, then bring it to {target}"),
    "heat": ("bring a hot {kind} to {target}", "warm up {thing}, then bring it to {target}"),
    "cool": ("bring a cold {kind} to {target}", "chill {thing}, then bring it to {target}"),
    "pick2": ("bring two {kind} to {target}, the same for both", "gather two {kind} at {target}"),
}
"""By family."""


@dataclass(frozen=True, slots=True)
class Script:
    """A household written down."""

    household: Household
    problem: str
    """PDDL."""
    task_id: str
    """32 hex digits over the problem, which decides all else."""

    @classmethod
    def of(cls, household: Household) -> Script:
        """Write the problem."""
        problem = _problem(household)
        return cls(household, problem, content_id(problem))

    @property
    def sentence(self) -> str:
        """The task in words."""
        quest = self.household.quest
        forms = _SENTENCES[quest.family]
        form = forms[int(self.task_id[:8], 16) % len(forms)]
        return form.format(thing=_a(quest.thing), target=_a(quest.target), kind=quest.thing)

    def text(self) -> GameText:
        """Return the whole game."""
        domain, grammar = language()
        tail = _TAIL.format(room=ROOMS[self.household.layout.room].name, sentence=self.sentence)
        return GameText(domain, grammar + tail, self.problem, tuple(walkthrough(self.household)), True)


@lru_cache(maxsize=1)
def language() -> tuple[str, str]:
    """Return the domain and the grammar that all generated games share."""
    folder = files("agentgym.envs.alfworld.builtin")
    return folder.joinpath("domain.pddl").read_text("utf-8"), folder.joinpath("grammar.twl2").read_text("utf-8")


# ---- the shortest way ----------------------------------------------------------------------------


def walkthrough(household: Household) -> list[str]:
    """Return a shortest sequence of commands that does the task.

    Nothing but the wanted things, the tool and the target matters, and each is visited as late as
    possible; so a shortest way is the shortest over all choices of these.
    """
    return min(_ways(household), key=len)


def _ways(household: Household) -> Iterator[list[str]]:
    """Yield one way for every choice of things, tool and target."""
    quest, pieces = household.quest, household.layout.pieces
    wanted = [i for i, item in enumerate(household.items) if item.kind == quest.thing]
    if quest.family == "look":
        (lamp,) = (i for i, item in enumerate(household.items) if item.kind == LAMP)
        for i in wanted:
            way = _Way(household)
            way.take(i)
            way.go(household.items[lamp].piece)
            way.commands.append(f"use {way.things[lamp]}")
            yield way.commands
        return
    tool = TOOLS.get(quest.family)
    tools = [None] if tool is None else [i for i, piece in enumerate(pieces) if piece.kind == tool]
    orders = [(i,) for i in wanted] if quest.count == 1 else [(i, j) for i in wanted for j in wanted if i != j]
    for end in (i for i, piece in enumerate(pieces) if piece.kind == quest.target):
        for order in orders:
            for at in tools:
                way = _Way(household)
                for i in order:
                    way.take(i)
                    if at is not None:
                        way.go(at)
                        way.commands.append(f"{quest.family} {way.things[i]} with {way.furniture[at]}")
                    way.leave(i, end)
                yield way.commands


class _Way:
    """Commands so far, and what they have changed."""

    def __init__(self, household: Household):
        self.pieces, self.items = household.layout.pieces, household.items
        self.furniture = _names(piece.kind for piece in self.pieces)
        self.things = _names(item.kind for item in self.items)
        self.commands: list[str] = []
        self._location = 0
        self._open: set[int] = set()

    def go(self, piece: int) -> None:
        if self.pieces[piece].location != self._location:
            self.commands.append(f"go to {self.furniture[piece]}")
            self._location = self.pieces[piece].location

    def take(self, item: int) -> None:
        piece = self.items[item].piece
        self._reach(piece)
        self.commands.append(f"take {self.things[item]} from {self.furniture[piece]}")

    def leave(self, item: int, piece: int) -> None:
        self._reach(piece)
        self.commands.append(f"move {self.things[item]} to {self.furniture[piece]}")

    def _reach(self, piece: int) -> None:
        self.go(piece)
        if self.pieces[piece].kind in OPENABLE and piece not in self._open:
            self._open.add(piece)
            self.commands.append(f"open {self.furniture[piece]}")


# ---- names ---------------------------------------------------------------------------------------


def _numbers(kinds: Iterable[str]) -> list[tuple[str, int]]:
    """Number each kind from 1 in the order given."""
    counts: Counter[str] = Counter()
    numbered = []
    for kind in kinds:
        counts[kind] += 1
        numbered.append((kind, counts[kind]))
    return numbered


def _ids(kinds: Iterable[str]) -> list[str]:
    return [
        f"{BASINS[kind]}_bar_{number:02}_basin" if kind in BASINS else f"{kind}_bar_{number:02}"
        for kind, number in _numbers(kinds)
    ]


def _names(kinds: Iterable[str]) -> list[str]:
    """Return names as sentences have them: the first in order has the highest number."""
    numbered = _numbers(kinds)
    totals = Counter(kind for kind, _ in numbered)
    return [f"{kind} {totals[kind] - number + 1}" for kind, number in numbered]


def _a(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


# ---- PDDL ----------------------------------------------------------------------------------------

_TYPES = {"fridge": "Fridge", "microwave": "Microwave", "sinkbasin": "SinkBasin", "butterknife": "ButterKnife"}
"""Spelling of the types that the domain names; PDDL does not tell cases apart, so this is for readers."""


def _type(kind: str) -> str:
    return f"{_TYPES.get(kind, kind.capitalize())}Type"


def _problem(household: Household) -> str:
    pieces, items = household.layout.pieces, household.items
    furniture = _ids(piece.kind for piece in pieces)
    things = _ids(item.kind for item in items)
    held = sorted({item.kind for item in items})
    holding = sorted({piece.kind for piece in pieces})
    locations = sorted({piece.location for piece in pieces})
    objects = [
        "agent - agent",
        f"start {' '.join(f'place{k}' for k in locations)} - location",
        f"{' '.join(furniture)} - receptacle",
        f"{' '.join(things)} - object",
        f"{' '.join(map(_type, sorted({*holding, *TOOLS.values()})))} - rtype",
        f"{' '.join(map(_type, sorted({*held, 'knife', 'butterknife'})))} - otype",
    ]
    init = [f"(canContain {_type(r)} {_type(o)})" for r in holding for o in held if r in THINGS[o].homes]
    for name, piece in zip(furniture, pieces, strict=True):
        init.append(f"(receptacleAtLocation {name} place{piece.location})")
        init.append(f"(receptacleType {name} {_type(piece.kind)})")
        if piece.kind in OPENABLE:
            init.append(f"(openable {name})")
    for name, item in zip(things, items, strict=True):
        init.append(f"(inReceptacle {name} {furniture[item.piece]})")
        init.append(f"(objectType {name} {_type(item.kind)})")
        abilities = THINGS[item.kind].abilities
        init.extend(f"({fact} {name})" for ability, fact in _ABILITIES.items() if ability in abilities)
    return _PROBLEM.format(objects=_lines(objects), init=_lines(init), goal=f"    {_goal(household.quest)}")


def _lines(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _goal(quest: Quest) -> str:
    thing, target = _type(quest.thing), _type(quest.target)
    if quest.family == "look":
        return (
            "(exists (?o - object ?lamp - object ?r - receptacle ?l - location ?a - agent) (and "
            f"(objectType ?o {thing}) (holds ?a ?o) (objectType ?lamp {target}) (isToggled ?lamp) "
            "(inReceptacle ?lamp ?r) (receptacleAtLocation ?r ?l) (atLocation ?a ?l)))"
        )
    here = f"(receptacleType ?r {target}) (objectType ?o {thing}) (inReceptacle ?o ?r)"
    if quest.family == "pick2":
        return (
            f"(exists (?r - receptacle ?o - object ?other - object) (and {here} "
            f"(objectType ?other {thing}) (inReceptacle ?other ?r) (not (= ?o ?other))))"
        )
    test = _TESTS.get(quest.family, "")
    return f"(exists (?r - receptacle ?o - object) (and {here}{f' {test}' if test else ''}))"
