"""Parse PDDL: the typed ADL subset that ALFRED's domain and problems are written in.

Names are case-insensitive in PDDL and lower-cased here, as Fast Downward's translator does.
Conditions become trees of the small records below; an unknown construct is a `UsageError`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from agentgym.errors import UsageError

Variables: TypeAlias = tuple[tuple[str, str], ...]
"""``(name, type)`` pairs; variable names keep their question mark."""

Fact: TypeAlias = tuple[str, ...]
"""A ground atom: predicate, then object names."""


@dataclass(frozen=True, slots=True)
class AtomCondition:
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


Condition: TypeAlias = AtomCondition | And | Or | Exists | Forall


@dataclass(frozen=True, slots=True)
class Effect:
    """Literals that become true for all objects of ``variables`` where ``condition`` held before."""

    literal: AtomCondition
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
    """The parts of a domain file that matter to play."""

    types: frozenset[str]
    """Types below the root ``object``; one of them may have that name as well."""
    constants: Variables
    arities: dict[str, int]
    """Predicate -> how many arguments it has."""
    schemas: tuple[Schema, ...]

    @property
    def fluents(self) -> frozenset[str]:
        """Predicates that some action changes."""
        return frozenset(effect.literal.predicate for schema in self.schemas for effect in schema.effects)

    @property
    def doubtful(self) -> frozenset[str]:
        """Predicates with conditional effects."""
        effects = (effect for schema in self.schemas for effect in schema.effects)
        return frozenset(effect.literal.predicate for effect in effects if effect.condition != TRUE)

    @property
    def tested(self) -> frozenset[str]:
        """Predicates that some action depends on."""
        conditions = [schema.precondition for schema in self.schemas]
        conditions += [effect.condition for schema in self.schemas for effect in schema.effects]
        return frozenset(name for condition in conditions for name in predicates(condition))


@lru_cache(maxsize=64)
def predicates_read(domain: Domain, texts: frozenset[str], roots: frozenset[str]) -> frozenset[str]:
    """Return the predicates that preconditions and ``texts`` read, or conditions of effects on what is read.

    ``roots``: predicates some of whose atoms are read besides, which are not in the answer by themselves.
    """
    effects = [effect for schema in domain.schemas for effect in schema.effects]
    read = texts.union(*(predicates(schema.precondition) for schema in domain.schemas))
    for _ in effects:  # as long as a chain of them can be
        seen = (effect.condition for effect in effects if effect.literal.predicate in read | roots)
        read = read.union(*map(predicates, seen))
    return read


@dataclass(frozen=True, slots=True)
class PddlProblem:
    """One game: its objects, the facts at the start and the goal."""

    objects: Variables
    """Types of this domain flavour may shadow the root type ``object``."""
    init: frozenset[Fact]
    goal: Condition


_TOKEN = re.compile(r"[()]|[^\s()]+")
_COMMENT = re.compile(r";[^\n]*")
TRUE = And(())
_MAX_DEPTH = 100


def read(text: str) -> list[Any]:
    """Read one s-expression into nested lists of lower-case strings."""
    stack: list[list[Any]] = [[]]
    words: dict[str, str] = {}  # one string for a name that comes a hundred times
    for token in _TOKEN.findall(_COMMENT.sub("", text).lower()):
        if token == "(":
            stack.append([])
            if len(stack) > _MAX_DEPTH:
                raise UsageError(f"PDDL is nested more than {_MAX_DEPTH} deep")
        elif token == ")":
            if len(stack) == 1:
                raise UsageError("PDDL has a ')' too many")
            done = stack.pop()
            stack[-1].append(done)
        else:
            stack[-1].append(words.setdefault(token, token))
    if len(stack) != 1 or len(stack[0]) != 1 or not isinstance(stack[0][0], list):
        raise UsageError("PDDL is cut short: parentheses do not close")
    return stack[0][0]


@lru_cache(maxsize=64)
def parse_domain(text: str) -> Domain:
    """Parse a domain; equal texts share one result."""
    sections = _sections(text, "domain")
    types = dict(_typed(sections.get(":types", [])))
    for name, parent in types.items():
        if parent != "object":  # TextWorld's sentences and its actions disagree on what they are
            raise UsageError(f"unknown construct in PDDL :types: {name} below {parent}")
    arities = {"=": 2}
    for form in sections.get(":predicates", []):
        name, *arguments = _words(form, "PDDL :predicates")
        arities[name] = len(_typed(arguments))
    schemas = tuple(_schema(body) for body in sections.get(":action", []))
    constants = _typed(sections.get(":constants", []))
    for schema in schemas:
        where = f"PDDL action {schema.name}"
        known = dict(schema.parameters).keys()
        _check(schema.precondition, arities, known, where)
        for effect in schema.effects:
            inner = known | dict(effect.variables).keys()
            _check(effect.condition, arities, inner, where)
            _check(effect.literal, arities, inner, where)
    return Domain(frozenset(types), constants, arities, schemas)


def parse_problem(text: str, domain: Domain) -> PddlProblem:
    """Parse a problem of a domain."""
    sections = _problem_sections(text)
    forms = [form for form in sections.get(":init", []) if form[:1] != ["="]]  # distances and costs
    init = frozenset(_words(form, "PDDL :init") for form in forms)
    objects = _typed(sections.get(":objects", []))
    known = dict((*domain.constants, *objects)).keys()
    for fact in init:
        if domain.arities.get(fact[0]) != len(fact) - 1 or not known >= set(fact[1:]):
            _check(AtomCondition(fact[0], fact[1:]), domain.arities, frozenset(), "PDDL :init", known)
    goal = sections.get(":goal", [[]])
    if len(goal) != 1:
        raise UsageError(f"PDDL :goal must be one condition, got {len(goal)}")
    condition = _condition(goal[0])
    _check(condition, domain.arities, frozenset(), "PDDL :goal", known)
    return PddlProblem(objects, init, condition)


def goal_form(problem_text: str) -> str:
    """Return the goal of a problem as `parse_goal` reads it: lower-case, on one line."""
    return _write(_problem_sections(problem_text).get(":goal", [[]])[0])


@lru_cache(maxsize=1)
def _problem_sections(text: str) -> dict[str, list[Any]]:
    """Return the sections of a problem; an import asks for those of one several times."""
    return _sections(text, "problem")


@lru_cache(maxsize=1024)
def parse_goal(form: str) -> Condition:
    """Parse a goal; equal ones share one result."""
    return _condition(read(form))


_SECTIONS = (
    ":action", ":constants", ":domain", ":functions", ":goal", ":init", ":metric", ":objects", ":predicates",
    ":requirements", ":types",
)  # fmt: skip


def _sections(text: str, kind: str) -> dict[str, list[Any]]:
    """Return the body of each section; the bodies of all actions as one list."""
    form = read(text)
    if form[:1] != ["define"] or not form[1:] or form[1][:1] != [kind]:
        raise UsageError(f"not a PDDL {kind}: it must begin with (define ({kind} ...)")
    sections: dict[str, list[Any]] = {}
    for section in form[2:]:
        if not isinstance(section, list) or not section or section[0] not in _SECTIONS:
            raise UsageError(f"unknown construct in a PDDL {kind}: {_show(section)}")
        head, *body = section
        if head == ":action":
            sections.setdefault(head, []).append(body)
        else:
            sections[head] = body
    return sections


def _words(form: Any, where: str) -> tuple[str, ...]:
    """Return a list of words, not empty."""
    if not isinstance(form, list) or not form or list in map(type, form):
        raise UsageError(f"unknown construct in {where}: {_show(form)}")
    return tuple(form)


def _typed(words: Sequence[Any]) -> Variables:
    """Parse ``a b - t c``: untyped names are objects.

    A comma is no separator: the published domain's ``?l - location, ?r`` makes a type ``location,``,
    which has no objects, and its games depend on that.
    """
    pairs: list[tuple[str, str]] = []
    waiting: list[str] = []
    rest = iter(words)
    for word in rest:
        kind = next(rest, None) if word == "-" else ""
        if not isinstance(word, str) or not isinstance(kind, str):
            raise UsageError(f"unknown construct in a PDDL list of names and types: {_show(words)}")
        if word == "-":
            pairs.extend((name, kind) for name in waiting)
            waiting = []
        else:
            waiting.append(word)
    pairs.extend((name, "object") for name in waiting)
    return tuple(pairs)


def _variables(form: Any) -> Variables:
    """Parse the parameters of an action or a quantifier."""
    pairs = _typed(form) if isinstance(form, list) else ()
    names = {name for name, _ in pairs if name[0] == "?"}
    if not isinstance(form, list) or len(names) != len(pairs):
        raise UsageError(f"unknown construct in PDDL variables: {_show(form)}")
    return pairs


def _schema(body: list[Any]) -> Schema:
    name, *rest = body or [None]
    known = (":parameters", ":precondition", ":effect")
    if not isinstance(name, str) or len(rest) % 2 or any(key not in known for key in rest[::2]):
        odd = next((key for key in rest[::2] if key not in known), "a part is missing")
        raise UsageError(f"unknown construct in PDDL action {_show(name)}: {_show(odd)}")
    fields = dict(zip(rest[::2], rest[1::2], strict=True))
    if not all(isinstance(part, list) for part in fields.values()):
        raise UsageError(f"unknown construct in PDDL action {name}: a part without parentheses")
    precondition = _condition(fields.get(":precondition", []))
    effects = tuple(_effects(fields.get(":effect", []), TRUE, ()))
    return Schema(name, _variables(fields.get(":parameters", [])), precondition, effects)


_OPERANDS = {"not": 1, "imply": 2, "exists": 2, "forall": 2, "when": 2, "increase": 2}
"""Number of parts that follow these words."""


def _parts(form: Any, where: str) -> tuple[Any, list[Any]]:
    """Split a form that is not empty into its first word and the rest."""
    if not isinstance(form, list) or len(form) - 1 != _OPERANDS.get(str(form[0]), len(form) - 1):
        raise UsageError(f"unknown construct in {where}: {_show(form)}")
    return form[0], form[1:]


def _condition(form: Any) -> Condition:
    where = "a PDDL condition"
    if form == []:
        return TRUE
    head, rest = _parts(form, where)
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
            return Exists(_variables(rest[0]), _condition(rest[1]))
        case "forall":
            return Forall(_variables(rest[0]), _condition(rest[1]))
    predicate, *arguments = _words(form, where)
    return AtomCondition(predicate, tuple(arguments))


def negate(condition: Condition) -> Condition:
    """Return the negation, pushed down to literals."""
    match condition:
        case AtomCondition(predicate, arguments, positive):
            return AtomCondition(predicate, arguments, not positive)
        case And(parts):
            return Or(tuple(negate(part) for part in parts))
        case Or(parts):
            return And(tuple(negate(part) for part in parts))
        case Exists(variables, body):
            return Forall(variables, negate(body))
        case Forall(variables, body):
            return Exists(variables, negate(body))


def predicates(condition: Condition) -> Iterator[str]:
    """Yield the predicates that a condition looks at."""
    match condition:
        case AtomCondition(predicate, _, _):
            yield predicate
        case And(parts) | Or(parts):
            for part in parts:
                yield from predicates(part)
        case Exists(_, body) | Forall(_, body):
            yield from predicates(body)


def _effects(form: Any, condition: Condition, variables: Variables) -> list[Effect]:
    where = "a PDDL effect"
    if form == []:
        return []
    head, rest = _parts(form, where)
    match head:
        case "and":
            return [effect for part in rest for effect in _effects(part, condition, variables)]
        case "when":
            own = _condition(rest[0])
            return _effects(rest[1], own if condition == TRUE else And((condition, own)), variables)
        case "forall":
            return _effects(rest[1], condition, variables + _variables(rest[0]))
        case "increase":
            return []  # costs do not change the state
        case "not":
            predicate, *arguments = _words(rest[0], where)
            return [Effect(AtomCondition(predicate, tuple(arguments), False), condition, variables)]
    predicate, *arguments = _words(form, where)
    return [Effect(AtomCondition(predicate, tuple(arguments)), condition, variables)]


def _check(
    condition: Condition,
    arities: Mapping[str, int],
    variables: Set[str],
    where: str,
    objects: Set[str] | None = None,
) -> None:
    """Refuse predicates, variables and objects that nothing declares.

    Without ``objects`` any will do: the published domains name objects that their problems declare.
    """
    match condition:
        case AtomCondition(predicate, arguments, _):
            if arities.get(predicate) != len(arguments):
                raise UsageError(f"unknown predicate in {where}: {predicate} of {len(arguments)} arguments")
            for argument in arguments:
                known = variables if argument[0] == "?" else objects
                if known is not None and argument not in known:
                    raise UsageError(f"unknown name in {where}: {argument}")
        case And(parts) | Or(parts):
            for part in parts:
                _check(part, arities, variables, where, objects)
        case Exists(own, body) | Forall(own, body):
            _check(body, arities, variables | dict(own).keys(), where, objects)


def _write(form: Any) -> str:
    """Write what was read."""
    return form if isinstance(form, str) else f"({' '.join(map(_write, form))})"


def _show(form: Any) -> str:
    """Write what was read, cut to a readable length."""
    text = form if isinstance(form, str) else "(" + " ".join(map(_show, form)) + ")" if form else "()"
    return text if len(text) <= 60 else f"{text[:60]}..."
