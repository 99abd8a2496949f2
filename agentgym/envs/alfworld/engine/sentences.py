"""Write a grammar's texts as Python functions, once for all games that speak by it.

A rule becomes a function of the state and of the objects that its variables stand for; a query in a text
becomes loops over a game's tables. Beside it stands the function of the bits that the text looks at, by
which a `Sentence` remembers what it said.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Literal, NoReturn, TypeAlias

from agentgym.envs.alfworld.engine.codegen import ROOT, Numbering, Plane, QueryMode, QueryWriter, SourceWriter
from agentgym.envs.alfworld.engine.grammar import (
    LIST_RULES,
    Atom,
    Grammar,
    Listing,
    Part,
    RuleReference,
    TextPart,
    Value,
    parse_query,
    parse_text,
)
from agentgym.envs.alfworld.engine.pddl import AtomCondition, Domain
from agentgym.envs.alfworld.engine.tables import AtomTables
from agentgym.errors import UsageError

Scope: TypeAlias = tuple[str, ...]
"""Variables that stand for objects, in the order in which they were bound: ``?name:type``."""

Verb: TypeAlias = Literal["say", "look"]
"""Purpose of a function: write a text, or return the bits that it looks at."""

TASK = "task"
"""The rule that says what to do; a game may have its own sentence for it."""

INTRO = "intro"
"""The rule of the first observation."""

NEGATED = "not_"
"""Prefix of a predicate's recorded negation."""

Column: TypeAlias = tuple[str, int]
"""A predicate, and which of its arguments, from 1."""

Unsure: TypeAlias = tuple[str, tuple[Column, ...]]
"""The type of a variable that a text does not name, and where queries look for objects other than its."""

MEMO_LIMIT = 512
"""Entries kept in a memory of what was said before; then it starts afresh."""


@dataclass(frozen=True, slots=True)
class TextCode:
    """The generated functions of one text."""

    say: Callable[..., str]
    """``(tables, state, *objects)``: write it."""
    look: Callable[..., int] | None
    """``(tables, state, *objects)``: the bits it looks at; None where it looks at none."""
    chosen: tuple[int, ...]
    """Positions of the action's objects that the text depends on."""
    unsure: Mapping[int, Unsure]
    """Positions, among `chosen`, that matter only in games where such an object can be found."""

    def key(self, tables: AtomTables | None = None) -> Callable[[tuple[str, ...]], Any]:
        """Return what takes of an action's objects those that it depends on, in a game."""
        places = [k for k in self.chosen if k not in self.unsure or tables is None or self._meets(k, tables)]
        return itemgetter(*places) if places else lambda objects: ()

    def _meets(self, place: int, tables: AtomTables) -> bool:
        kind, columns = self.unsure[place]
        return any(not tables.sets.get(kind, _NONE).isdisjoint(tables.column(*one)) for one in columns)


class Sentence:
    """A text about certain objects of one game, with a cache of its results.

    What it looks at depends on the place. Its memory goes by all bits looked at in any place so far: two
    states that are equal in these, the place among them, are described alike.
    """

    __slots__ = ("_code", "_looked", "_objects", "_seen", "_selector", "_tables", "_texts")

    def __init__(self, code: TextCode, tables: AtomTables, objects: tuple[str, ...], selector: int):
        """Hold the text's objects; ``selector``: the bits of the place it is said in."""
        self._code, self._tables, self._objects, self._selector = code, tables, objects, selector
        self._looked = 0 if code.look is None else selector
        self._seen: int | None = None
        """Bits of the places whose bits are looked at."""
        self._texts: dict[int, str] = {}

    def write(self, state: int) -> str:
        """Write the text in a state."""
        return self._texts.get(state & self._looked) or self._write(state)

    def _write(self, state: int) -> str:
        look = self._code.look
        at, seen = state & self._selector, self._seen
        if look is not None and (seen is None or at & ~seen):
            self._seen = at | (seen or 0)
            self._looked |= look(self._tables, state, *self._objects)
        if len(self._texts) >= MEMO_LIMIT:
            self._texts.clear()
        text = self._texts[state & self._looked] = self._code.say(self._tables, state, *self._objects)
        return text


@dataclass(frozen=True, slots=True)
class SentencesCode:
    """The generated functions of a grammar."""

    intro: Callable[..., str]
    task: Callable[..., str]
    commands: Mapping[str, TextCode]
    """Texts of commands by action; they look at no bits."""
    feedbacks: Mapping[str, TextCode]
    """Texts of feedback by action."""
    read: frozenset[str]
    """Predicates of which texts read whether atoms are true, or were recorded as negated."""


