"""Compile ground actions to operations on the bits of a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import NamedTuple

from agentgym.envs.alfworld.engine.conditions import ALWAYS, ConditionCompiler
from agentgym.envs.alfworld.engine.grounding import Objects, Test, disjuncts
from agentgym.envs.alfworld.engine.pddl import TRUE, AtomCondition, Domain, Effect, Fact, Schema
from agentgym.envs.alfworld.engine.planes import Planes, union


class Change(NamedTuple):
    """What an action does to the bits of a state."""

    keep: int
    """Bits that survive."""
    set: int
    """Bits that become set."""
    conditional: tuple[tuple[int, int, int, int], ...]
    """(bits looked at, bits set of these, keep, set), tested on the state before the action."""


class Operation:
    """A command that applies in some states, and what it does to them."""

    __slots__ = ("_change", "_compiler", "command", "objects", "schema", "tests")

    def __init__(
        self,
        command: str,
        schema: str,
        objects: tuple[str, ...],
        tests: tuple[tuple[int, int], ...],
        compiler: OperationCompiler,
    ):
        """Hold the command of a ground action.

        Args:
            command: its words.
            schema: its name.
            objects: its arguments.
            tests: (bits looked at, bits that must be set of these): any pair suffices.
            compiler: compiles what it does.
        """
        self.command, self.schema, self.objects, self.tests = command, schema, objects, tests
        self._compiler = compiler
        self._change: Change | None = None

    @property
    def change(self) -> Change:
        """What it does, compiled when it is first done: of a large room's commands few ever are."""
        if self._change is None:
            self._change = self._compiler.change(self.schema, self.objects, self.tests)
        return self._change


class _GroundEffect(NamedTuple):
    """An effect on one fluent atom."""

    bit: int
    positive: bool
    tests: tuple[tuple[int, int], ...]
    """Alternatives of (bits that must be set, bits that must not)."""


class OperationCompiler:
    """Compiles the ground actions of one game."""

    def __init__(self, domain: Domain, planes: Planes, objects: Objects, conditions: ConditionCompiler):
        """Keep what actions are compiled against."""
        self._schemas = {schema.name: schema for schema in domain.schemas}
        self._planes, self._objects, self._conditions = planes, objects, conditions

    def compile(
        self, command: str, schema: str, objects: tuple[str, ...], tests: Sequence[Test]
    ) -> Operation | None:
        """Compile one action.

        Returns:
            None when the action can never apply, or when nothing it does is news: an effect that the
            precondition already grants is dropped, and an action left without effects with it.
        """
        masks = self._planes.tests(tests)
        if not masks:
            return None
        adds, deletes, maybe = self._news(schema, objects, masks)
        if not (adds & ~_known(masks)[0] or deletes or maybe):
            return None
        return Operation(command, schema, objects, masks, self)

    def change(self, schema: str, objects: tuple[str, ...], masks: Sequence[tuple[int, int]]) -> Change:
        """Compile what an action does where one of the tests ``masks`` holds."""
        adds, deletes, maybe = self._news(schema, objects, masks)
        keep, became = self._planes.change(adds, deletes)
        if maybe:
            appear, vanish = self._planes.record((effect.bit, effect.positive) for effect in maybe)
            keep, became = keep & ~(appear | vanish), became & ~vanish | appear
        return Change(keep, became, tuple(test for effect in maybe for test in self._conditional(effect)))

    def _news(
        self, schema: str, objects: tuple[str, ...], masks: Sequence[tuple[int, int]]
    ) -> tuple[int, int, list[_GroundEffect]]:
        """Return the bits added, the bits deleted that may be set, and the conditional effects."""
        effects = list(self._effects(self._schemas[schema], objects))
        sure = [effect for effect in effects if ALWAYS in effect.tests]
        adds = union(effect.bit for effect in sure if effect.positive)
        denied = _known(masks)[1]
        deletes = union(effect.bit for effect in sure if not effect.positive) & ~adds & ~denied
        return adds, deletes, [effect for effect in effects if ALWAYS not in effect.tests]

    def _effects(self, schema: Schema, objects: tuple[str, ...]) -> Iterator[_GroundEffect]:
        """Yield the effects on fluent atoms that any state can bring about."""
        binding = dict(zip((name for name, _ in schema.parameters), objects, strict=True))
        for effect in schema.effects:
            names = [name for name, _ in effect.variables]
            for values in product(*(self._objects.members.get(kind, ()) for _, kind in effect.variables)):
                full = {**binding, **dict(zip(names, values, strict=True))}
                bit = self._planes.truth.get(_atom(effect.literal, full))
                tests = self._conditions.compile(effect.condition, full) if bit else ()
                if bit and tests:
                    yield _GroundEffect(bit, effect.literal.positive, tests)

    def _conditional(self, effect: _GroundEffect) -> Iterator[tuple[int, int, int, int]]:
        """Yield (bits looked at, bits set of these, keep, set) on the plane of truth."""
        every = self._planes.every
        keep, became = (every, effect.bit) if effect.positive else (every & ~effect.bit, 0)
        for needs, forbids in effect.tests:
            yield needs | forbids, needs, keep, became


def selector(domain: Domain, initial: int, bits: Mapping[Fact, int]) -> str:
    """Return a predicate exactly one of whose atoms holds at any time: where the agent is.

    Every action that adds one of its atoms deletes one that it needs. Empty when there is none.
    """
    for predicate in sorted(domain.fluents):
        held = sum(1 for fact, bit in bits.items() if fact[0] == predicate and initial & bit)
        if held == 1 and all(_exchanges(schema, predicate) for schema in domain.schemas):
            return predicate
    return ""


def _exchanges(schema: Schema, predicate: str) -> bool:
    own: list[Effect] = [effect for effect in schema.effects if effect.literal.predicate == predicate]
    if not own:
        return True
    deleted = [effect.literal for effect in own if not effect.literal.positive]
    if len(own) != 2 or len(deleted) != 1 or any(effect.condition != TRUE for effect in own):
        return False
    needed = AtomCondition(predicate, deleted[0].arguments)
    return all(needed in literals for _, literals in disjuncts(schema.precondition, None))


def _known(masks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the bits that every test requires to be set, and to be clear."""
    granted = denied = -1
    for looked_at, wanted in masks:
        granted &= wanted
        denied &= looked_at & ~wanted
    return granted, denied


def _atom(literal: AtomCondition, binding: Mapping[str, str]) -> Fact:
    return (literal.predicate, *(binding.get(a, a) for a in literal.arguments))
