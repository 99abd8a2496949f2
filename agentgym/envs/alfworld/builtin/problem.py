"""Write a household as a PDDL problem."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from agentgym.envs.alfworld.builtin.catalogue import OPENABLE, THINGS, TOOLS
from agentgym.envs.alfworld.builtin.generator import Household, Quest
from agentgym.envs.alfworld.builtin.names import ids

_PROBLEM = """\
(define (problem errand)
  (:domain housework)
  (:objects
    {objects}
  )
  (:init
    {init}
  )
  (:goal
    {goal}
  )
)
"""

_PREDICATES = {
    "take": "pickupable",
    "clean": "cleanable",
    "heat": "heatable",
    "cool": "coolable",
    "slice": "sliceable",
    "use": "toggleable",
}
"""Predicates that state an ability of an object."""

_RESULTS = {"clean": "isClean", "heat": "isHot", "cool": "isCool"}
"""Predicates that become true of an object, by family."""

_SPELLINGS = {"sinkbasin": "SinkBasin", "butterknife": "ButterKnife"}
"""Spellings of the types that the domain names; PDDL does not tell cases apart, so this is for readers."""


def problem(household: Household) -> str:
    """Return the problem: equal households give equal text."""
    pieces, items = household.layout.pieces, household.items
    furniture = ids([piece.kind for piece in pieces])
    things = ids([item.kind for item in items])
    holders = sorted({piece.kind for piece in pieces})
    init = ["(atLocation agent start)"]
    for kind in sorted({item.kind for item in items}):
        homes = [holder for holder in holders if holder in THINGS[kind].homes]
        init += [f"(canContain {_type(holder)} {_type(kind)})" for holder in homes]
    for name, piece in zip(furniture, pieces, strict=True):
        init.append(f"(receptacleAtLocation {name} place{piece.location})")
        init.append(f"(receptacleType {name} {_type(piece.kind)})")
        if piece.kind in OPENABLE:
            init.append(f"(openable {name})")
    for name, item in zip(things, items, strict=True):
        init.append(f"(inReceptacle {name} {furniture[item.piece]})")
        init.append(f"(objectType {name} {_type(item.kind)})")
        abilities = THINGS[item.kind].abilities
        init.extend(f"({fact} {name})" for ability, fact in _PREDICATES.items() if ability in abilities)
    return _PROBLEM.format(
        objects="\n    ".join(_objects(household, furniture, things)),
        init="\n    ".join(init),
        goal=_goal(household.quest),
    )


def _objects(household: Household, furniture: Sequence[str], things: Sequence[str]) -> list[str]:
    """Declare everything, and the types that the domain names, whether they occur or not."""
    pieces, items = household.layout.pieces, household.items
    receptacle_types = map(_type, sorted({*(piece.kind for piece in pieces), *TOOLS.values()}))
    object_types = map(_type, sorted({*(item.kind for item in items), "knife", "butterknife"}))
    locations = sorted({piece.location for piece in pieces})
    return [
        "agent - agent",
        f"start {' '.join(f'place{location}' for location in locations)} - location",
        f"{' '.join(furniture)} - receptacle",
        f"{' '.join(things)} - object",
        f"{' '.join(receptacle_types)} - rtype",
        f"{' '.join(object_types)} - otype",
    ]


def _goal(quest: Quest) -> str:
    thing, target = _type(quest.thing), _type(quest.target)
    if quest.family == "look":
        return (
            "(exists (?o - object ?lamp - object ?r - receptacle ?l - location ?a - agent) (and "
            f"(objectType ?o {thing}) (holds ?a ?o) (objectType ?lamp {target}) (isToggled ?lamp) "
            "(inReceptacle ?lamp ?r) (receptacleAtLocation ?r ?l) (atLocation ?a ?l)))"
        )
    there = f"(receptacleType ?r {target}) (objectType ?o {thing}) (inReceptacle ?o ?r)"
    if quest.family == "pick2":
        return (
            f"(exists (?r - receptacle ?o - object ?other - object) (and {there} "
            f"(objectType ?other {thing}) (inReceptacle ?other ?r) (not (= ?o ?other))))"
        )
    if quest.family in _RESULTS:
        there = f"{there} ({_RESULTS[quest.family]} ?o)"
    return f"(exists (?r - receptacle ?o - object) (and {there}))"


@cache
def _type(kind: str) -> str:
    return f"{_SPELLINGS.get(kind, kind.capitalize())}Type"
