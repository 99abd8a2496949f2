"""Ground actions: commands, their preconditions, and their effects on a state's bits."""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

from agentgym.envs.alfworld.engine.actions import ActionCode, ConditionalEffect, Masks
from agentgym.envs.alfworld.engine.grounding import disjuncts
from agentgym.envs.alfworld.engine.pddl import TRUE, AtomCondition, Domain, Effect, Schema
from agentgym.envs.alfworld.engine.planes import Planes
from agentgym.envs.alfworld.engine.sentences import Sentence
from agentgym.envs.alfworld.engine.tables import AtomTables

ConditionalChange: TypeAlias = tuple[int, int, int, int]
"""(bits looked at, bits set of these, keep, set), tested on the state before the action."""

Change: TypeAlias = tuple[int, int, tuple[ConditionalChange, ...]]
"""Effect of an action on the bits of a state: those that survive, those that become set, and what depends."""


class Operation:
    """A ground action. Its effects and feedback are compiled at its first use."""

    change: Change
    """Change of a state in which the action applies."""

    __slots__ = ("_code", "_planes", "_tables", "change", "command", "objects", "schema", "sentence")

    def __init__(
        self,
        command: str,
        schema: str,
        objects: tuple[str, ...],
        code: ActionCode,
        tables: AtomTables,
        planes: Planes,
    ):
        """Hold the parts."""
        self.command, self.schema, self.objects = command, schema, objects
        self._code, self._tables, self._planes = code, tables, planes
        self.sentence: Sentence | None = None
        """What answers it."""

    @property
    def tests(self) -> tuple[tuple[int, int], ...]:
        """Pairs of (bits looked at, bits that must be set of these): any pair suffices."""
        masks = self._code.tests(self._tables, *self.objects)
        return tuple(dict.fromkeys((needs | forbids, needs) for needs, forbids in masks))

    def is_news(self) -> bool:
        """Return whether it does anything that its precondition does not grant."""
        masks = self._code.tests(self._tables, *self.objects)
        adds, deletes, maybe = self._effects(masks)
        return bool(masks and (adds & ~_known(masks)[0] or deletes or maybe))

    def __getattr__(self, name: str) -> Change:
        """Compile what is not there yet."""
        if name != "change":
            raise AttributeError(name)
        self.change = self._compile_change()
        return self.change

    def _compile_change(self) -> Change:
        adds, deletes, maybe = self._effects(self._code.tests(self._tables, *self.objects))
        keep, became = self._planes.change(adds, deletes)
        if not maybe:
            return keep, became, ()
        appear, vanish = self._planes.record((effect.bit, effect.positive) for effect in maybe)
        keep, became = keep & ~(appear | vanish), became & ~vanish | appear
        conditional = (self._condition(effect, masks) for effect in maybe for masks in effect.tests)
        return keep, became, tuple(conditional)

    def _effects(self, masks: Masks) -> tuple[int, int, list[ConditionalEffect]]:
        """Return the bits added, the bits deleted that may be set, and what depends on the state."""
        adds, deletes, maybe = self._code.effects(self._tables, *self.objects)
        return adds, deletes & ~adds & ~_known(masks)[1], maybe

    def _condition(self, effect: ConditionalEffect, masks: tuple[int, int]) -> ConditionalChange:
        """Return (bits looked at, bits set of these, keep, set) on the plane of truth."""
        needs, forbids = masks
        every = self._planes.every
        keep, became = (every, effect.bit) if effect.positive else (every & ~effect.bit, 0)
        return needs | forbids, needs, keep, became


@lru_cache(maxsize=64)
def selectors(domain: Domain) -> list[str]:
    """Return the predicates one of whose atoms is exchanged for another: where the agent is.

    Every action that adds one of its atoms deletes one that it needs, so that as many hold as at first.
    """
    return [
        name for name in sorted(domain.fluents) if all(_exchanges(schema, name) for schema in domain.schemas)
    ]


def _exchanges(schema: Schema, predicate: str) -> bool:
    own: list[Effect] = [effect for effect in schema.effects if effect.literal.predicate == predicate]
    if not own:
        return True
    deleted = [effect.literal for effect in own if not effect.literal.positive]
    if len(own) != 2 or len(deleted) != 1 or any(effect.condition != TRUE for effect in own):
        return False
    needed = AtomCondition(predicate, deleted[0].arguments)
    return all(needed in literals for _, literals in disjuncts(schema.precondition, None))


def _known(masks: Masks) -> tuple[int, int]:
    """Return the bits that every way to meet a precondition requires to be set, and to be clear."""
    granted = denied = -1
    for needs, forbids in masks:
        granted &= needs
        denied &= forbids
    return granted, denied
