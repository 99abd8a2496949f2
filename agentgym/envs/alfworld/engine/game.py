"""One ALFWorld game, compiled: states are integers, actions are a few operations on their bits."""

from __future__ import annotations

import gc
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from sys import intern
from typing import NamedTuple, TypeAlias

from agentgym.envs.alfworld.engine.conditions import ConditionCompiler
from agentgym.envs.alfworld.engine.grammar import parse_grammar
from agentgym.envs.alfworld.engine.grammar_check import check_grammar
from agentgym.envs.alfworld.engine.grounding import Grounding, Objects, Test, ground
from agentgym.envs.alfworld.engine.operations import Operation, OperationCompiler, selector
from agentgym.envs.alfworld.engine.pddl import Domain, Fact, Schema, parse_domain, parse_problem, predicates
from agentgym.envs.alfworld.engine.planes import Planes, union
from agentgym.envs.alfworld.engine.sentences import MEMO_LIMIT, Bindings, Sentence, TextCompiler, write
from agentgym.envs.alfworld.engine.vocabulary import Vocabulary
from agentgym.errors import UsageError

HISTORY = frozenset({"checked", "examined", "wasinreceptacle"})
"""Predicates that record what an agent has done: no part of the physical state, unless a domain's actions
or a goal depend on them."""


class Choices(NamedTuple):
    """What can be done in a state."""

    commands: tuple[str, ...]
    """Sorted."""
    operations: Mapping[str, Operation]
    """By command."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The operations of one value of the selector, and what is remembered of them."""

    operations: tuple[Operation, ...]
    relevant: int
    """Bits any of their tests looks at, but for the selector's."""
    memo: dict[int, Choices]


Operator: TypeAlias = tuple[str, tuple[str, ...], list[Test]]
"""An action's name, its objects, and the ways its precondition can hold."""


