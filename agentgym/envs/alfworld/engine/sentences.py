"""Compile a grammar's texts against one game.

Queries are the only thing in a text that looks at the state, and for one game the atoms that could
ever answer them are known. So a text is compiled once into alternatives guarded by bit masks: writing
it in a given state is a few tests, and no fact is searched for.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from sys import intern
from typing import TypeAlias

from agentgym.envs.alfworld.engine.grammar import (
    LIST_RULES,
    Call,
    Grammar,
    Listing,
    Part,
    TextPart,
    Value,
    parse_query,
    parse_text,
)
from agentgym.envs.alfworld.engine.pddl import Fact
from agentgym.envs.alfworld.engine.planes import union
from agentgym.envs.alfworld.engine.vocabulary import Vocabulary
from agentgym.errors import UsageError

Bindings: TypeAlias = Mapping[tuple[str, str], str]
"""(variable, type) -> object."""

Text: TypeAlias = "str | Joined | TextChoice | Enumeration"


@dataclass(frozen=True, slots=True)
class Joined:
    """Texts one after the other."""

    parts: tuple[Text, ...]


@dataclass(frozen=True, slots=True)
class TextChoice:
    """The first text one of whose masks is contained in the state; an empty mask always is."""

    options: tuple[tuple[tuple[int, ...], Text], ...]
    rule: str


@dataclass(frozen=True, slots=True)
class Enumeration:
    """The texts whose masks are contained in the state, in order."""

    rows: tuple[tuple[int, Text], ...]
    separators: tuple[Text, Text, Text] | None
    """For none, between, and before the last; None for plain repetition."""


def write(text: Text, state: int) -> str:
    """Write a compiled text in a state.

    Args:
        text: the compiled text.
        state: bit mask of the atoms that hold.
    """
    match text:
        case str():
            return text
        case Joined(parts):
            return "".join([write(part, state) for part in parts])
        case TextChoice(options, rule):
            for masks, option in options:
                for mask in masks:
                    if state & mask == mask:
                        return write(option, state)
            raise UsageError(f"no production of the grammar's rule {rule!r} applies")
        case Enumeration(rows, separators):
            found = [write(row, state) for mask, row in rows if state & mask == mask]
            if separators is None:
                return "".join(found)
            none, between, last = separators
            if not found:
                return write(none, state)
            if len(found) == 1:
                return found[0]
            return write(between, state).join(found[:-1]) + write(last, state) + found[-1]


def support(text: Text) -> int:
    """Return the mask of all atoms a compiled text looks at."""
    match text:
        case str():
            return 0
        case Joined(parts):
            return union(support(part) for part in parts)
        case TextChoice(options, _):
            return union(union(masks) | support(option) for masks, option in options)
        case Enumeration(rows, separators):
            own = union(mask | support(row) for mask, row in rows)
            return own | union(support(part) for part in separators or ())


MEMO_LIMIT = 512
"""Entries kept in a memory of what was computed before; then it starts afresh."""


class Sentence:
    """A compiled text that remembers what it said."""

    __slots__ = ("_looked_at", "_said", "text")

    def __init__(self, text: Text):
        """Find what the text looks at."""
        self.text = text
        self._looked_at = support(text)
        self._said: dict[int, str] = {}

    def write(self, state: int) -> str:
        """Write the text in a state."""
        seen = state & self._looked_at
        said = self._said.get(seen)
        if said is None:
            if len(self._said) >= MEMO_LIMIT:
                self._said.clear()
            said = self._said[seen] = write(self.text, state)
        return said


@dataclass(frozen=True, slots=True)
class _Scope:
    """What the objects bound to variables can change in a text."""

    names: frozenset[str]
    """Variables that the text, or a rule it leads to, mentions."""
    objects: frozenset[str]
    """Objects that could answer its queries: one that is bound is no answer for another variable."""


class TextCompiler:
    """Compiles texts against one game. Texts that cannot differ are compiled once."""

    def __init__(self, grammar: Grammar, vocabulary: Vocabulary, within: int = -1):
        """Keep the grammar and the game's vocabulary.

        Args:
            grammar: its rules.
            vocabulary: its atoms and names.
            within: bits that states may have; a text for one state alone is compiled much sooner.
        """
        self._grammar, self._vocabulary, self._never = grammar, vocabulary, ~within
        self._scopes: dict[str, _Scope] = {}
        self._called: dict[tuple[str, tuple[tuple[tuple[str, str], str], ...]], Text] = {}
        self._sentences: dict[tuple[str, tuple[tuple[tuple[str, str], str], ...]], Sentence] = {}

    def sentence(self, text: str, bindings: Bindings) -> Sentence:
        """Return the sentence of a text whose variables are bound to objects; as `compile`."""
        own = self._within_scope(text, bindings)
        key = (text, tuple(own.items()))
        sentence = self._sentences.get(key)
        if sentence is None:
            sentence = self._sentences[key] = Sentence(self.compile(text, own))
        return sentence

    def compile(self, text: str, bindings: Bindings) -> Text:
        """Compile a text whose variables are bound to objects.

        Text and rules have passed `agentgym.envs.alfworld.engine.grammar_check.check_grammar`.
        """
        return _sequence([self._part(part, bindings) for part in parse_text(text)])

    def _within_scope(self, text: str, bindings: Bindings) -> Bindings:
        """Return the bindings that can change a text."""
        if not bindings:
            return bindings
        scope = self._scopes.get(text)
        if scope is None:
            names, predicates = self._mentions(text)
            facts = (fact for name in predicates for fact, _ in self._vocabulary.candidates(name, ()))
            scope = _Scope(names, frozenset(value for fact in facts for value in fact[1:]))
            self._scopes[text] = scope
        return {
            variable: value
            for variable, value in bindings.items()
            if variable[0] in scope.names or value in scope.objects
        }

    def _mentions(self, text: str) -> tuple[frozenset[str], frozenset[str]]:
        """Return the names of variables and predicates in a text and in the rules it leads to."""
        names: set[str] = set()
        predicates: set[str] = set()
        queue, seen = [text], {text}
        while queue:
            for part in parse_text(queue.pop()):
                inner = part.part if isinstance(part, Listing) else part
                queries = [part.query] if isinstance(part, Listing) else []
                rules = list(LIST_RULES) if isinstance(part, Listing) and part.is_list else []
                if isinstance(inner, Call):
                    rules.append(inner.rule)
                elif isinstance(inner, Value):
                    names.update(node.id for node in ast.walk(inner.code) if isinstance(node, ast.Name))
                for production in (p for rule in rules for p in self._grammar.rules[rule]):
                    queries.append(production.condition)
                    if production.text not in seen:
                        seen.add(production.text)
                        queue.append(production.text)
                for predicate, variables in (atom for q in queries if q for atom in parse_query(q)):
                    predicates.add(predicate)
                    names.update(name for name, _ in variables)
        return frozenset(names), frozenset(predicates)

    def _part(self, part: Part, bindings: Bindings) -> Text:
        match part:
            case TextPart(words):
                return words
            case Value(code):
                return self._evaluate(code, bindings)
            case Call(rule):
                return self._call(rule, bindings)
            case Listing(inner, query, is_list):
                answers = self._answers(query, bindings) if query else [(0, bindings)]
                rows = tuple((mask, self._part(inner, wider)) for mask, wider in answers)
                if not is_list:
                    return Enumeration(rows, None)
                none, between, last = (self._call(name, bindings) for name in LIST_RULES)
                return Enumeration(rows, (none, between, last))

    def _call(self, rule: str, bindings: Bindings) -> Text:
        own = self._within_scope(f"#{rule}#", bindings)
        key = (rule, tuple(own.items()))
        text = self._called.get(key)
        if text is None:
            text = self._called[key] = self._choose(rule, own)
        return text

    def _choose(self, rule: str, bindings: Bindings) -> Text:
        options: list[tuple[tuple[int, ...], Text]] = []
        for production in self._grammar.rules[rule]:
            masks = self._masks(production.condition, bindings)
            if masks:
                options.append((masks, self.compile(production.text, bindings)))
            if masks == (0,):
                break
        if len(options) == 1 and options[0][0] == (0,):
            return options[0][1]
        return TextChoice(tuple(options), rule)

    def _masks(self, condition: str, bindings: Bindings) -> tuple[int, ...]:
        """Return the bits of each answer to a condition; only (0,) when it always holds."""
        if not condition:
            return (0,)
        masks = tuple(dict.fromkeys(mask for mask, _ in self._answers(condition, bindings)))
        return (0,) if 0 in masks else masks

    def _answers(self, query: str, bindings: Bindings) -> Iterator[tuple[int, Bindings]]:
        """Yield (mask, wider bindings) for every answer the query could ever have, in order.

        Different variables never stand for one object.
        """
        atoms = parse_query(query)

        def extend(k: int, mask: int, known: dict[tuple[str, str], str]) -> Iterator[tuple[int, Bindings]]:
            if k == len(atoms):
                yield mask, known
                return
            predicate, variables = atoms[k]
            bound = tuple(known.get(p) for p in variables)
            for fact, bit in self._vocabulary.candidates(predicate, bound):
                wider = None if bit & self._never else self._bind(variables, fact, known)
                if wider is not None:
                    yield from extend(k + 1, mask | bit, wider)

        yield from extend(0, 0, dict(bindings))

    def _bind(
        self, variables: tuple[tuple[str, str], ...], fact: Fact, known: dict[tuple[str, str], str]
    ) -> dict[tuple[str, str], str] | None:
        wider = dict(known)
        for variable, value in zip(variables, fact[1:], strict=True):
            existing = wider.get(variable)
            if not self._vocabulary.is_a(value, variable[1]):
                return None
            if existing is None:
                if value in wider.values():
                    return None
                wider[variable] = value
            elif existing != value:
                return None
        return wider

    def _evaluate(self, code: ast.expr, bindings: Bindings) -> str:
        match code:
            case ast.Constant(value=str(text)):
                return text
            case ast.Name(id=name):
                return self._vocabulary.attribute(_object(name, bindings), "name")
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                return self._vocabulary.attribute(_object(name, bindings), attribute)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._evaluate(left, bindings) + self._evaluate(right, bindings)
            case ast.BoolOp(op=ast.Or(), values=values):
                return next(filter(None, (self._evaluate(value, bindings) for value in values)), "")
        raise AssertionError(f"{ast.unparse(code)} has not been checked")


def _object(name: str, bindings: Bindings) -> str:
    """Return what a name stands for: of variables that differ in type, the one bound last."""
    return next(value for (variable, _), value in reversed(list(bindings.items())) if variable == name)


def _sequence(parts: list[Text]) -> Text:
    """Join what is constant."""
    if len(parts) == 1:
        return parts[0]
    merged: list[Text] = []
    for part in parts:
        for piece in part.parts if isinstance(part, Joined) else (part,):
            if isinstance(piece, str) and merged and isinstance(merged[-1], str):
                merged[-1] += piece
            else:
                merged.append(piece)
    if not merged:
        return ""
    # names come again in every game: one string does for all
    merged = [intern(piece) if isinstance(piece, str) else piece for piece in merged]
    return merged[0] if len(merged) == 1 else Joined(tuple(merged))
