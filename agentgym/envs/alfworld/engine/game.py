"""One ALFWorld game: states are integers, and generated code reads and changes their bits."""

from __future__ import annotations

import gc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from sys import intern
from typing import Any, NamedTuple, TypeAlias

from agentgym.envs.alfworld.engine.actions import ActionFinder
from agentgym.envs.alfworld.engine.codegen import ROOT
from agentgym.envs.alfworld.engine.grounding import GroundProblem, Test, ground, ground_problem
from agentgym.envs.alfworld.engine.operations import Operation, selectors
from agentgym.envs.alfworld.engine.pddl import Fact, Schema, parse_domain, predicates, predicates_read
from agentgym.envs.alfworld.engine.planes import Planes, indexes, union
from agentgym.envs.alfworld.engine.program import Program, program, split_grammar
from agentgym.envs.alfworld.engine.sentences import Sentence
from agentgym.envs.alfworld.engine.tables import AtomTables

HISTORY = frozenset({"checked", "examined", "wasinreceptacle"})
"""Predicates that record what an agent has done: no part of what state schema 1 hashed, unless a domain's
actions or a goal depend on them."""

MEMO_LIMIT = 512
"""States of a place whose choices are remembered; then the memory starts afresh."""


Action: TypeAlias = tuple[str, tuple[str, ...]]
"""An action's name and its objects."""