class Game:
    """A compiled game; shared by all its episodes and never changed by them."""

    def __init__(self, domain_text: str, grammar_text: str, problem_text: str):
        """Compile a game.

        Raises:
            UsageError: a construct outside the language, named.
        """
        with _collector_paused():
            self._compile(domain_text, grammar_text, problem_text)

    # ---- play ------------------------------------------------------------------------------

    def choices(self, state: int) -> Choices:
        """Return what can be done in a state."""
        at = state & self._selector
        place = self._places.get(at)
        if place is None:
            place = self._places[at] = self._compile_place(at)
        key = state & place.relevant
        found = place.memo.get(key)
        if found is None:
            if len(place.memo) >= MEMO_LIMIT:
                place.memo.clear()
            found = place.memo[key] = _choose(place.operations, state)
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
        key = (operation.schema, operation.objects)
        sentence = self._feedbacks.get(key)
        if sentence is None:
            feedback = self.grammar.actions[operation.schema].feedback
            sentence = self._feedbacks[key] = self._compiler.sentence(feedback, self._bind(*key))
        return sentence.write(state)

    def intro(self) -> str:
        """Return the first observation."""
        compiler = TextCompiler(self.grammar, self.vocabulary, within=self.initial)
        return write(compiler.compile("#intro#", {}), self.initial)

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

    def physical(self, state: int) -> bytes:
        """Return the physical state as bytes, for hashing; bits are in the order of `Planes.fluents`."""
        return (state & self._physical).to_bytes(self._physical_bytes, "little")

    # ---- what the game is made of ------------------------------------------------------------

    @property
    def names(self) -> Mapping[str, str]:
        """Object id -> the name that sentences use."""
        return self.vocabulary.names

    @property
    def goal(self) -> tuple[tuple[int, int], ...]:
        """Alternatives of (bits that must be set, bits that must not); empty when none is reachable."""
        return self._goal

    def facts(self, state: int) -> set[Fact]:
        """Return every fact of a state as the real engine lists them."""
        return self.planes.facts(state)

    def operators(self) -> Iterator[Operator]:
        """Yield everything that can ever be done."""
        return chain.from_iterable(self._operators.values())

    def operation(self, schema: str, objects: tuple[str, ...], tests: Sequence[Test]) -> Operation | None:
        """Compile an operator; None where it can never apply, or changes nothing."""
        text = self._compiler.compile(self.grammar.actions[schema].template, self._bind(schema, objects))
        # rooms have much the same commands: one string does for all games
        return self._operations.compile(intern(write(text, self.initial)), schema, objects, tests)

    # ---- compilation -------------------------------------------------------------------------

    def _compile(self, domain_text: str, grammar_text: str, problem_text: str) -> None:
        domain = parse_domain(domain_text)
        problem = parse_problem(problem_text, domain)
        self.objects = Objects(domain, problem)
        self.grammar = parse_grammar(grammar_text)
        check_grammar(self.grammar, domain)
        grounding = ground(domain, problem, self.objects)
        self.planes = Planes(domain, grounding)
        self.initial = self.planes.start(problem.init)
        self.vocabulary = Vocabulary(self.planes, self.objects, problem.init)
        conditions = ConditionCompiler(self.planes, self.vocabulary, self.objects)
        self._goal = conditions.compile(problem.goal)
        history = HISTORY - domain.tested - set(predicates(problem.goal))
        self._physical = self.planes.mask(f for f in self.planes.fluents if f[0] not in history)
        self._physical_bytes = (self.planes.width + 7) // 8
        self._compiler = TextCompiler(self.grammar, self.vocabulary)
        self._operations = OperationCompiler(domain, self.planes, self.objects, conditions)
        self._feedbacks: dict[tuple[str, tuple[str, ...]], Sentence] = {}
        self.schemas: Mapping[str, Schema] = {schema.name: schema for schema in domain.schemas}
        self._sort_operators(grounding, domain)

    def _bind(self, schema: str, objects: tuple[str, ...]) -> Bindings:
        variables = ((name.lstrip("?"), kind) for name, kind in self.schemas[schema].parameters)
        return dict(zip(variables, objects, strict=True))

    def _sort_operators(self, grounding: Grounding, domain: Domain) -> None:
        """Sort operators by the atom of the selector that they need: most apply in one place only."""
        predicate = selector(domain, self.initial, self.planes.truth)
        bits = {fact: bit for fact, bit in self.planes.truth.items() if fact[0] == predicate}
        self._selector = union(bits.values())
        self._operators: dict[int, list[Operator]] = defaultdict(list)
        used: set[str] = set()
        for (schema, objects), tests in grounding.operators.items():
            places = set()
            for needs, _ in tests:
                found = [fact for fact in needs if fact[0] == predicate]
                places.add(bits[found[0]] if len(found) == 1 else 0)
            at = places.pop() if len(places) == 1 else 0  # 0: more than one place will do
            self._operators[at].append((schema, objects, tests))
            used.update(objects)
        for name in sorted(used - self.names.keys()):
            raise UsageError(
                f"unknown construct in a PDDL problem: no fact mentions {name}, so it has no name"
            )
        self._places: dict[int, _Place] = {}

    def _compile_place(self, at: int) -> _Place:
        operators = [*self._operators.get(at, ()), *(self._operators.get(0, ()) if at else ())]
        operations = tuple(o for operator in operators if (o := self.operation(*operator)) is not None)
        same: dict[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]] = {}
        for operation in operations:  # many have the same tests, and a large room has thousands
            operation.tests = same.setdefault(operation.tests, operation.tests)
        looked_at = union(bits for operation in operations for bits, _ in operation.tests)
        return _Place(operations, looked_at & ~self._selector, {})


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


def _choose(operations: Sequence[Operation], state: int) -> Choices:
    found: dict[str, Operation] = {}
    for operation in operations:
        for looked_at, wanted in operation.tests:
            if state & looked_at == wanted:
                found.setdefault(operation.command, operation)
                break
    return Choices(tuple(sorted(found)), found)
