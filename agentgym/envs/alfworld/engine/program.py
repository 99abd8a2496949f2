"""Compiled code of a domain and a grammar, shared by all their games.

The grammars of published games differ in one sentence, that of the task. It is taken out before anything
is compiled, so that thousands of games run the same few functions over tables of their own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from agentgym.envs.alfworld.engine.actions import ConditionalEffect, Masks, write_actions
from agentgym.envs.alfworld.engine.codegen import (
    NOTHING,
    AtomIndex,
    Plane,
    QueryMode,
    QueryWriter,
    SourceWriter,
    compile_source,
)
from agentgym.envs.alfworld.engine.grammar import TextPart, parse_grammar, parse_text
from agentgym.envs.alfworld.engine.grammar_check import check_grammar
from agentgym.envs.alfworld.engine.grounding import Objects, disjuncts
from agentgym.envs.alfworld.engine.pddl import TRUE, AtomCondition, Condition, Domain, Schema, parse_domain
from agentgym.envs.alfworld.engine.sentences import TASK, no_production, write_sentences
from agentgym.envs.alfworld.engine.tables import AtomTables
from agentgym.errors import UsageError

ConditionCode: TypeAlias = Callable[..., Masks]
"""(tables, constants) -> the ways in which a condition can hold."""

_TASK = re.compile(rf'("{TASK}"\s*:\s*\[\s*\{{\s*"rhs"\s*:\s*)("(?:[^"\\]|\\.)*")(\s*\}}\s*\])')


class SplitGrammar(NamedTuple):
    """A grammar, and the sentence of the game's task."""

    grammar: str
    """Grammar's whole document; another sentence stands in it where the task's could be taken out."""
    task: str | None
    """Sentence of the task; None where it could not be taken out."""


def split_grammar(grammar: str) -> SplitGrammar:
    """Take the sentence of the task out of a grammar; whole where it is not one plain sentence.

    Example:
        >>> split_grammar('grammar :: \"\"\"{"task": [{"rhs": "Do it."}]}\"\"\";')
        SplitGrammar(grammar='grammar :: \"\"\"{"task": [{"rhs": ""}]}\"\"\";', task='Do it.')
    """
    found = list(_TASK.finditer(grammar))
    if len(found) != 1:
        return SplitGrammar(grammar, None)
    try:
        parts = parse_text(json.loads(found[0][2]))
    except (UsageError, json.JSONDecodeError):
        return SplitGrammar(grammar, None)
    if len(parts) != 1 or not isinstance(parts[0], TextPart):
        return SplitGrammar(grammar, None)
    start, end = found[0].span(2)
    return SplitGrammar(f'{grammar[:start]}""{grammar[end:]}', parts[0].text)


class Program:
    """The generated code of a domain and a grammar."""

    def __init__(self, domain: Domain, grammar: str, selector: str, *, own_task: bool):
        """Write the code and compile it; see `program`."""
        self.domain, self.selector = domain, selector
        self.schemas: Mapping[str, Schema] = {schema.name: schema for schema in domain.schemas}
        self.indexes: list[AtomIndex] = []
        """What the numbers of a game's tables stand for."""
        self._numbers: dict[AtomIndex, int] = {}
        self._doubtful, self.tested = domain.doubtful, domain.tested
        self._conditions: dict[object, ConditionCode] = {}
        self.grammar = parse_grammar(grammar)
        check_grammar(self.grammar, domain)
        actions, collect_actions = write_actions(domain, selector, self.number)
        texts, collect_texts = write_sentences(self.grammar, domain, selector, self.number, own_task=own_task)
        self.source = actions + texts
        """What was compiled, for readers."""
        names = {"NOTHING": NOTHING, "no_production": no_production, "ConditionalEffect": ConditionalEffect}
        namespace = compile_source(self.source, names)
        self.code = collect_actions(namespace)
        self.texts = collect_texts(namespace)
        self.command_keys = {name: code.key() for name, code in self.texts.commands.items()}

    def number(self, index: AtomIndex) -> int:
        """Return the number of a table."""
        if index.plane == "shown" and index.predicate not in self._doubtful:
            index = index._replace(plane="truth")  # the bits are the same
        found = self._numbers.get(index)
        if found is None:
            found = self._numbers[index] = len(self.indexes)
            self.indexes.append(index)
        return found

    def masks(self, condition: Condition, tables: AtomTables, objects: Objects) -> Masks:
        """Return the ways in which a condition of one game can hold, such as its goal."""
        if condition == TRUE:
            return ((0, 0),)
        constants: dict[str, str] = {}
        shape = []
        for variables, literals in disjuncts(condition, objects):
            lifted = tuple(_lift(literal, constants) for literal in literals)
            shape.append((tuple(variables.items()), lifted))
        key = tuple(shape)
        code = self._conditions.get(key)
        if code is None:
            code = self._conditions[key] = self._compile_condition(shape, tuple(constants.values()))
        return tuple(dict.fromkeys(code(tables, *constants)))

    def _compile_condition(self, shape: Sequence[Any], constants: Sequence[str]) -> ConditionCode:
        source = SourceWriter()
        names = [f"x{k}" for k in range(len(constants))]
        source.line(f"def masks({', '.join(['t', *names])}):", deeper=True)
        source.line("found = []")
        for variables, literals in shape:
            query = QueryWriter(source, self.number, dict(variables), QueryMode.MASKS, self._planes)
            query.bound = dict(zip(constants, names, strict=True))
            query.used.update(names)
            query.masks(literals)
        source.line("return found")
        code: ConditionCode = compile_source(source.text(), {"NOTHING": NOTHING})["masks"]
        return code

    def _planes(self, predicate: str) -> tuple[str, Plane]:
        return predicate, "truth" if predicate in self.domain.fluents else "static"


def _lift(literal: AtomCondition, constants: dict[str, str]) -> AtomCondition:
    """Return a literal with variables for its constants, which are noted."""
    arguments = [
        a if a[0] == "?" else constants.setdefault(a, f"?={len(constants)}") for a in literal.arguments
    ]
    return AtomCondition(literal.predicate, tuple(arguments), literal.positive)


@lru_cache(maxsize=64)
def program(domain: str, grammar: str, selector: str, *, own_task: bool) -> Program:
    """Return the code of a domain, PDDL, and a grammar; equal texts share one.

    ``selector``: a predicate exactly one of whose atoms holds in any state, or nothing; ``own_task``: whether
    each game has its own sentence for the task.
    """
    return Program(parse_domain(domain), grammar, selector, own_task=own_task)
