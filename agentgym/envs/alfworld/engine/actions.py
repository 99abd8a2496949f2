"""Compiler of a domain's actions into Python functions, once for all its games.

For each action: its `ActionCode`, functions of the action's objects. For each way that a precondition can
hold: a function that finds the objects in a state, from the *place* outwards. The place is the one atom of
the selector that holds, such as where the agent is; what needs nothing else that changes is found once for
a place and not in each state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from agentgym.envs.alfworld.engine.codegen import ROOT, Numbering, Plane, QueryMode, QueryWriter, SourceWriter
from agentgym.envs.alfworld.engine.grounding import disjuncts
from agentgym.envs.alfworld.engine.pddl import TRUE, AtomCondition, Condition, Domain, Effect, Schema
from agentgym.errors import UsageError

Masks: TypeAlias = Sequence[tuple[int, int]]
"""Alternatives of (bits that must be set, bits that must not)."""


class ConditionalEffect(NamedTuple):
    """An effect on one atom that depends on the state."""

    bit: int
    positive: bool
    tests: Masks


@dataclass(frozen=True, slots=True)
class ActionCode:
    """The generated functions of one action; each takes the game's tables and the action's objects."""

    tests: Callable[..., Masks]
    """The ways in which its precondition can hold."""
    effects: Callable[..., tuple[int, int, list[ConditionalEffect]]]
    """Bits added, bits deleted, and what depends on the state."""
    is_news: Callable[..., bool]
    """Whether it surely adds what its precondition does not grant; takes the objects only."""


@dataclass(frozen=True, slots=True)
class ActionFinder:
    """Finder of the ways to do an action in one disjunct of its precondition."""

    schema: str
    kinds: tuple[str, ...]
    """Types that the place's objects must have."""
    find: Callable[..., None]
    """``(tables, state, found, *place)``: add the objects of each to ``found``."""
    is_news: Callable[..., bool]
    """Function ``is_news`` of its `ActionCode`."""


@dataclass(frozen=True, slots=True)
class ActionsCode:
    """The generated functions of a domain's actions."""

    actions: Mapping[str, ActionCode]
    fixed: tuple[ActionFinder, ...]
    """Finders that depend on nothing but the place."""
    varying: tuple[ActionFinder, ...]
    """Finders that depend on the state."""
    kinds: frozenset[tuple[str, ...]]
    """Types that finders require of the place's objects."""
    looked: Callable[..., int]
    """``(tables, state, *place)``: the bits on which the latter depends."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One disjunct of an action's precondition."""

    name: str
    schema: Schema
    kinds: dict[str, str]
    literals: tuple[AtomCondition, ...]
    place: AtomCondition | None
    """The selector's atom that it needs."""

    @property
    def rest(self) -> list[AtomCondition]:
        """The literals besides the place."""
        return [x for x in self.literals if x is not self.place]


def write_actions(
    domain: Domain, selector: str, indexes: Numbering
) -> tuple[str, Callable[[Any], ActionsCode]]:
    """Write the functions of a domain's actions; return the source, and their getter from its namespace.

    ``selector``: a predicate exactly one of whose atoms holds in any state, or nothing.
    """
    writer = _ActionWriter(domain, selector, indexes)
    rules = [rule for schema in domain.schemas for rule in writer.rules(schema)]
    fixed = [rule for rule in rules if not any(writer.changes(x) for x in rule.rest)]
    varying = [rule for rule in rules if rule not in fixed]
    for rule in rules:
        writer.write_rule(rule)
    writer.write_looked(varying)
    for schema in domain.schemas:
        writer.write_tests(schema, [rule for rule in rules if rule.schema is schema])
        writer.write_effects(schema)
        writer.write_news(schema, [rule for rule in rules if rule.schema is schema])

    def collect(namespace: Mapping[str, Any]) -> ActionsCode:
        actions = {
            schema.name: ActionCode(
                namespace[f"tests_{k}"], namespace[f"effects_{k}"], namespace[f"news_{k}"]
            )
            for k, schema in enumerate(domain.schemas)
        }
        finders = [
            tuple(
                ActionFinder(name, writer.place_kinds(rule), namespace[rule.name], actions[name].is_news)
                for rule in some
                for name in (rule.schema.name,)
            )
            for some in (fixed, varying)
        ]
        kinds = frozenset(finder.kinds for some in finders for finder in some)
        return ActionsCode(actions, finders[0], finders[1], kinds, namespace["looked_at"])

    return writer.source.text(), collect


