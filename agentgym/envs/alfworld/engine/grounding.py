"""Ground a problem: the atoms that can change, and every operator over them.

Follows what Fast Downward's translator does, because the real engine plays its output:

* an atom is fluent when some action's effect has its predicate and it is reachable ignoring deletes;
* a delete effect on any other atom is dropped;
* an effect that the precondition already grants is dropped, and an operator left without effects
  disappears;
* of several ways to satisfy one action's precondition, any will do.

Reachability is semi-naive: each newly reached atom is joined once with the rest of every
precondition that mentions its predicate. The joins of a domain are compiled to nested loops, once
per domain: interpreting them took five times as long.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from types import MappingProxyType
from typing import Any, Self, TypeAlias

from agentgym.envs.alfworld.engine.codegen import compile_source
from agentgym.envs.alfworld.engine.pddl import (
    And,
    AtomCondition,
    Condition,
    Domain,
    Effect,
    Exists,
    Fact,
    Forall,
    Or,
    PddlProblem,
    Schema,
    parse_problem,
)
from agentgym.errors import UsageError

NO_NAMES: Mapping[str, str] = MappingProxyType({})

Atoms: TypeAlias = tuple[Fact, ...]
Test: TypeAlias = tuple[Atoms, Atoms]
"""Atoms of changing predicates that must hold, and that must not."""


Key: TypeAlias = tuple[str, tuple[str, ...]]
"""An action and its objects."""


@dataclass(frozen=True, slots=True)
class Grounding:
    """Reachable atoms and actions of one problem."""

    fluents: Atoms
    """Reachable atoms of changing predicates, sorted."""
    static: frozenset[Fact]
    """Atoms that hold throughout."""
    operators: dict[Key, list[Test]]
    """The ways each action's precondition can hold."""


class Objects:
    """The objects of each type; an undeclared type has none, and ``object`` has all."""

    @classmethod
    def of(cls, domain: Domain, problem: PddlProblem) -> Self:
        """Return a domain's constants and a problem's objects."""
        return cls(dict((*domain.constants, *problem.objects)))

    def __init__(self, types: Mapping[str, str]):
        """Sort objects by type, given the type of each."""
        self.type_of = types
        members: dict[str, list[str]] = defaultdict(list)
        for name, kind in self.type_of.items():
            for known in dict.fromkeys((kind, "object")):
                members[known].append(name)
        self.members = {kind: tuple(names) for kind, names in members.items()}
        self.sets = {kind: frozenset(names) for kind, names in members.items()}


def disjuncts(
    condition: Condition, objects: Objects | None, renaming: Mapping[str, str] = NO_NAMES, depth: str = ""
) -> Iterator[tuple[dict[str, str], tuple[AtomCondition, ...]]]:
    """Yield the disjunctive normal form as (existential variables with types, literals).

    ``objects``: those that universal quantifiers are expanded over; None where they may not occur. ``depth``
    makes the names of existential variables unique.
    """
    match condition:
        case AtomCondition(predicate, arguments, positive):
            yield {}, (AtomCondition(predicate, tuple(renaming.get(a, a) for a in arguments), positive),)
        case Or(parts):
            for i, part in enumerate(parts):
                yield from disjuncts(part, objects, renaming, f"{depth}_{i}")
        case And(parts):
            pools = [list(disjuncts(p, objects, renaming, f"{depth}_{i}")) for i, p in enumerate(parts)]
            for choice in product(*pools):
                variables: dict[str, str] = {}
                for chosen, _ in choice:
                    variables |= chosen
                yield variables, tuple(literal for _, literals in choice for literal in literals)
        case Exists(variables_, body):
            fresh = {name: f"{name}{depth}" for name, _ in variables_}
            own = {fresh[name]: kind for name, kind in variables_}
            for variables, literals in disjuncts(body, objects, {**renaming, **fresh}, f"{depth}_"):
                yield own | variables, literals
        case Forall(variables_, body):
            if objects is None:
                raise UsageError("unknown construct in a PDDL action: forall in a precondition")
            keys = [name for name, _ in variables_]
            pools_ = [objects.members.get(kind, ()) for _, kind in variables_]
            everyone = [
                disjuncts(body, objects, {**renaming, **dict(zip(keys, values, strict=True))}, f"{depth}_{i}")
                for i, values in enumerate(product(*pools_))
            ]
            for choice in product(*(list(one) for one in everyone)):
                variables = {}
                for chosen, _ in choice:
                    variables |= chosen
                yield variables, tuple(literal for _, literals in choice for literal in literals)


