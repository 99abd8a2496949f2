"""Parse PDDL: the typed ADL subset that ALFRED's domain and problems are written in.

Names are case-insensitive in PDDL and lower-cased here, as Fast Downward's translator does.
Conditions become trees of the small records below; an unknown construct is a `UsageError`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from agentgym.types import UsageError

Variables: TypeAlias = tuple[tuple[str, str], ...]
"""``(name, type)`` pairs; variable names keep their question mark."""

Fact: TypeAlias = tuple[str, ...]
"""A ground atom: predicate, then object names."""


@dataclass(frozen=True, slots=True)
class Literal:
    """An atom over variables and objects, or its negation. ``=`` is a predicate like any other."""

    predicate: str
    arguments: tuple[str, ...]
    positive: bool = True


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    """The body holds for some objects of the variables' types."""

    variables: Variables
    body: Condition


@dataclass(frozen=True, slots=True)
class Forall:
    """The body holds for all objects of the variables' types."""

    variables: Variables
    body: Condition


Condition: TypeAlias = Literal | And | Or | Exists | Forall


@dataclass(frozen=True, slots=True)
class Effect:
    """Literals that become true for all objects of ``variables`` where ``condition`` held before."""

    literal: Literal
    condition: Condition
    variables: Variables = ()


@dataclass(frozen=True, slots=True)
class Schema:
    """An action with parameters."""

    name: str
    parameters: Variables
    precondition: Condition
    effects: tuple[Effect, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """What a domain file says that matters to play: supertypes, predicates' names and actions."""

    supertype: dict[str, str]
    """Type -> its supertype; ``object`` is the root."""
    constants: Variables
    schemas: tuple[Schema, ...]

    @property
    def fluents(self) -> frozenset[str]:
        """Predicates that some action changes."""
        return frozenset(effect.literal.predicate for schema in self.schemas for effect in schema.effects)


@dataclass(frozen=True, slots=True)
class Problem:
    """One game: its objects, the facts at the start and the goal."""

    objects: Variables
    """Types of this domain flavour may shadow the root type ``object``."""
    init: frozenset[Fact]
    goal: Condition


_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")
TRUE = And(())


def read(text: str) -> list[Any]:
    """Read one s-expression into nested lists of lower-case strings.

    Raises:
        UsageError: unbalanced parentheses.
    """
    stack: list[list[Any]] = [[]]
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if token == "(":
            stack.append([])
        elif token == ")":
            if len(stack) == 1:
                raise UsageError("PDDL has a ')' too many")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(token)
    if len(stack) != 1 or len(stack[0]) != 1 or not isinstance(stack[0][0], list):
        raise UsageError("PDDL is cut short: parentheses do not close")
    return stack[0][0]


@lru_cache(maxsize=64)
def parse_domain(text: str) -> Domain:
    """Parse a domain; equal texts share one result.

    Raises:
        UsageError: an unknown construct, named.
    """
    sections = _sections(text, "domain")
    supertype = dict(_typed(sections.get(":types", [])))
    schemas = tuple(_schema(body) for body in sections.get(":action", []))
    return Domain(supertype, _typed(sections.get(":constants", [])), schemas)


def parse_problem(text: str) -> Problem:
    """Parse a problem.

    Raises:
        UsageError: an unknown construct, named.
    """
    sections = _sections(text, "problem")
    init = frozenset(tuple(fact) for fact in sections.get(":init", []) if fact[0] != "=")
    for fact in init:
        if not all(isinstance(word, str) for word in fact):
            raise UsageError(f"unknown construct in PDDL :init: {fact[0]}")
    (goal,) = sections.get(":goal", [[]])
    return Problem(_typed(sections.get(":objects", [])), init, _condition(goal))


def _sections(text: str, kind: str) -> dict[str, list[Any]]:
    """Return the body of each section; the bodies of all actions as one list."""
    form = read(text)
    if form[:1] != ["define"] or not form[1:] or form[1][:1] != [kind]:
        raise UsageError(f"not a PDDL {kind}: it must begin with (define ({kind} ...)")
    sections: dict[str, list[Any]] = {}
    for head, *body in form[2:]:
        if head in (":action",):
            sections.setdefault(head, []).append(body)
        elif head in (
            ":requirements", ":types", ":predicates", ":functions", ":domain", ":constants",
            ":objects", ":init", ":goal", ":metric",
        ):  # fmt: skip
            sections[head] = body
        else:
            raise UsageError(f"unknown construct in PDDL: {head}")
    return sections


def _typed(words: Sequence[str]) -> Variables:
    """Parse ``a b - t c``: untyped names are objects."""
    pairs: list[tuple[str, str]] = []
    waiting: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "-":
            kind = next(rest)
            pairs.extend((name, kind) for name in waiting)
            waiting = []
        else:
            waiting.append(word)
    pairs.extend((name, "object") for name in waiting)
    return tuple(pairs)


def _schema(body: list[Any]) -> Schema:
    name, *rest = body
    fields = dict(zip(rest[::2], rest[1::2], strict=True))
    unknown = set(fields) - {":parameters", ":precondition", ":effect"}
    if unknown:
        raise UsageError(f"unknown construct in PDDL action {name}: {sorted(unknown)[0]}")
    precondition = _condition(fields.get(":precondition", []))
    effects = tuple(_effects(fields.get(":effect", []), TRUE, ()))
    return Schema(name, _typed(fields.get(":parameters", [])), precondition, effects)


def _condition(form: list[Any]) -> Condition:
    if not form:
        return TRUE
    head, *rest = form
    match head:
        case "and":
            return And(tuple(_condition(part) for part in rest))
        case "or":
            return Or(tuple(_condition(part) for part in rest))
        case "not":
            return negate(_condition(rest[0]))
        case "imply":
            return Or((negate(_condition(rest[0])), _condition(rest[1])))
        case "exists":
            return Exists(_typed(rest[0]), _condition(rest[1]))
        case "forall":
            return Forall(_typed(rest[0]), _condition(rest[1]))
    if not all(isinstance(word, str) for word in form) or head in ("when", "<", ">", "<=", ">="):
        raise UsageError(f"unknown construct in a PDDL condition: {head}")
    return Literal(head, tuple(rest))


def negate(condition: Condition) -> Condition:
    """Return the negation, pushed down to literals."""
    match condition:
        case Literal(predicate, arguments, positive):
            return Literal(predicate, arguments, not positive)
        case And(parts):
            return Or(tuple(negate(part) for part in parts))
        case Or(parts):
            return And(tuple(negate(part) for part in parts))
        case Exists(variables, body):
            return Forall(variables, negate(body))
        case Forall(variables, body):
            return Exists(variables, negate(body))


def _effects(form: list[Any], condition: Condition, variables: Variables) -> list[Effect]:
    if not form:
        return []
    head, *rest = form
    match head:
        case "and":
            return [effect for part in rest for effect in _effects(part, condition, variables)]
        case "when":
            own = _condition(rest[0])
            return _effects(rest[1], own if condition == TRUE else And((condition, own)), variables)
        case "forall":
            return _effects(rest[1], condition, variables + _typed(rest[0]))
        case "increase":
            return []  # costs do not change the state
        case "not":
            return [Effect(Literal(rest[0][0], tuple(rest[0][1:]), False), condition, variables)]
    if not all(isinstance(word, str) for word in form):
        raise UsageError(f"unknown construct in a PDDL effect: {head}")
    return [Effect(Literal(head, tuple(rest)), condition, variables)]
