"""Parse the grammar that turns facts into sentences (TextWorld's ``.twl2``).

A document holds named rules and, for each action, a command template and a feedback rule. A rule is
a list of productions, the first whose condition holds is used. The text of a production mixes words
with ``#rule#``, ``{expression}``, and ``[{expression | query}]``, which lists the expression for every
answer to a conjunctive query over the facts.
"""

from __future__ import annotations

import ast
import json
import re
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json

Atom: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""A predicate over (variable, type) pairs."""


@dataclass(frozen=True, slots=True)
class ActionText:
    """Command and feedback texts of one action."""

    template: str
    feedback: str


@dataclass(frozen=True, slots=True)
class Production:
    """One way to write a rule."""

    condition: str
    text: str


@dataclass(frozen=True, slots=True, eq=False)
class Grammar:
    """A parsed document."""

    rules: dict[str, tuple[Production, ...]]
    actions: dict[str, ActionText]
    """Texts of actions by lower-case name."""


_BLOCK = re.compile(
    r"""\s*(?:
        grammar\s*::\s*\"{3}(?P<grammar>.*?)\"{3}\s*;
      | action\s+(?P<name>[\w/-]+)\s*\{(?P<body>(?>\s*(?:
            (?:template|feedback)\s*::\s*"[^"]*"\s*;
          | (?:pddl|grammar)\s*::\s*\"{3}.*?\"{3}\s*;
        ))*+)\s*\}
    )""",
    re.DOTALL | re.VERBOSE,
)
"""A field ends at the first quotes that can end it, for good: there would be 2^n ways to part n fields."""
_FIELD = re.compile(r'(template|feedback)\s*::\s*"([^"]*)"\s*;|(grammar)\s*::\s*"{3}(.*?)"{3}\s*;', re.DOTALL)


@lru_cache(maxsize=512)
def parse_grammar(text: str) -> Grammar:
    """Parse a document; equal texts share one result."""
    rules: dict[str, tuple[Production, ...]] = {}
    actions: dict[str, ActionText] = {}
    position, end = 0, len(text.rstrip())
    while position < end:
        block = _BLOCK.match(text, position)
        if block is None:
            raise UsageError(f"unknown construct in a grammar: {text[position:].strip().splitlines()[0]:.60}")
        position = block.end()
        if block["name"] is None:
            rules.update(_rules(block["grammar"]))
            continue
        fields: dict[str, str] = {}
        for key, value, is_grammar, own_rules in _FIELD.findall(block["body"]):
            if is_grammar:
                lines = [x for x in own_rules.split("\n") if not x.lstrip().startswith("#")]
                rules.update(_rules("\n".join(lines)))
            else:
                fields[key] = value
        if fields.keys() != {"template", "feedback"}:
            raise UsageError(f"a grammar's action {block['name']} must have a template and a feedback")
        actions[block["name"].lower()] = ActionText(**fields)
    return Grammar(rules, actions)


@lru_cache(maxsize=512)
def _rules(text: str) -> dict[str, tuple[Production, ...]]:
    data = loads_json(textwrap.dedent(text), "a grammar block", repeated_keys=True)
    if not isinstance(data, dict):
        raise UsageError("a grammar block is not a JSON object of rules")
    return {name: tuple(_production(name, p) for p in _listed(name, data[name])) for name in data}


def _listed(name: str, productions: Any) -> list[Any]:
    if not isinstance(productions, list):
        raise UsageError(f"unknown construct in a grammar's rule {name!r}: not a list of productions")
    return productions


def _production(name: str, production: Any) -> Production:
    if isinstance(production, dict) and isinstance(production.get("rhs"), str):
        condition = production.get("condition", "")
        if isinstance(condition, str):
            return Production(condition, production["rhs"])
    raise UsageError(f"unknown construct in a grammar's rule {name!r}: {json.dumps(production):.60}")


# ---- the parts of a production's text ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextPart:
    """Literal text."""

    text: str


@dataclass(frozen=True, slots=True)
class RuleReference:
    """Another rule."""

    rule: str


@dataclass(frozen=True, slots=True)
class Value:
    """An expression over the attributes of bound objects."""

    code: ast.expr


@dataclass(frozen=True, slots=True)
class Listing:
    """A part, written for every answer to a query; a list has separators."""

    part: Part
    query: str
    is_list: bool


Part: TypeAlias = TextPart | RuleReference | Value | Listing

LIST_RULES = ("list_empty", "list_separator", "list_last_separator")
"""Rules that write lists: nothing, and what stands between and before the last."""

_PART = re.compile(
    r"(?P<words>[^\[\]{}#;|\"<>]+)|#(?P<call>[^#]+)#"
    r"|(?P<open>\[?)\{(?:#(?P<inner>[^#]+)#|(?P<code>[^|\[\]{}\n<>]++))\s*+"
    r"(?:\|(?P<query>\s*+[^;|{}\n\[\]#]*+))?\}(?P<close>\]?)"
)


@lru_cache(maxsize=4096)
def parse_text(text: str) -> tuple[Part, ...]:
    """Split a production's text into its parts.

    White space at the very start is dropped, as the original parser does.
    """
    text = text.lstrip()
    parts: list[Part] = []
    position = 0
    while position < len(text):
        found = _PART.match(text, position)
        if found is None or bool(found["open"]) != bool(found["close"]):
            raise UsageError(f"unknown construct in a grammar's text: {text[position : position + 60]!r}")
        position = found.end()
        if found["words"] is not None:
            parts.append(TextPart(found["words"]))
        elif found["call"] is not None:
            parts.append(RuleReference(found["call"]))
        else:
            inner: Part = (
                RuleReference(found["inner"]) if found["inner"] else Value(_expression(found["code"]))
            )
            if found["query"] or found["open"]:
                inner = Listing(inner, (found["query"] or "").strip(), bool(found["open"]))
            parts.append(inner)
    return tuple(parts)


def _expression(code: str) -> ast.expr:
    try:
        return ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise UsageError(f"unknown construct in a grammar's expression: {code.rstrip()!r:.60}") from None


@lru_cache(maxsize=4096)
def parse_query(text: str) -> tuple[Atom, ...]:
    """Parse ``p(a:t, b:u) & q(...)``."""
    atoms = []
    for atom in text.split("&"):
        found = re.fullmatch(r"\s*([\w-]+)\s*\(([^()]*)\)\s*", atom)
        if found is None:
            raise UsageError(f"unknown construct in a grammar's query: {atom.strip()!r}")
        arguments = []
        for argument in filter(None, (a.strip() for a in found[2].split(","))):
            name, _, kind = (x.strip() for x in argument.partition(":"))
            arguments.append((name, kind or name.rstrip("'")))
        atoms.append((found[1], tuple(arguments)))
    return tuple(atoms)
