"""One ALFWorld game: states are integers, and generated code reads and changes their bits."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from sys import intern
from typing import NamedTuple, TypeAlias

from agentgym.envs.alfworld.engine.actions import Found
from agentgym.envs.alfworld.engine.grounding import GroundProblem, Test, ground, ground_problem
from agentgym.envs.alfworld.engine.operations import Operation, selectors
from agentgym.envs.alfworld.engine.pddl import Domain, Fact, Schema, parse_domain, predicates
from agentgym.envs.alfworld.engine.planes import Planes, union
from agentgym.envs.alfworld.engine.program import Program, program, split_grammar
from agentgym.envs.alfworld.engine.sentences import Sentence
from agentgym.envs.alfworld.engine.tables import AtomTables
from agentgym.envs.alfworld.engine.vocabulary import display_names

HISTORY = frozenset({"checked", "examined", "wasinreceptacle"})
"""Predicates that record what an agent has done: no part of the physical state, unless a domain's actions
or a goal depend on them."""

MEMO_LIMIT = 512
"""States of a place whose choices are remembered; then the memory starts afresh."""


class Choices(NamedTuple):
    """Applicable actions of a state."""

    commands: tuple[str, ...]
    """Sorted."""
    operations: Mapping[str, Operation]
    """By command."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Facts about one value of the selector."""

    arguments: tuple[str, ...]
    """Of the selector's atom."""
    fixed: dict[str, Operation]
    """What can be done there in any state, by command."""
    looked: int
    """Bits on which the rest depends."""
    memo: dict[int, Choices]


Operator: TypeAlias = tuple[str, tuple[str, ...], list[Test]]
"""An action's name, its objects, and the ways its precondition can hold."""


