"""Compile ground actions to operations on the bits of a state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from agentgym.envs.alfworld.grounding import Objects, Test, disjuncts
from agentgym.envs.alfworld.pddl import TRUE, Condition, Domain, Effect, Fact, Literal, Schema
from agentgym.envs.alfworld.planes import Planes, union
from agentgym.types import UsageError


class Operation(NamedTuple):
    """A command that applies, and what it does to a state."""

    command: str
    schema: str
    objects: tuple[str, ...]
    tests: tuple[tuple[int, int], ...]
    """(bits looked at, bits that must be set of these): any pair suffices."""
    keep: int
    """Bits that survive."""
    set: int
    """Bits that become set."""
    conditional: tuple[tuple[int, int, int, int], ...]
    """(bits looked at, bits set of these, keep, set), tested on the state before the action."""


class _GroundEffect(NamedTuple):
    """An effect on one fluent atom."""

    bit: int
    positive: bool
    condition: Condition


class OperationCompiler:
    """Compiles the ground actions of one game."""

    def __init__(self, domain: Domain, planes: Planes, objects: Objects):
        """Keep what actions are compiled against."""
        self._schemas = {schema.name: schema for schema in domain.schemas}
        self._planes, self._objects = planes, objects

    def compile(
        self, command: str, schema: str, objects: tuple[str, ...], tests: Sequence[Test]
    ) -> Operation | None:
        """Compile one action.

        Returns:
            None when the action can never apply, or when nothing it does is news: an effect that the
            precondition already grants is dropped, and an action left without effects with it.

        Raises:
            UsageError: an unknown construct in a conditional effect.
        """
        masks = self._planes.tests(tests)
        if not masks:
            return None
        binding = _binding(self._schemas[schema], objects)
        effects = list(self._effects(self._schemas[schema], binding))
        sure = [effect for effect in effects if effect.condition == TRUE]
        maybe = [effect for effect in effects if effect.condition != TRUE]
        granted, denied = _known(masks)
        adds = union(effect.bit for effect in sure if effect.positive)
        deletes = union(effect.bit for effect in sure if not effect.positive) & ~adds & ~denied
        if not (adds & ~granted or deletes or maybe):
            return None
        keep, became = self._planes.change(adds, deletes)
        if maybe:
            appear, vanish = self._planes.record((effect.bit, effect.positive) for effect in maybe)
            keep, became = keep & ~(appear | vanish), became & ~vanish | appear
        conditional = tuple(test for effect in maybe for test in self._conditional(effect, binding))
        return Operation(command, schema, objects, masks, keep, became, conditional)

    def _effects(self, schema: Schema, binding: Mapping[str, str]) -> Iterator[_GroundEffect]:
        for effect in schema.effects:
            bit = self._planes.truth.get(_atom(effect.literal, binding))
            if bit is not None:
                yield _GroundEffect(bit, effect.literal.positive, effect.condition)

    def _conditional(
        self, effect: _GroundEffect, binding: Mapping[str, str]
    ) -> Iterator[tuple[int, int, int, int]]:
        """Yield (bits looked at, bits set of these, keep, set) on the plane of truth."""
        every = self._planes.every
        keep, became = (every, effect.bit) if effect.positive else (every & ~effect.bit, 0)
        for variables, literals in disjuncts(effect.condition, self._objects, binding):
            if variables:
                raise UsageError("unknown construct in a PDDL action: exists in a conditional effect")
            test = self._planes.conjunction(literals)
            if test is not None:
                yield test[0] | test[1], test[0], keep, became


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
    needed = Literal(predicate, deleted[0].arguments)
    return all(needed in literals for _, literals in disjuncts(schema.precondition, None))


def _known(masks: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the bits that every test requires to be set, and to be clear."""
    granted = denied = -1
    for looked_at, wanted in masks:
        granted &= wanted
        denied &= looked_at & ~wanted
    return granted, denied


def _binding(schema: Schema, objects: tuple[str, ...]) -> dict[str, str]:
    return dict(zip((name for name, _ in schema.parameters), objects, strict=True))


def _atom(literal: Literal, binding: Mapping[str, str]) -> Fact:
    return (literal.predicate, *(binding.get(a, a) for a in literal.arguments))
