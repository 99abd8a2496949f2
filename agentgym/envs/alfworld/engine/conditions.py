"""Compile conditions to bit masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentgym.envs.alfworld.engine.grounding import NO_NAMES, Objects, disjuncts
from agentgym.envs.alfworld.engine.pddl import TRUE, AtomCondition, Condition
from agentgym.envs.alfworld.engine.planes import Planes
from agentgym.envs.alfworld.engine.vocabulary import Vocabulary

ALWAYS = (0, 0)
"""The alternative that every state meets."""


class ConditionCompiler:
    """Compiles conditions over the objects of one game."""

    def __init__(self, planes: Planes, vocabulary: Vocabulary, objects: Objects):
        """Keep what conditions are compiled against."""
        self._planes, self._vocabulary, self._objects = planes, vocabulary, objects

    def compile(
        self, condition: Condition, binding: Mapping[str, str] = NO_NAMES
    ) -> tuple[tuple[int, int], ...]:
        """Return alternatives of (bits that must be set, bits that must not).

        None at all means that no state can meet the condition.

        Args:
            condition: what is to hold.
            binding: free variables and what stands for them.
        """
        if condition == TRUE:
            return (ALWAYS,)
        tests = []
        for variables, literals in disjuncts(condition, self._objects, binding):
            for full in self._bindings(variables, literals):
                test = self._planes.conjunction(_bind(literal, full) for literal in literals)
                if test is not None:
                    tests.append(test)
        return tuple(dict.fromkeys(tests))

    def _bindings(
        self, variables: Mapping[str, str], literals: Sequence[AtomCondition]
    ) -> Iterator[dict[str, str]]:
        """Yield the objects that make every positive literal possible, fewest free arguments first."""

        def freedom(literal: AtomCondition, binding: Mapping[str, str]) -> tuple[int, int]:
            free = sum(a[0] == "?" and a not in binding for a in literal.arguments)
            return free, self._vocabulary.count(literal.predicate)

        def extend(rest: list[AtomCondition], binding: dict[str, str]) -> Iterator[dict[str, str]]:
            if not rest:
                yield from self._fill(variables, binding)
                return
            best = min(rest, key=lambda literal: freedom(literal, binding))
            others = [literal for literal in rest if literal is not best]
            bound = [binding.get(a, None if a[0] == "?" else a) for a in best.arguments]
            for fact, _ in self._vocabulary.candidates(best.predicate, bound):
                wider = self._match(best.arguments, fact[1:], binding, variables)
                if wider is not None:
                    yield from extend(others, wider)

        yield from extend([x for x in literals if x.positive and x.predicate != "="], {})

    def _match(
        self,
        arguments: Sequence[str],
        values: Sequence[str],
        binding: Mapping[str, str],
        variables: Mapping[str, str],
    ) -> dict[str, str] | None:
        """Return the binding widened by one atom; None where the atom does not fit."""
        wider = dict(binding)
        for argument, value in zip(arguments, values, strict=True):
            if argument[0] == "?":
                fits = self._vocabulary.is_a(value, variables[argument])
                if not fits or wider.get(argument, value) != value:
                    return None
                wider[argument] = value
        return wider

    def _fill(self, variables: Mapping[str, str], binding: dict[str, str]) -> Iterator[dict[str, str]]:
        """Yield every completion of a binding by variables that no positive literal mentions."""
        free = [name for name in variables if name not in binding]
        if not free:
            yield binding
            return
        for value in self._objects.members.get(variables[free[0]], ()):
            yield from self._fill(variables, binding | {free[0]: value})


def _bind(literal: AtomCondition, binding: Mapping[str, str]) -> AtomCondition:
    return AtomCondition(
        literal.predicate, tuple(binding.get(a, a) for a in literal.arguments), literal.positive
    )