class Game:
    """A game that can be played; shared by all its episodes and never changed by them."""

    def __init__(
        self, domain_text: str, grammar_text: str, problem_text: str, grounded: GroundProblem | None = None
    ):
        """Make the game's tables for the code of its domain and grammar.

        Args:
            domain_text: PDDL.
            grammar_text: TextWorld's twl2.
            problem_text: PDDL.
            grounded: what the problem comes to in the domain, where that is known.

        Raises:
            UsageError: a construct outside the language, named.
        """
        with _collector_paused():
            split = split_grammar(grammar_text)
            domain = parse_domain(domain_text)
            self._ground = grounded or ground_problem(domain, problem_text)
            self.planes = Planes(domain, self._ground.fluents, self._ground.static)
            self.initial = self.planes.start(self._ground.start)
            selector = self._find_selector(domain)
            own_task = split.task is not None
            self.program: Program = program(domain_text, split.grammar, selector, own_task=own_task)
            self._make_tables(split.task or "")

    # ---- play ------------------------------------------------------------------------------

    def choices(self, state: int) -> Choices:
        """Return the applicable actions of a state."""
        at = state & self._selector
        place = self._places.get(at)
        if place is None:
            place = self._places[at] = self._visit(at, state)
        key = state & place.looked
        found = place.memo.get(key)
        if found is None:
            if len(place.memo) >= MEMO_LIMIT:
                place.memo.clear()
            found = place.memo[key] = self._choose(place, state)
        return found

    def apply(self, state: int, operation: Operation) -> int:
        """Return the state after an operation that applies."""
        sure_keep, sure_set, conditional = operation.change
        after = state & sure_keep | sure_set
        for looked_at, wanted, keep, became in conditional:
            if state & looked_at == wanted:
                after = after & keep | became
        return after

    def feedback(self, operation: Operation, state: int) -> str:
        """Return the sentence that answers an operation, in the state after it."""
        sentence = operation.sentence
        if sentence is None:
            sentence = operation.sentence = self._sentence(operation)
        return sentence.write(state)

    def intro(self) -> str:
        """Return the first observation."""
        return self.program.texts.intro(self._tables, self.initial)

    def task(self) -> str:
        """Return the sentence of the game's task."""
        return self.program.texts.task(self._tables, self.initial)

    def won(self, state: int) -> bool:
        """Return whether the goal holds."""
        return any(state & (needs | forbids) == needs for needs, forbids in self._goal)

    def progress(self, state: int) -> float:
        """Return the largest fraction of goal conditions met by any choice of objects, in [0, 1]."""
        best = 0.0
        for needs, forbids in self._goal:
            total = needs.bit_count() + forbids.bit_count()
            met = (state & needs).bit_count() + (forbids & ~state).bit_count()
            best = max(best, met / total if total else 1.0)
        return best

    def check_state(self, state: int) -> None:
        """Raise a ValueError unless a number has the form of a state, whether or not play leads there."""
        if not 0 <= state <= self.planes.every:
            raise ValueError("its bits are not those of the game")
        if self._atoms_at and state & self._selector not in self._atoms_at:
            raise ValueError("its agent is nowhere, or at several places")

    def physical(self, state: int) -> bytes:
        """Return the physical state as bytes, for hashing; bits are in the order of `Planes.fluents`."""
        return (state & self._physical).to_bytes(self._physical_bytes, "little")

    # ---- what the game is made of ------------------------------------------------------------

    @property
    def names(self) -> Mapping[str, str]:
        """Object id -> the name that sentences use."""
        return self._tables.names

    @property
    def goal(self) -> tuple[tuple[int, int], ...]:
        """Alternatives of (bits that must be set, bits that must not); empty when none is reachable."""
        return self._goal

    @property
    def schemas(self) -> Mapping[str, Schema]:
        """The domain's actions."""
        return self.program.schemas

    def facts(self, state: int) -> set[Fact]:
        """Return every fact of a state as the real engine lists them."""
        return self.planes.facts(state)

    def operators(self) -> Iterator[Operator]:
        """Yield everything that can ever be done."""
        found = ground(self.program.domain, self._ground.problem(), self._ground.objects)
        for (schema, objects), tests in found.operators.items():
            yield schema, objects, tests

    def operation(self, schema: str, objects: tuple[str, ...]) -> Operation | None:
        """Return an action done with certain objects; None where that changes nothing."""
        key = (schema, objects)
        if key in self._operations:
            return self._operations[key]
        command = self.program.texts.commands[schema](self._tables, 0, *objects)
        # rooms have much the same commands: one string does for all games
        code = self.program.code.actions[schema]
        operation = Operation(intern(command), schema, objects, code, self._tables, self.planes)
        found = self._operations[key] = operation if operation.is_news() else None
        return found

    # ---- tables and memories -----------------------------------------------------------------

    def _find_selector(self, domain: Domain) -> str:
        """Return a predicate exactly one of whose atoms holds at any time; empty where there is none."""
        held: dict[str, int] = {}
        for fact in self._ground.start:
            held[fact[0]] = held.get(fact[0], 0) + 1
        return next((name for name in _selectors(domain) if held.get(name) == 1), "")

    def _make_tables(self, task: str) -> None:
        shared, planes, grounded = self.program, self.planes, self._ground
        names = display_names(grounded.mentioned())
        self._tables = AtomTables(planes, grounded.objects, names, task, shared.indexes)
        self._goal = tuple(shared.masks(grounded.goal, self._tables, grounded.objects))
        history = HISTORY - shared.domain.tested - set(predicates(grounded.goal))
        self._physical = planes.mask(f for f in planes.fluents if f[0] not in history)
        self._physical_bytes = (planes.width + 7) // 8
        self._atoms_at = {bit: f[1:] for f, bit in planes.truth.items() if f[0] == shared.selector}
        self._selector = union(self._atoms_at)
        self._places: dict[int, _Place] = {}
        self._operations: dict[tuple[str, tuple[str, ...]], Operation | None] = {}
        self._sentences: dict[tuple[str, tuple[str, ...]], Sentence] = {}

    def _visit(self, at: int, state: int) -> _Place:
        """Find the actions that always apply in a place, and the conditions of the rest."""
        code, arguments = self.program.code, self._atoms_at.get(at, ())
        found: Found = []
        for find in code.fixed:
            find(self._tables, state, found, *arguments)
        looked = code.looked(self._tables, state, *arguments) & ~self._selector
        return _Place(arguments, self._by_command(found), looked, {})

    def _choose(self, place: _Place, state: int) -> Choices:
        found: Found = []
        for find in self.program.code.varying:
            find(self._tables, state, found, *place.arguments)
        operations = place.fixed | self._by_command(found)
        return Choices(tuple(sorted(operations)), operations)

    def _by_command(self, found: Found) -> dict[str, Operation]:
        operations: dict[str, Operation] = {}
        for schema, objects in found:
            operation = self.operation(schema, objects)
            if operation is not None:
                operations.setdefault(operation.command, operation)
        return operations

    def _sentence(self, operation: Operation) -> Sentence:
        """Return the sentence of an operation; operations that cannot differ in it share one."""
        code = self.program.texts.feedbacks[operation.schema]
        objects = tuple([operation.objects[k] for k in code.chosen])
        key = (operation.schema, objects)
        sentence = self._sentences.get(key)
        if sentence is None:
            sentence = self._sentences[key] = Sentence(code, self._tables, objects, self._selector)
        return sentence


@lru_cache(maxsize=64)
def _selectors(domain: Domain) -> list[str]:
    return selectors(domain)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the garbage collector from going through all there is again and again: what is made now stays."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