@dataclass(frozen=True, slots=True, eq=False)
class GroundProblem:
    """A problem grounded in a domain: all parts of a game, with nothing left to derive."""

    objects: Objects
    static: frozenset[Fact]
    """Atoms that hold throughout."""
    fluents: Atoms
    """Atoms that can change, sorted."""
    start: Atoms
    """Fluent atoms that hold at first."""
    goal: Condition

    def mentioned(self) -> set[str]:
        """Return the objects that first facts are about."""
        return {name for facts in (self.static, self.start) for fact in facts for name in fact[1:]}

    def problem(self) -> PddlProblem:
        """Return the problem."""
        return PddlProblem(tuple(self.objects.type_of.items()), self.static.union(self.start), self.goal)


def ground_problem(domain: Domain, problem_text: str) -> GroundProblem:
    """Parse a problem and ground it."""
    problem = parse_problem(problem_text, domain)
    objects = Objects.of(domain, problem)
    found = ground(domain, problem, objects, operators_wanted=False)
    start = tuple(fact for fact in problem.init if fact not in found.static)
    return GroundProblem(objects, found.static, found.fluents, start, problem.goal)


class Relations:
    """Ground atoms by predicate, indexed by whichever arguments a join has bound."""

    def __init__(self, facts: Iterable[Fact]):
        """Hold ``facts``."""
        self.all: dict[Fact, Fact] = {}
        """Every atom and itself: what keeps atoms keeps these, and no copies."""
        self.forbidden: dict[Fact, Fact] = {}
        """Atoms that operators forbid, likewise."""
        self._facts: dict[str, list[Fact]] = defaultdict(list)
        self._indexes: dict[str, dict[tuple[int, ...], dict[Any, list[Fact]]]] = defaultdict(dict)
        for fact in facts:
            self.add(fact)

    def add(self, fact: Fact) -> None:
        """Add one atom to every index of its predicate."""
        self.all[fact] = fact
        self._facts[fact[0]].append(fact)
        for positions, index in self._indexes[fact[0]].items():
            index[_key(fact, positions)].append(fact)

    def index(self, predicate: str, positions: tuple[int, ...]) -> dict[Any, list[Fact]]:
        """Return the live index of a predicate by the arguments at ``positions`` (from 1)."""
        known = self._indexes[predicate]
        if positions not in known:
            known[positions] = defaultdict(list)
            for fact in self._facts[predicate]:
                known[positions][_key(fact, positions)].append(fact)
        return known[positions]


def _key(fact: Fact, positions: tuple[int, ...]) -> Any:
    return fact[positions[0]] if len(positions) == 1 else tuple([fact[p] for p in positions])


@dataclass(frozen=True, slots=True)
class _Rule:
    """One disjunct of an action's precondition."""

    schema: Schema
    variables: dict[str, str]
    static: tuple[AtomCondition, ...]
    fluent: tuple[AtomCondition, ...]
    negative: tuple[AtomCondition, ...]


Join: TypeAlias = Callable[[Fact | None], None]
Binder: TypeAlias = Callable[["Relations", "Objects", "dict[Key, list[Test]]", "list[Fact]"], Join]
"""Function that makes the join of one problem; the join adds to its operators and to the atoms reached."""


@dataclass(frozen=True, slots=True)
class _Joins:
    """The compiled joins of a domain."""

    changing: frozenset[str]
    start: tuple[Binder, ...]
    """Joins for preconditions without fluent atoms."""
    triggers: dict[str, tuple[Binder, ...]]
    """Joins that a new atom may complete, by its predicate."""


def ground(
    domain: Domain, problem: PddlProblem, objects: Objects, *, operators_wanted: bool = True
) -> Grounding:
    """Ground ``problem``; without operators where only its atoms are wanted, which is much sooner done."""
    joins = _compile_joins(domain, operators_wanted)
    static = [fact for fact in problem.init if fact[0] not in joins.changing]
    relations = Relations(static)
    reached: list[Fact] = sorted(fact for fact in problem.init if fact[0] in joins.changing)
    operators: dict[Key, list[Test]] = {}
    triggers = {
        name: [bind(relations, objects, operators, reached) for bind in binders]
        for name, binders in joins.triggers.items()
    }
    for bind in joins.start:
        bind(relations, objects, operators, reached)(None)
    for fact in reached:  # grows while it is walked
        if fact not in relations.all:
            relations.add(fact)
            for join in triggers.get(fact[0], ()):
                join(fact)
    return Grounding(tuple(sorted(set(reached))), frozenset(static), operators)