class _ActionWriter:
    """Source of the functions of a domain's actions."""

    def __init__(self, domain: Domain, selector: str, indexes: Numbering):
        self.domain, self.selector, self.indexes = domain, selector, indexes
        self.source = SourceWriter()
        self.numbers = {schema.name: k for k, schema in enumerate(domain.schemas)}
        self.place = [f"place_{i}" for i in range(1, domain.arities.get(selector, 0) + 1)]
        self.changing = domain.fluents

    def changes(self, literal: AtomCondition) -> bool:
        return literal.predicate in self.changing

    def planes(self, predicate: str) -> tuple[str, Plane]:
        return predicate, "truth" if predicate in self.changing else "static"

    def rules(self, schema: Schema) -> Iterator[_Rule]:
        for k, (extra, literals) in enumerate(disjuncts(schema.precondition, None)):
            if any(x.predicate == "=" and x.positive for x in literals):
                raise UsageError(f"unknown construct in PDDL action {schema.name}: = in a precondition")
            place = next((x for x in literals if x.positive and x.predicate == self.selector), None)
            kinds = {**dict(schema.parameters), **extra}
            yield _Rule(f"find_{self.numbers[schema.name]}_{k}", schema, kinds, literals, place)

    def query(self, kinds: Mapping[str, str], mode: QueryMode) -> QueryWriter:
        query = QueryWriter(self.source, self.indexes, kinds, mode, self.planes, self.selector)
        query.used.update(self.place)
        return query

    def place_kinds(self, rule: _Rule) -> tuple[str, ...]:
        """Return the types of the objects that the place stands for in a rule."""
        arguments = rule.place.arguments if rule.place else ()
        return tuple(rule.kinds[x] if x[0] == "?" else ROOT for x in arguments)

    def stand(self, query: QueryWriter, rule: _Rule, *, checked: bool = False) -> None:
        """Bind a rule's conditions on the place; ``checked``: its objects have their types."""
        for argument, name in zip(rule.place.arguments if rule.place else (), self.place, strict=False):
            if query.known(argument):
                self.source.line(f"if {name} == {query.value(argument)}:", deeper=True)
                continue
            query.bound[argument] = name
            if query.kinds[argument] != ROOT and not checked:
                self.source.line(f"if {name} in t.sets.get({query.kinds[argument]!r}, ()):", deeper=True)

    def head(self, name: str, arguments: Sequence[str], about: str) -> None:
        self.source.depth = 0
        self.source.line("")
        self.source.line(f"def {name}({', '.join(arguments)}):  # {about}", deeper=True)

    def write_rule(self, rule: _Rule) -> None:
        """Write the search for the objects of an action that applies in a state."""
        self.head(rule.name, ["t", "state", "found", *self.place], rule.schema.name)
        query = self.query(rule.kinds, QueryMode.STATE)
        self.stand(query, rule, checked=True)
        # outwards from the place: of literals that leave as much open, those that contain it come first
        query.conjunction(sorted(rule.rest, key=lambda x: not any(map(query.known, x.arguments))))
        for variable in rule.kinds:
            if not query.known(variable):
                query.every(variable)
        objects = "".join(query.value(name) + ", " for name, _ in rule.schema.parameters)
        self.source.line(f"found.append(({objects}))")

    def write_looked(self, rules: Sequence[_Rule]) -> None:
        self.head("looked_at", ["t", "state", *self.place], "what decides what can be done")
        self.source.line("looked = 0")
        for rule in rules:
            query = self.query(rule.kinds, QueryMode.LOOKED)
            self.stand(query, rule)
            rest = rule.rest
            query.looked_at(sorted(rest, key=self.changes))
            self.source.depth = 1
        self.source.line("return looked")

    def write_tests(self, schema: Schema, rules: Sequence[_Rule]) -> None:
        self.head(f"tests_{self.numbers[schema.name]}", ["t", *self.parameters(schema)], schema.name)
        self.source.line("found = []")
        for rule in rules:
            query = self.with_parameters(schema, rule.kinds, QueryMode.MASKS)
            query.masks(rule.literals)
        self.source.line("return found")

    def write_effects(self, schema: Schema) -> None:
        self.head(f"effects_{self.numbers[schema.name]}", ["t", *self.parameters(schema)], schema.name)
        self.source.line("adds = deletes = 0")
        self.source.line("maybe = []")
        for effect in schema.effects:
            query = self.with_parameters(
                schema, {**dict(schema.parameters), **dict(effect.variables)}, QueryMode.MASKS
            )
            for variable, _ in effect.variables:
                query.bound.pop(variable, None)
                query.every(variable)
            self.write_effect(query, effect)
            self.source.depth = 1
        self.source.line("return adds, deletes, maybe")

    def write_effect(self, query: QueryWriter, effect: Effect) -> None:
        bit = f"t.truth.get({query.atom(effect.literal.predicate, effect.literal.arguments)}, 0)"
        total = "adds" if effect.literal.positive else "deletes"
        if effect.condition == TRUE:
            self.source.line(f"{total} |= {bit}")
            return
        self.source.line(f"bit = {bit}")
        self.source.line("if bit:", deeper=True)
        self.source.line("found = []")
        self.write_condition(query, effect.condition)
        self.source.line("if (0, 0) in found:", deeper=True)
        self.source.line(f"{total} |= bit")
        self.source.depth -= 1
        self.source.line("elif found:", deeper=True)
        self.source.line(
            f"maybe.append(ConditionalEffect(bit, {effect.literal.positive}, tuple(dict.fromkeys(found))))"
        )

    def write_condition(self, query: QueryWriter, condition: Condition) -> None:
        """Write the code that adds the bits of every way to satisfy a condition to ``found``."""
        for extra, literals in disjuncts(condition, None, depth="_"):
            inner = self.query({**query.kinds, **extra}, QueryMode.MASKS)
            inner.bound, inner.used = dict(query.bound), set(query.used)
            inner.masks(literals)

    def parameters(self, schema: Schema) -> list[str]:
        return [f"x{i}" for i in range(len(schema.parameters))]

    def with_parameters(self, schema: Schema, kinds: Mapping[str, str], mode: QueryMode) -> QueryWriter:
        query = self.query(kinds, mode)
        query.bound = dict(zip((name for name, _ in schema.parameters), self.parameters(schema), strict=True))
        query.used.update(query.bound.values())
        return query

    def write_news(self, schema: Schema, rules: Sequence[_Rule]) -> None:
        """Write the test that an effect's added atom differs from all required ones."""
        self.head(f"news_{self.numbers[schema.name]}", self.parameters(schema), schema.name)
        query = self.with_parameters(schema, dict(schema.parameters), QueryMode.STATE)
        needed = dict.fromkeys(x for rule in rules for x in rule.literals if x.positive)
        ways = []
        for effect in schema.effects:
            if effect.literal.positive and effect.condition == TRUE and not effect.variables:
                same = [x for x in needed if x.predicate == effect.literal.predicate]
                ways.append(" and ".join(self.differs(query, effect.literal, x) for x in same) or "True")
        self.source.line(f"return {' or '.join(ways) or False}")

    def differs(self, query: QueryWriter, added: AtomCondition, required: AtomCondition) -> str:
        if not all(map(query.known, required.arguments)):
            return "False"
        pairs = zip(added.arguments, required.arguments, strict=True)
        unequal = [f"{query.value(one)} != {query.value(other)}" for one, other in pairs if one != other]
        return f"({' or '.join(unequal) or False})"
