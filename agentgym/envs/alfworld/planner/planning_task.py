"""Planning task of a compiled game: signed atoms, their producers and consumers.

A *literal* is an atom with a sign: the index i of a fluent atom that is true, or ~i of one that is
false. An *action* is one way to do something: what it needs and what it changes are literals. Text and
the records of the real engine play no part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple, TypeAlias

from agentgym.envs.alfworld.engine.game import Game
from agentgym.envs.alfworld.engine.operations import Operation
from agentgym.envs.alfworld.engine.pddl import TRUE, Schema, predicates
from agentgym.envs.alfworld.engine.planes import indexes

LiteralNumber: TypeAlias = int
"""Index i of a fluent atom that is true, or ~i of one that is false."""

PlanningGoal: TypeAlias = tuple[LiteralNumber, ...]
"""Literals of one alternative of the goal."""

_Numbers: TypeAlias = dict[tuple[str, ...], int]


class PlanningAction(NamedTuple):
    """One way to do something."""

    schema: str
    objects: tuple[str, ...]
    needs: frozenset[LiteralNumber]
    gives: frozenset[LiteralNumber]
    """Literals that it may make true, without those that it needs and leaves true."""
    conditions: tuple[tuple[int, frozenset[LiteralNumber]], ...] = ()
    """Atoms it changes under a condition, and what that depends on, with both signs."""
    operation: Operation | None = None
    """The compiled form where changes depend on conditions, else None."""

    @property
    def uses(self) -> frozenset[LiteralNumber]:
        """The atoms that its applicability or its effects depend on."""
        return self.needs.union(*(reads for _, reads in self.conditions)) if self.conditions else self.needs


@dataclass(frozen=True, slots=True)
class PlanningTask:
    """Actions, the goal, and the state that both are seen from."""

    actions: tuple[PlanningAction, ...]
    goals: tuple[PlanningGoal, ...]
    """Alternatives; any one will do."""

    def needed(self) -> frozenset[LiteralNumber]:
        """Return every literal that the goal or an action needs."""
        return frozenset().union(*self.goals, *(action.uses for action in self.actions))


def planning_task(game: Game) -> PlanningTask:
    """Return a game's task; of actions that do the same (arriving at a place, facing this or that) one.

    Schemas that change no predicate on which the goal depends are left out.
    """
    goals = tuple(tuple(sorted(literals(needs, forbids))) for needs, forbids in game.goal)
    numbers: _Numbers = {fact: i for i, fact in enumerate(game.planes.fluents)}
    schemas = _schemas(game, goals)
    plain = {schema.name: _lifted(schema, numbers) for schema in schemas if _is_plain(schema)}
    other = {schema.name for schema in schemas} - plain.keys()
    found: dict[object, PlanningAction] = {}
    for schema, objects, tests in sorted(game.operators()):  # the order must not depend on the process
        if schema in plain:
            gives = plain[schema](objects)
            for need, forbidden in sorted(tests):
                needs = frozenset(
                    (*[numbers[fact] for fact in need], *[~numbers[f] for f in forbidden if f in numbers])
                )
                found.setdefault((needs, gives), PlanningAction(schema, objects, needs, gives - needs))
        elif schema in other and (operation := game.operation(schema, objects)) is not None:
            for action in _conditional(operation, game.planes.width):
                found[action.operation, action.needs] = action
    return PlanningTask(tuple(found.values()), goals)


def _schemas(game: Game, goals: tuple[PlanningGoal, ...]) -> list[Schema]:
    """Return the schemas that change a predicate on which the goal depends."""
    needed = {game.planes.fluents[atom_of(x)][0] for goal in goals for x in goal}
    found: dict[str, Schema] = {}
    before = -1
    while len(found) != before:
        before = len(found)
        for schema in game.schemas.values():
            if any(effect.literal.predicate in needed for effect in schema.effects):
                found[schema.name] = schema
                needed |= {*predicates(schema.precondition)}
                needed |= {x for effect in schema.effects for x in predicates(effect.condition)}
    return list(found.values())


def _is_plain(schema: Schema) -> bool:
    return all(effect.condition == TRUE and not effect.variables for effect in schema.effects)


def _lifted(schema: Schema, numbers: _Numbers) -> Callable[[tuple[str, ...]], frozenset[LiteralNumber]]:
    """Return the actions of a schema without conditional effects, as a function of its objects."""
    names = [name for name, _ in schema.parameters]
    picks = []
    constants: list[str] = []
    for effect in schema.effects:
        places = []
        for argument in effect.literal.arguments:
            if argument in names:
                places.append(names.index(argument))
            else:
                places.append(len(names) + len(constants))
                constants.append(argument)
        picks.append((effect.literal.predicate, effect.literal.positive, _picker(places)))

    def gives(objects: tuple[str, ...]) -> frozenset[LiteralNumber]:
        values = (*objects, *constants)
        adds: set[int] = set()
        deletes: set[int] = set()
        for predicate, positive, pick in picks:
            number = numbers.get((predicate, *pick(values)))
            if number is not None:
                (adds if positive else deletes).add(number)
        return frozenset((*adds, *(~i for i in deletes - adds)))

    return gives


def _picker(places: list[int]) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    if len(places) > 1:
        return itemgetter(*places)
    return lambda values: tuple([values[place] for place in places])


def _conditional(operation: Operation, width: int) -> Iterator[PlanningAction]:
    """Yield the ways to do an operation with conditional effects."""
    truth = (1 << width) - 1
    keep, became, conditional = operation.change
    gives = literals(became & truth, ~keep & ~became & truth)
    conditions = []
    for looked_at, _, keep, became in conditional:
        given = literals(became & truth, ~keep & ~became & truth)
        gives |= given
        conditions += [(atom_of(x), literals(looked_at, looked_at)) for x in given]
    for looked_at, wanted in operation.tests:
        needs = literals(wanted, looked_at & ~wanted)
        yield PlanningAction(
            operation.schema, operation.objects, needs, gives - needs, tuple(conditions), operation
        )


def literals(true: int, false: int) -> frozenset[LiteralNumber]:
    """Return the literals of two bit masks."""
    return frozenset((*indexes(true), *(~i for i in indexes(false))))


def bits(numbers: Iterable[int]) -> int:
    """Return the bit mask of atoms."""
    mask = 0
    for number in numbers:
        mask |= 1 << number
    return mask


def holds(state: int, literal: LiteralNumber) -> bool:
    """Return whether a literal holds in a state."""
    return bool(state >> literal & 1) if literal >= 0 else not state >> ~literal & 1


def atom_of(literal: LiteralNumber) -> int:
    """Return a literal's atom."""
    return literal if literal >= 0 else ~literal