@lru_cache(maxsize=64)
def _compile_joins(domain: Domain, operators: bool) -> _Joins:
    changing = domain.fluents
    start: list[Binder] = []
    triggers: dict[str, list[Binder]] = defaultdict(list)
    for schema in domain.schemas:
        for extra, literals in disjuncts(schema.precondition, None):
            rule = _rule(schema, extra, literals, changing)
            if not rule.fluent:
                start.append(_compile_join(rule, -1, changing, operators))
            for k, literal in enumerate(rule.fluent):
                triggers[literal.predicate].append(_compile_join(rule, k, changing, operators))
    return _Joins(changing, tuple(start), {name: tuple(joins) for name, joins in triggers.items()})


def _rule(
    schema: Schema, extra: dict[str, str], literals: Sequence[AtomCondition], changing: frozenset[str]
) -> _Rule:
    positive = [x for x in literals if x.positive]
    if any(x.predicate == "=" for x in positive):
        raise UsageError(f"unknown construct in PDDL action {schema.name}: = in a precondition")
    return _Rule(
        schema,
        dict(schema.parameters) | extra,
        tuple(x for x in positive if x.predicate not in changing),
        tuple(x for x in positive if x.predicate in changing),
        tuple(x for x in literals if not x.positive),
    )


def _compile_join(rule: _Rule, trigger: int, changing: frozenset[str], operators: bool) -> Binder:
    """Write the nested loops that complete a precondition from one new atom, and compile them."""
    names = {variable: f"v{i}" for i, variable in enumerate(rule.variables)}
    code = _JoinWriter(rule, names)
    if trigger >= 0:
        code.match("fact", rule.fluent[trigger])
        if not operators:
            code.skip_repeated(rule.fluent[trigger])
    rest = [*rule.static, *(x for i, x in enumerate(rule.fluent) if i != trigger)]
    while rest:
        best = max(rest, key=lambda x: sum(code.known(a) for a in x.arguments) - len(x.arguments))
        if not operators:
            code.skip_known()
        rest.remove(best)
        code.loop(best)
    for variable, kind in rule.variables.items():
        if not code.known(variable):
            code.line(f"for {names[variable]} in objects.members.get({kind!r}, ()):", deeper=True)
            code.bound.add(variable)
    for literal in rule.negative:
        code.refuse(literal, changing)
    if operators:
        code.emit(changing)
    for effect in rule.schema.effects:
        if effect.literal.positive:
            code.reach(effect)
    binder: Binder = compile_source(code.source(), {})["bind"]
    return binder


