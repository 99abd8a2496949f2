"""Compile a problem's goal to bit masks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentgym.envs.alfworld.grounding import Objects, disjuncts
from agentgym.envs.alfworld.pddl import Condition, Literal
from agentgym.envs.alfworld.planes import Planes
from agentgym.envs.alfworld.vocabulary import Vocabulary


def compile_goal(
    goal: Condition, planes: Planes, vocabulary: Vocabulary, objects: Objects
) -> tuple[tuple[int, int], ...]:
    """Return the goal as alternatives of (bits that must be set, bits that must not).

    No alternative at all means that no sequence of actions can reach the goal.
    """
    tests = []
    for variables, literals in disjuncts(goal, objects):
        for binding in _bindings(variables, literals, vocabulary):
            test = planes.conjunction(_bind(literal, binding) for literal in literals)
            if test is not None:
                tests.append(test)
    return tuple(dict.fromkeys(tests))


def _bind(literal: Literal, binding: Mapping[str, str]) -> Literal:
    return Literal(literal.predicate, tuple(binding.get(a, a) for a in literal.arguments), literal.positive)


def _bindings(
    variables: Mapping[str, str], literals: Sequence[Literal], vocabulary: Vocabulary
) -> Iterator[dict[str, str]]:
    """Yield the objects that make every positive literal possible, fewest free arguments first."""

    def freedom(literal: Literal, binding: Mapping[str, str]) -> tuple[int, int]:
        free = sum(a[0] == "?" and a not in binding for a in literal.arguments)
        return free, vocabulary.count(literal.predicate)

    def extend(rest: list[Literal], binding: dict[str, str]) -> Iterator[dict[str, str]]:
        if not rest:
            yield from _fill(variables, binding, vocabulary)
            return
        best = min(rest, key=lambda literal: freedom(literal, binding))
        others = [literal for literal in rest if literal is not best]
        bound = [binding.get(a, None if a[0] == "?" else a) for a in best.arguments]
        for fact, _ in vocabulary.candidates(best.predicate, bound):
            wider = _match(best.arguments, fact[1:], binding, variables, vocabulary)
            if wider is not None:
                yield from extend(others, wider)

    yield from extend([x for x in literals if x.positive and x.predicate != "="], {})


def _match(
    arguments: Sequence[str],
    values: Sequence[str],
    binding: Mapping[str, str],
    variables: Mapping[str, str],
    vocabulary: Vocabulary,
) -> dict[str, str] | None:
    """Return the binding widened by one atom; None where the atom does not fit."""
    wider = dict(binding)
    for argument, value in zip(arguments, values, strict=True):
        if argument[0] == "?":
            if not vocabulary.is_a(value, variables[argument]) or wider.get(argument, value) != value:
                return None
            wider[argument] = value
    return wider


def _fill(
    variables: Mapping[str, str], binding: dict[str, str], vocabulary: Vocabulary
) -> Iterator[dict[str, str]]:
    """Yield every completion of a binding by variables that no positive literal mentions."""
    free = [name for name in variables if name not in binding]
    if not free:
        yield binding
        return
    for value in vocabulary.members(variables[free[0]]):
        yield from _fill(variables, binding | {free[0]: value}, vocabulary)
