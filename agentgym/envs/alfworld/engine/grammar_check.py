"""Grammar check, before a game is played.

Sentences are compiled when they are first said, so that loading a game is quick; what cannot be compiled
must be known before that.
"""

from __future__ import annotations

import ast

from agentgym.envs.alfworld.engine.grammar import (
    LIST_RULES,
    Grammar,
    Listing,
    Part,
    RuleReference,
    Value,
    parse_query,
    parse_text,
)
from agentgym.envs.alfworld.engine.pddl import Domain
from agentgym.errors import UsageError

START_TEXTS = ("#intro#", "#task#")
"""Texts of the first observation."""

ATTRIBUTES = ("name", "id", "definite", "indefinite", "type")
"""Attributes that an expression can read of an object."""


def check_grammar(grammar: Grammar, domain: Domain) -> None:
    """Check every sentence of a domain's games: words, constructs, names, and rules that never end."""
    checker = _Checker(grammar, domain, frozenset())
    for text in START_TEXTS:
        checker.check(text, frozenset())
    for schema in domain.schemas:
        action = grammar.actions.get(schema.name)
        if action is None:
            raise UsageError(f"the grammar has no words for the action {schema.name}")
        names = frozenset(name.lstrip("?") for name, _ in schema.parameters)
        checker.check(action.feedback, names)
        _Checker(grammar, domain, domain.fluents, f"the command of {schema.name}").check(
            action.template, names
        )


class _Checker:
    """Checks each rule once for each set of names that may stand in it."""

    def __init__(
        self, grammar: Grammar, domain: Domain, changing: frozenset[str], subject: str = "a sentence"
    ):
        """Check texts of a ``subject`` that may not depend on predicates that are ``changing``."""
        self._grammar, self._domain = grammar, domain
        self._changing, self._subject = changing, subject
        self._checked: set[tuple[str, frozenset[str]]] = set()

    def check(self, text: str, names: frozenset[str], within: tuple[str, ...] = ()) -> None:
        """Check a text and the rules it leads to.

        ``names``: variables that stand for objects in it; ``within``: rules that led here.
        """
        for part in parse_text(text):
            self._check_part(part, names, within)

    def _check_part(self, part: Part, names: frozenset[str], within: tuple[str, ...]) -> None:
        match part:
            case RuleReference(rule):
                self._check_rule(rule, names, within)
            case Value(code):
                _check_expression(code, names)
            case Listing(inner, query, is_list):
                answered = self._check_query(query) if query else frozenset()
                self._check_part(inner, names | answered, within)
                for rule in LIST_RULES if is_list else ():
                    self._check_rule(rule, names, within)

    def _check_rule(self, rule: str, names: frozenset[str], within: tuple[str, ...]) -> None:
        if rule in within:
            raise UsageError(f"the grammar's rule {rule!r} never ends")
        if (rule, names) in self._checked:
            return
        if not self._grammar.rules.get(rule):
            raise UsageError(f"the grammar has no rule {rule!r}")
        for production in self._grammar.rules[rule]:
            if production.condition:
                self._check_query(production.condition)
            self.check(production.text, names, (*within, rule))
        self._checked.add((rule, names))

    def _check_query(self, query: str) -> frozenset[str]:
        """Check a query; return its variables."""
        names = []
        for predicate, arguments in parse_query(query):
            positive = predicate.removeprefix("not_")
            arity = self._domain.arities.get(positive)
            if arity != len(arguments):
                raise UsageError(
                    f"unknown predicate in a grammar's query: {predicate} of {len(arguments)} arguments"
                )
            if positive in self._changing:
                raise UsageError(f"unknown construct in a grammar: {self._subject} depends on the state")
            for name, kind in arguments:
                if kind not in self._domain.types and kind != "object":
                    raise UsageError(f"unknown type in a grammar's query: {kind}")
                names.append(name)
        return frozenset(names)


def _check_expression(code: ast.expr, names: frozenset[str]) -> None:
    match code:
        case ast.Constant(value=str()):
            return
        case ast.Name(id=name):
            pass
        case ast.Attribute(value=ast.Name(id=name), attr=attribute) if attribute in ATTRIBUTES:
            pass
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            _check_expression(left, names)
            return _check_expression(right, names)
        case ast.BoolOp(op=ast.Or(), values=values):
            for value in values:
                _check_expression(value, names)
            return
        case _:
            raise UsageError(f"unknown construct in a grammar's expression: {ast.unparse(code)!r}")
    if name not in names:
        raise UsageError(f"the grammar names {name!r}, which nothing binds")