class _JoinWriter:
    """Python source of one join: a function that binds it to a problem and returns what takes new atoms."""

    top = 2
    """Depth at which the body begins."""

    def __init__(self, rule: _Rule, names: dict[str, str]):
        self.rule, self.names = rule, names
        self.setup = ["    has = relations.all", "    forbidden = relations.forbidden"]
        self.body: list[str] = []
        self.found: dict[AtomCondition, str] = {}
        self.bound: set[str] = set()
        self.checks_known = False
        self.depth = self.top

    def source(self) -> str:
        head, join, end = (
            "def bind(relations, objects, operators, reached):",
            "    def join(fact):",
            "    return join",
        )
        return "\n".join([head, *self.setup, join, *self.body, end])

    @property
    def skip(self) -> str:
        """The statement that skips an atom that does not fit."""
        return "return" if self.depth == self.top else "continue"

    def known(self, argument: str) -> bool:
        return argument[0] != "?" or argument in self.bound

    def value(self, argument: str) -> str:
        return self.names[argument] if argument[0] == "?" else repr(argument)

    def atom(self, literal: AtomCondition) -> str:
        return f"({', '.join([repr(literal.predicate), *map(self.value, literal.arguments)])},)"

    def line(self, text: str, *, deeper: bool = False) -> None:
        self.body.append("    " * self.depth + text)
        self.depth += deeper

    def match(self, fact: str, literal: AtomCondition) -> None:
        """Bind the arguments of ``literal`` from an atom, skipping it where they do not fit."""
        skip = self.skip
        self.found[literal] = fact
        for position, argument in enumerate(literal.arguments, 1):
            if self.known(argument):
                self.line(f"if {fact}[{position}] != {self.value(argument)}: {skip}")
            else:
                self.line(f"{self.names[argument]} = {fact}[{position}]")
                self.bound.add(argument)
                kind = self.rule.variables[argument]
                if kind != "object":  # the root type has every object
                    self.check_type(argument, kind, skip)

    def check_type(self, argument: str, kind: str, skip: str) -> None:
        name = f"is_{len(self.setup)}"
        self.setup.append(f"    {name} = objects.sets.get({kind!r}, frozenset())")
        self.line(f"if {self.names[argument]} not in {name}: {skip}")

    def loop(self, literal: AtomCondition) -> None:
        """Go through the atoms that fit what is bound."""
        where = tuple(i for i, a in enumerate(literal.arguments, 1) if self.known(a))
        if len(where) == len(literal.arguments):
            fact = self.found[literal] = f"g{len(self.found)}"
            self.line(f"{fact} = has.get({self.atom(literal)})")
            self.line(f"if {fact} is None: {self.skip}")
            return
        name = f"by_{len(self.setup)}"
        self.setup.append(f"    {name} = relations.index({literal.predicate!r}, {where!r})")
        keys = [self.value(literal.arguments[i - 1]) for i in where]
        key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})" if keys else "()"
        fact = self.found[literal] = f"f{self.depth}"
        self.line(f"for {fact} in {name}.get({key}, ()):", deeper=True)
        unmatched = [i for i in range(1, len(literal.arguments) + 1) if i not in where]
        for position in unmatched:
            argument = literal.arguments[position - 1]
            if argument in self.bound:  # the same variable twice in one atom
                self.line(f"if {fact}[{position}] != {self.value(argument)}: continue")
                continue
            self.line(f"{self.names[argument]} = {fact}[{position}]")
            self.bound.add(argument)
            if self.rule.variables[argument] != "object":
                self.check_type(argument, self.rule.variables[argument], "continue")

    def refuse(self, literal: AtomCondition, changing: frozenset[str]) -> None:
        """Skip a binding that a negated static literal or an inequality forbids."""
        skip = self.skip
        if literal.predicate == "=":
            first, second = map(self.value, literal.arguments)
            self.line(f"if {first} == {second}: {skip}")
        elif literal.predicate not in changing:
            self.line(f"if {self.atom(literal)} in has: {skip}")

    def emit(self, changing: frozenset[str]) -> None:
        """Record the operator, and what it adds when it is new."""
        schema = self.rule.schema
        needs = "".join(self.found[x] + ", " for x in self.rule.fluent)
        negative = (self.atom(x) for x in self.rule.negative if x.predicate in changing)
        forbids = "".join(f"forbidden.setdefault({atom}, {atom}), " for atom in negative)
        objects = "".join(self.names[name] + ", " for name, _ in schema.parameters)
        self.line(f"key = ({schema.name!r}, ({objects}))")
        self.line(f"test = (({needs}), ({forbids}))")
        self.line("if key in operators: operators[key].append(test)")
        self.line("else:", deeper=True)
        self.line("operators[key] = [test]")

    def skip_repeated(self, trigger: AtomCondition) -> None:
        """Skip an atom that differs from an earlier one only in what matters to nothing else."""
        others = [x for x in (*self.rule.static, *self.rule.fluent, *self.rule.negative) if x is not trigger]
        others += [effect.literal for effect in self.rule.schema.effects if effect.literal.positive]
        needed = {argument for literal in others for argument in literal.arguments}
        matter = [a for a in dict.fromkeys(trigger.arguments) if a[0] == "?" and a in needed]
        if len(matter) < len(set(trigger.arguments)):
            self.setup.append("    repeated = set()")
            key = f"({''.join(self.names[a] + ', ' for a in matter)})"
            self.line(f"if {key} in repeated: {self.skip}")
            self.line(f"repeated.add({key})")

    def skip_known(self) -> None:
        """Skip what could only add atoms that are known, once all objects of these atoms are bound."""
        effects = [effect for effect in self.rule.schema.effects if effect.literal.positive]
        arguments = {a for effect in effects for a in effect.literal.arguments}
        if self.checks_known or any(e.variables for e in effects) or not all(map(self.known, arguments)):
            return
        self.checks_known = True
        known = " and ".join(f"{self.atom(effect.literal)} in has" for effect in effects)
        self.line(f"if {known or True}: {self.skip}")

    def reach(self, effect: Effect) -> None:
        """Record what one effect adds, whatever its condition."""
        names, depth = self.names, self.depth
        own = {name: f"w{i}" for i, (name, _) in enumerate(effect.variables)}
        self.names = {**names, **own}
        for name, kind in effect.variables:
            self.line(f"for {own[name]} in objects.members.get({kind!r}, ()):", deeper=True)
        self.line(f"atom = {self.atom(effect.literal)}")
        self.line("if atom not in has: reached.append(atom)")
        self.names, self.depth = names, depth