def write_sentences(
    grammar: Grammar, domain: Domain, selector: str, indexes: Numbering, *, own_task: bool
) -> tuple[str, Callable[[Mapping[str, Any]], SentencesCode]]:
    """Write the functions of a checked grammar; return the source, and their getter from its namespace.

    ``selector``: a predicate exactly one of whose atoms holds in any state, or nothing; ``own_task``: whether
    each game has its own sentence for the task.
    """
    writer = _TextWriter(grammar, domain, selector, indexes, own_task)
    writer.write_text(INTRO, f"#{INTRO}#", ())
    writer.write_text(TASK, f"#{TASK}#", ())
    parts: dict[str, list[tuple[bool, tuple[int, ...], dict[int, Unsure]]]] = defaultdict(list)
    for k, schema in enumerate(domain.schemas):
        scope = tuple(f"?{name.lstrip('?')}:{kind}" for name, kind in schema.parameters)
        words = grammar.actions[schema.name]
        for kind, text in (("command", words.template), ("feedback", words.feedback)):
            needed, unsure = writer.needed(text, scope)
            writer.write_text(f"{kind}_{k}", text, needed)
            looks = writer.write_look(f"{kind}_look_{k}", text, needed)
            parts[schema.name].append((looks, tuple(map(scope.index, needed)), unsure))

    def collect(names: Mapping[str, Any]) -> SentencesCode:
        found: dict[str, dict[str, TextCode]] = {"command": {}, "feedback": {}}
        for k, schema in enumerate(domain.schemas):
            for kind, (looks, chosen, unsure) in zip(found, parts[schema.name], strict=True):
                look = names[f"{kind}_look_{k}"] if looks else None
                found[kind][schema.name] = TextCode(names[f"{kind}_{k}"], look, chosen, unsure)
        read = frozenset(writer.read)
        return SentencesCode(names[INTRO], names[TASK], found["command"], found["feedback"], read)

    return writer.source.text(), collect


_NONE: frozenset[str] = frozenset()


def no_production(rule: str) -> NoReturn:
    """Refuse to write a rule none of whose conditions holds."""
    raise UsageError(f"no production of the grammar's rule {rule!r} applies")


@dataclass(slots=True)
class _Mentions:
    """Objects and atoms that a text and its rules depend on."""

    names: set[str] = field(default_factory=set)
    variables: dict[str, set[Column]] = field(default_factory=lambda: defaultdict(set))
    """Variables of queries, ``?name:type`` -> columns in which they stand."""