class Choices(NamedTuple):
    """Applicable actions of a state."""

    commands: tuple[str, ...]
    """Sorted."""
    actions: dict[str, Action | Operation]
    """Actions by command; those that `Game.find` was called with are operations."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Facts about one value of the selector."""

    arguments: tuple[str, ...]
    """Arguments of the selector's atom."""
    fixed: dict[str, Action | Operation]
    """Actions that are possible there in any state, by command."""
    varying: tuple[ActionFinder, ...]
    """Finders of the other actions."""
    looked: int
    """Bits on which the other actions depend."""
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
            grounded: the grounded problem in the domain, where it is known.

        Raises:
            UsageError: a construct outside the language, named.
        """
        with _collector_paused():
            split = split_grammar(grammar_text)
            domain = parse_domain(domain_text)
            self._ground = grounded or ground_problem(domain, problem_text)
            self.planes = Planes(domain, self._ground.fluents, self._ground.static)
            self.initial = self.planes.start(self._ground.start)
            held = Counter(fact[0] for fact in self._ground.start)
            # a predicate exactly one of whose atoms holds at any time, if there is one
            selector = next((name for name in selectors(domain) if held[name] == 1), "")
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

    def find(self, choices: Choices, command: str) -> Operation | None:
        """Return what a command does where a state leaves these choices; None where it is none of them."""
        found = choices.actions.get(command)
        if isinstance(found, tuple):
            found = choices.actions[command] = self._make(*found, command)
        return found

    def operations(self, state: int) -> dict[str, Operation]:
        """Return all that can be done in a state by command, sorted."""
        choices = self.choices(state)
        found = ((command, self.find(choices, command)) for command in choices.commands)
        return {command: operation for command, operation in found if operation}

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
        """Return the content of a hash by state schema 1 as bytes, in the order of `Planes.fluents`."""
        return (state & self._physical).to_bytes(self._physical_bytes, "little")

    def read(self, shown: int) -> int:
        """Return the bits of the atoms that anything reads: actions, the goal, texts, or ``shown`` bits."""
        roots = shown | union(bits for pair in self._goal for bits in pair)
        names = frozenset(self.planes.fluents[i][0] for i in indexes(roots))
        read = predicates_read(self.program.domain, self.program.texts.read, names)
        return roots | self.planes.mask(read & self.planes.blocks.keys())

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
        return self._make(schema, objects) if self._is_news(schema, objects) else None

    def _make(self, schema: str, objects: tuple[str, ...], command: str = "") -> Operation:
        key = (schema, objects)
        found = self._operations.get(key)
        if found is None:
            code = self.program.code.actions[schema]
            command = command or self._command(schema, objects)
            found = self._operations[key] = Operation(
                command, schema, objects, code, self._tables, self.planes
            )
        return found

    def _is_news(self, schema: str, objects: tuple[str, ...]) -> bool:
        """Return whether an action does anything that its precondition does not grant.

        The real engine's translator drops effects that are granted, and actions left without effects.
        """
        if self.program.code.actions[schema].is_news(*objects):
            return True
        known = self._news.get((schema, objects))
        if known is None:
            known = self._news[schema, objects] = self._make(schema, objects).is_news()
        return known

    def _command(self, schema: str, objects: tuple[str, ...]) -> str:
        code = self.program.texts.commands[schema]
        key = self._keys[schema](objects)
        command = self._commands[schema].get(key)
        if command is None:
            chosen = [objects[k] for k in code.chosen]
            # rooms have much the same commands: one string does for all games
            command = self._commands[schema][key] = intern(code.say(self._tables, 0, *chosen))
        return command

    # ---- tables and memories -----------------------------------------------------------------

    def _make_tables(self, task: str) -> None:
        shared, planes, grounded = self.program, self.planes, self._ground
        names = display_names(grounded.mentioned())
        self._tables = AtomTables(planes, grounded.objects, names, task, shared.indexes)
        self._goal = tuple(shared.masks(grounded.goal, self._tables, grounded.objects))
        history = HISTORY - shared.tested - set(predicates(grounded.goal))
        self._physical = planes.mask(planes.blocks.keys() - history)
        self._physical_bytes = (planes.width + 7) // 8
        at = zip(planes.bits(shared.selector), planes.atoms(shared.selector), strict=True)
        self._atoms_at = {bit: fact[1:] for bit, fact in at}
        self._selector = union(self._atoms_at)
        self._places: dict[int, _Place] = {}
        self._operations: dict[Action, Operation] = {}
        self._news: dict[Action, bool] = {}
        """Of actions of which their objects alone do not say it."""
        self._commands: dict[str, dict[Any, str]] = defaultdict(dict)
        """By action, and what `TextCode.key` takes of its objects."""
        self._keys = shared.command_keys
        self._takes: dict[str, Callable[[tuple[str, ...]], Any]] = {}
        """`TextCode.key` of an action's answer in this game, made when it is first given."""
        self._sentences: dict[tuple[str, Any], Sentence] = {}
        """Likewise."""

    def _visit(self, at: int, state: int) -> _Place:
        """Find the actions that always apply in a place, and the conditions of the rest."""
        code, arguments = self.program.code, self._atoms_at.get(at, ())
        fits = {kinds: self._fits(kinds, arguments) for kinds in code.kinds}
        fixed, varying = (
            tuple([finder for finder in some if fits[finder.kinds]]) for some in (code.fixed, code.varying)
        )
        looked = code.looked(self._tables, state, *arguments) & ~self._selector
        return _Place(arguments, self._by_command(fixed, state, arguments), varying, looked, {})

    def _fits(self, kinds: Sequence[str], arguments: Sequence[str]) -> bool:
        """Return whether objects are of types."""
        sets = self._tables.sets
        pairs = zip(kinds, arguments, strict=False)  # a rule may need no place
        return all(kind == ROOT or name in sets.get(kind, ()) for kind, name in pairs)

    def _choose(self, place: _Place, state: int) -> Choices:
        actions = place.fixed | self._by_command(place.varying, state, place.arguments)
        return Choices(tuple(sorted(actions)), actions)

    def _by_command(
        self, finders: Iterable[ActionFinder], state: int, place: tuple[str, ...]
    ) -> dict[str, Action | Operation]:
        """Return what applies in a state by command; of equal commands the first."""
        actions: dict[str, Action | Operation] = {}
        tables = self._tables
        found: list[tuple[str, ...]] = []
        for finder in finders:
            finder.find(tables, state, found, *place)
            if not found:
                continue
            schema, is_news = finder.schema, finder.is_news
            key, commands = self._keys[schema], self._commands[schema]
            for objects in found:
                if is_news(*objects) or self._is_news(schema, objects):
                    command = commands.get(key(objects)) or self._command(schema, objects)
                    if command not in actions:
                        actions[command] = (schema, objects)
            found.clear()
        return actions

    def _sentence(self, operation: Operation) -> Sentence:
        """Return the sentence of an operation; operations that cannot differ in it share one."""
        code = self.program.texts.feedbacks[operation.schema]
        take = self._takes.get(operation.schema)
        if take is None:
            take = self._takes[operation.schema] = code.key(self._tables)
        key = (operation.schema, take(operation.objects))
        sentence = self._sentences.get(key)
        if sentence is None:
            objects = tuple([operation.objects[k] for k in code.chosen])
            sentence = self._sentences[key] = Sentence(code, self._tables, objects, self._selector)
        return sentence


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector, which would traverse all objects again and again: new ones stay."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def display_names(ids: Iterable[str]) -> dict[str, str]:
    """Name objects as ALFWorld does: the kind, and a number counted against the sorted order.

    The text before ``_bar_`` is the kind, with ``basin`` appended where the id mentions one; of n
    objects of a kind the first in sorted order has number n. An id without ``_bar_`` stays what it
    is, with a blank behind it. (alfworld 0.4.2, agents/utils/misc.py.)
    """
    kinds = {}
    names = {}
    for name in sorted(set(ids)):
        kind, bar, _ = name.partition("_bar_")
        if bar:
            kinds[name] = kind + "basin" if "basin" in name else kind
        else:
            names[name] = f"{name} "
    left = Counter(kinds.values())
    for name, kind in kinds.items():
        names[name] = f"{kind} {left[kind]}"
        left[kind] -= 1
    return names