class _TextWriter:
    """Source of the functions of a grammar."""

    def __init__(self, grammar: Grammar, domain: Domain, selector: str, indexes: Numbering, own_task: bool):
        self.grammar, self.domain, self.selector, self.indexes = grammar, domain, selector, indexes
        self.own_task = own_task
        self.source = SourceWriter()
        self.functions: dict[tuple[Verb, str | Listing, Scope], str | None] = {}
        """(what it does, rule or listing, variables) -> the function's name; None where it does nothing."""
        self.doubtful = {e.literal.predicate for s in domain.schemas for e in s.effects}
        self.mentioned: dict[str, _Mentions] = {}
        self.read: set[str] = set()

    # ---- what texts depend on ----------------------------------------------------------------

    def needed(self, text: str, scope: Scope) -> tuple[Scope, dict[int, Unsure]]:
        """Return the variables that can change a text; those that it does not name with what they depend on.

        One does that the text names, or whose object a query could otherwise find for another variable.
        """
        found = self.mentioned.get(text)
        if found is None:
            found = self.mentioned[text] = _Mentions()
            self.mention(text, found, set())
        # no query looks for a variable that the scope binds
        free = {variable: columns for variable, columns in found.variables.items() if variable not in scope}
        needed: list[str] = []
        unsure: dict[int, Unsure] = {}
        for place, variable in enumerate(scope):
            name, kind = _split(variable)
            meets = {c for other, some in free.items() if _may_meet(kind, _split(other)[1]) for c in some}
            if name not in found.names and meets:
                unsure[place] = (kind, tuple(sorted(meets)))
            if name in found.names or meets:
                needed.append(variable)
        return tuple(needed), unsure

    def mention(self, text: str, found: _Mentions, seen: set[str]) -> None:
        for part in parse_text(text):
            inner = part.part if isinstance(part, Listing) else part
            queries = [part.query] if isinstance(part, Listing) else []
            rules = list(LIST_RULES) if isinstance(part, Listing) and part.is_list else []
            if isinstance(inner, RuleReference):
                rules.append(inner.rule)
            elif isinstance(inner, Value):
                found.names.update(node.id for node in ast.walk(inner.code) if isinstance(node, ast.Name))
            for rule in set(rules) - seen:
                seen.add(rule)
                for production in self.grammar.rules[rule]:
                    queries.append(production.condition)
                    self.mention(production.text, found, seen)
            for word, variables in (atom for query in queries if query for atom in parse_query(query)):
                found.names.update(name for name, _ in variables)
                for position, (name, kind) in enumerate(variables, 1):
                    found.variables[f"?{name}:{kind}"].add((self.planes(word)[0], position))

    # ---- what is said ------------------------------------------------------------------------

    def write_text(self, name: str, text: str, scope: Scope) -> None:
        """Write the function ``name`` of a text."""
        body = self.expression(parse_text(text), dict(zip(scope, _locals(scope), strict=True)))
        self.function(name, scope, text, [f"return {body}"])

    def function(self, name: str, scope: Scope, about: str, lines: Sequence[str]) -> None:
        head = ["t", "state", *_locals(scope)]
        self.source.depth = 0
        self.source.line("")
        self.source.line(f"def {name}({', '.join(head)}):  # {about[:70]!r}")
        self.source.lines += [f" {line}" for line in lines]

    def expression(self, parts: Sequence[Part], names: Mapping[str, str]) -> str:
        """Return the expression of a text."""
        pieces: list[str] = []
        words = ""
        for part in parts:
            if isinstance(part, TextPart):
                words += part.text
                continue
            if words:
                pieces.append(repr(words))
                words = ""
            pieces.append(self.part(part, names))
        if words or not pieces:
            pieces.append(repr(words))
        return " + ".join(pieces)

    def part(self, part: Part, names: Mapping[str, str]) -> str:
        match part:
            case TextPart(words):
                return repr(words)
            case Value(code):
                return _expression(code, names)
            case RuleReference(rule):
                return self.call("say", rule, names) or "''"
            case Listing():
                return self.call("say", part, names) or "''"

    def call(self, verb: Verb, what: str | Listing, names: Mapping[str, str]) -> str | None:
        """Return the call of a rule's or a listing's function; a new one is written.

        None where that would look at nothing.
        """
        scope = tuple(names)
        if isinstance(what, str):
            if verb == "say" and what == TASK and self.own_task:
                return "t.task"
            scope, _ = self.needed(f"#{what}#", scope)
        key = (verb, what, scope)
        if key not in self.functions:
            name = self.functions[key] = f"{verb}_rule_{len(self.functions)}"
            if verb == "look":
                lines = self.look(what, scope)
            else:
                lines = self.rule(what, scope) if isinstance(what, str) else self.listing(what, scope)
            if lines:
                self.function(name, scope, what if isinstance(what, str) else what.query, lines)
            else:
                self.functions[key] = None
        called = self.functions[key]
        if called is None:
            return None
        return f"{called}({', '.join(['t', 'state', *(names[variable] for variable in scope)])})"

    def rule(self, rule: str, scope: Scope) -> list[str]:
        """Write a rule: the first production whose condition has an answer."""
        names = dict(zip(scope, _locals(scope), strict=True))
        source = SourceWriter()
        for production in self.grammar.rules[rule]:
            source.depth = 0
            if production.condition:
                self.query(source, production.condition, names, QueryMode.STATE)
            source.line(f"return {self.expression(parse_text(production.text), names)}")
            if not production.condition:
                break
        else:
            source.depth = 0
            source.line(f"no_production({rule!r})")
        return source.lines

    def listing(self, listing: Listing, scope: Scope) -> list[str]:
        """Write a list of a text for every answer to a query."""
        names = dict(zip(scope, _locals(scope), strict=True))
        source = SourceWriter()
        source.line("found = []")
        wider = self.query(source, listing.query, names, QueryMode.STATE).bound if listing.query else names
        source.line(f"found.append({self.part(listing.part, wider)})")
        source.depth = 0
        if not listing.is_list:
            source.line("return ''.join(found)")
            return source.lines
        none, between, last = (self.call("say", name, names) for name in LIST_RULES)
        source.line(f"if not found: return {none}")
        source.line("if len(found) == 1: return found[0]")
        source.line(f"return ({between}).join(found[:-1]) + {last} + found[-1]")
        return source.lines

    def query(
        self, source: SourceWriter, query: str, names: Mapping[str, str], mode: QueryMode
    ) -> QueryWriter:
        """Write a query's loops, in the order of its atoms: lists are in the order of the answers."""
        literals, kinds = _literals(parse_query(query), names)
        self.read.update(self.planes(literal.predicate)[0] for literal in literals)
        writer = QueryWriter(source, self.indexes, kinds, mode, self.planes, self.selector)
        writer.bound, writer.distinct = dict(names), True
        writer.used.update(names.values())
        if mode is QueryMode.STATE:
            for literal in literals:
                writer.literal(literal)
        return writer

    def planes(self, predicate: str) -> tuple[str, Plane]:
        """Return what a query's predicate stands for: bits as the grammar reads them, or atoms that stay."""
        if predicate in self.doubtful:
            return predicate, "shown"
        if predicate.startswith(NEGATED) and predicate not in self.domain.arities:
            return predicate.removeprefix(NEGATED), "negated"
        return predicate, "static"

    # ---- what is looked at -------------------------------------------------------------------

    def write_look(self, name: str, text: str, scope: Scope) -> bool:
        """Write the function of the bits that a text looks at; return whether there are any."""
        names = dict(zip(scope, _locals(scope), strict=True))
        source = SourceWriter()
        self.look_at(source, parse_text(text), names)
        if source.lines:
            self.function(name, scope, text, ["looked = 0", *source.lines, "return looked"])
        return bool(source.lines)

    def look(self, what: str | Listing, scope: Scope) -> list[str]:
        names = dict(zip(scope, _locals(scope), strict=True))
        source = SourceWriter()
        if isinstance(what, Listing):
            if what.query:
                self.look_through(source, what.query, names, (what.part,))
            else:
                self.look_at(source, (what.part,), names)
            self.look_at(source, [RuleReference(rule) for rule in LIST_RULES] if what.is_list else (), names)
        else:
            for production in self.grammar.rules[what]:
                if production.condition:
                    self.look_through(source, production.condition, names, ())
                self.look_at(source, parse_text(production.text), names)
        return ["looked = 0", *source.lines, "return looked"] if source.lines else []

    def look_at(self, source: SourceWriter, parts: Sequence[Part], names: Mapping[str, str]) -> None:
        """Write the bits that parts look at."""
        for part in parts:
            if isinstance(part, RuleReference | Listing):
                if isinstance(part, RuleReference) and part.rule == TASK and self.own_task:
                    continue
                call = self.call("look", part.rule if isinstance(part, RuleReference) else part, names)
                if call:
                    source.line(f"looked |= {call}")

    def look_through(
        self, source: SourceWriter, query: str, names: Mapping[str, str], parts: Sequence[Part]
    ) -> None:
        """Write the bits that a query and the parts written for its answers look at."""
        inside = SourceWriter()
        literals, _ = _literals(parse_query(query), names)
        trial = self.query(inside, query, names, QueryMode.LOOKED)
        trial.looked_at(literals, lambda: self.look_at(inside, parts, trial.bound))
        if not any("looked |=" in line for line in inside.lines):
            return
        source.lines += [" " * source.depth + line for line in inside.lines]


def _literals(atoms: Sequence[Atom], names: Mapping[str, str]) -> tuple[list[AtomCondition], dict[str, str]]:
    """Return a query's atoms as literals, and the types of its variables and of those in scope."""
    literals = [
        AtomCondition(predicate, tuple(f"?{name}:{kind}" for name, kind in arguments))
        for predicate, arguments in atoms
    ]
    variables = {argument for literal in literals for argument in literal.arguments} | set(names)
    return literals, {variable: _split(variable)[1] for variable in variables}


def _may_meet(one: str, other: str) -> bool:
    """Return whether an object can be of both types."""
    return one == other or ROOT in (one, other)


def _split(variable: str) -> tuple[str, str]:
    name, _, kind = variable[1:].partition(":")
    return name, kind


def _locals(scope: Scope) -> list[str]:
    return [f"x{k}" for k in range(len(scope))]


def _expression(code: ast.expr, names: Mapping[str, str]) -> str:
    match code:
        case ast.Constant(value=str(text)):
            return repr(text)
        case ast.Name(id=name):
            return f"t.names[{_object(name, names)}]"
        case ast.Attribute(value=ast.Name(id=name), attr=attribute):
            value = _object(name, names)
            known = {"id": value, "indefinite": "'a'", "definite": "'the'", "type": f"t.types[{value}]"}
            return known.get(attribute, f"t.names[{value}]")
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return f"({_expression(left, names)} + {_expression(right, names)})"
        case ast.BoolOp(op=ast.Or(), values=values):
            return f"({' or '.join(_expression(value, names) for value in values)})"
    raise AssertionError(f"{ast.unparse(code)} has not been checked")


def _object(name: str, names: Mapping[str, str]) -> str:
    """Return the object of a name: of variables that differ in type, the one bound last."""
    return next(value for variable, value in reversed([*names.items()]) if _split(variable)[0] == name)
