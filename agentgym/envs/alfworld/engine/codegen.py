"""Query compiler: conjunctive queries as nested Python loops, the engine's one code generator.

Preconditions, effects' conditions, goals and the queries of a grammar are all conjunctions of literals over
variables. A `QueryWriter` writes such a conjunction as loops over the tables of a game, once for all games
of a domain; what differs between games is in the tables (`agentgym.envs.alfworld.engine.tables`).

A literal whose predicate never changes loops over rows. One that changes is written in one of three modes:
against a *state*, whose set bits are walked; for the *masks* of all states that would do; or for every bit
that can matter, which is *looked* at.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeAlias

from agentgym.envs.alfworld.engine.pddl import AtomCondition
from agentgym.errors import UsageError

Plane: TypeAlias = Literal["static", "truth", "shown", "negated"]
"""Whether a predicate's atoms have no bits, or which (`agentgym.envs.alfworld.engine.planes`)."""

ROOT = "object"
"""The type that every object has."""

NOTHING: tuple[int, Mapping[int, Any]] = (0, {})
"""Nothing: the bits of no atoms together, and the atom of each bit."""


class AtomIndex(NamedTuple):
    """A table of a predicate's atoms by some of their arguments."""

    predicate: str
    bound: tuple[int, ...]
    """Positions of the arguments looked up, from 1."""
    kinds: tuple[str, ...]
    """Types that the other arguments must have."""
    plane: Plane


Numbering: TypeAlias = "Callable[[AtomIndex], int]"
"""Function that numbers a table for generated code."""


class QueryMode(Enum):
    """Purpose of a query."""

    STATE = "state"
    """Answers in one state."""
    MASKS = "masks"
    """Answers in any state, each with the bits it needs and forbids."""
    LOOKED = "looked"
    """Bits that answers depend on."""


class SourceWriter:
    """Python source under way."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.lines: list[str] = []
        self.depth = 0

    def line(self, text: str, *, deeper: bool = False) -> None:
        """Add a line; the lines after one that opens a block are one level deeper."""
        self.lines.append(" " * self.depth + text)
        self.depth += deeper

    def text(self) -> str:
        """Return the source."""
        return "\n".join(self.lines) + "\n"


def compile_source(text: str, names: Mapping[str, Any]) -> dict[str, Any]:
    """Run generated source; return its definitions.

    Names are identifiers and words are quoted by ``repr``: nothing of a game's file is run. `UsageError`
    where conditions are nested deeper than Python allows.
    """
    namespace = dict(names)
    try:
        exec(compile(text, "<generated>", "exec"), namespace)
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise UsageError(f"unknown construct in a game: a condition too large to compile ({error})") from None
    return namespace


class QueryWriter:
    """Writes one conjunction as loops, from the outside in."""

    def __init__(
        self,
        source: SourceWriter,
        indexes: Numbering,
        kinds: Mapping[str, str],
        mode: QueryMode,
        planes: Callable[[str], tuple[str, Plane]],
        selector: str = "",
    ):
        """Begin at the source's place.

        ``kinds``: types of variables, which begin with a question mark; ``planes`` gives predicate and plane
        of a literal's word; ``selector``: the predicate whose atom is known when bits are looked for.
        """
        self.source, self.kinds, self.mode = source, kinds, mode
        self._index, self._planes, self._selector = indexes, planes, selector
        self.bound: dict[str, str] = {}
        """Variable -> the Python name or expression that holds its object."""
        self.distinct = False
        """Whether different variables must stand for different objects."""
        self._masks = 0
        self.used: set[str] = set()
        """Python names that are taken."""

    # ---- variables ---------------------------------------------------------------------------

    def bind(self, variable: str) -> str:
        """Bind a variable to a new Python name; return the name."""
        word = re.sub(r"\W", "_", variable[1:].partition(":")[0])
        fine = word.isidentifier() and not keyword.iskeyword(word) and word not in _OWN | self.used
        name = word if fine else f"v{len(self.used)}_{word}"
        self.used.add(name)
        self.bound[variable] = name
        return name

    def known(self, argument: str) -> bool:
        """Return whether an argument is a constant or bound."""
        return argument[0] != "?" or argument in self.bound

    def value(self, argument: str) -> str:
        """Return the expression of a known argument."""
        return self.bound[argument] if argument[0] == "?" else repr(argument)

    def atom(self, predicate: str, arguments: Sequence[str]) -> str:
        """Return the expression of an atom."""
        return f"({', '.join([repr(predicate), *map(self.value, arguments)])},)"

    # ---- literals ----------------------------------------------------------------------------

    def conjunction(self, literals: Iterable[AtomCondition]) -> None:
        """Write literals, each as soon as most of its arguments are known, tests before loops."""
        rest = list(literals)
        while rest:
            best = min(rest, key=self._freedom)
            if self._freedom(best) == _UNKNOWN:
                break  # only negative literals are left
            rest.remove(best)
            self.literal(best)
        for variable in dict.fromkeys(a for x in rest for a in x.arguments if not self.known(a)):
            self.every(variable)
        for literal in rest:
            self.literal(literal)

    def every(self, variable: str) -> None:
        """Loop over all objects that a variable can stand for."""
        kind = self.kinds[variable]
        self.source.line(f"for {self.bind(variable)} in t.members.get({kind!r}, ()):", deeper=True)

    def literal(self, literal: AtomCondition) -> None:
        """Write one literal; of a negative one all arguments are known."""
        if literal.predicate == "=":
            one, other = map(self.value, literal.arguments)
            self.source.line(f"if {one} {'==' if literal.positive else '!='} {other}:", deeper=True)
            return
        predicate, plane = self._planes(literal.predicate)
        free = [i for i, a in enumerate(literal.arguments, 1) if not self.known(a)]
        if not free:
            self._test(predicate, plane, literal)
        elif self.mode is QueryMode.LOOKED and plane != "static" and literal.predicate != self._selector:
            self._look(f"{self._rows(predicate, plane, literal, free)}[0]")
        else:
            self._loop(predicate, plane, literal, free)

    def looked_at(self, literals: Sequence[AtomCondition], inner: Callable[[], None] | None = None) -> None:
        """Write what adds every bit that literals depend on to ``looked``; ``inner`` stands inside."""
        for k, literal in enumerate(literals):
            free = [a for a in literal.arguments if not self.known(a)]
            if self._changes(literal) or (literal.positive and not free):
                self.literal(literal)
            elif literal.positive and len(free) < len(literal.arguments):
                later = {a for other in literals[k + 1 :] if self._changes(other) for a in other.arguments}
                if inner is not None or later.intersection(free):
                    self.literal(literal)
        if inner is not None:
            inner()
        while self.source.lines and self.source.lines[-1].endswith(":"):
            self.source.lines.pop()  # a block in which nothing is looked at

    def _changes(self, literal: AtomCondition) -> bool:
        return literal.predicate != "=" and self._planes(literal.predicate)[1] != "static"

    def _freedom(self, literal: AtomCondition) -> tuple[int, bool]:
        free = sum(not self.known(a) for a in literal.arguments)
        if free and not literal.positive:
            return _UNKNOWN
        return free, not self._changes(literal)

    def _test(self, predicate: str, plane: Plane, literal: AtomCondition) -> None:
        atom = self.atom(predicate, literal.arguments)
        negation = "" if literal.positive else "not "
        if plane == "static":
            self.source.line(f"if {atom} {negation}in t.static:", deeper=True)
            return
        bit = {
            "truth": f"t.truth.get({atom}, 0)",
            "shown": f"t.shown.get({atom}, 0)",
            "negated": f"t.truth.get({atom}, 0) << t.width",
        }[plane]
        if self.mode is QueryMode.STATE:
            self.source.line(f"if {negation}state & {bit}:", deeper=True)
        elif self.mode is QueryMode.LOOKED:
            self._look(bit)
        else:
            self._masks = number = self._masks + 1
            self.source.line(f"bit_{number} = {bit}")
            if literal.positive:
                self.source.line(f"if bit_{number}:", deeper=True)
                self._require(f"bit_{number}")
            else:
                self.source.line(f"needs_{number} = needs_{number - 1}")
                self.source.line(f"forbids_{number} = forbids_{number - 1} | bit_{number}")

    def _loop(self, predicate: str, plane: Plane, literal: AtomCondition, free: Sequence[int]) -> None:
        rows = self._rows(predicate, plane, literal, free)
        names, checks = [], []
        for position in free:
            variable = literal.arguments[position - 1]
            if variable in self.bound:  # the same variable twice in one atom
                names.append(f"again_{position}")
                checks.append(f"again_{position} == {self.bound[variable]}")
                continue
            others = list(self.bound.items()) if self.distinct else []
            names.append(self.bind(variable))
            checks += [f"{names[-1]} != {name}" for other, name in others if self._may_equal(variable, other)]
        target = ", ".join(names)
        if plane == "static":
            self.source.line(f"for {target} in {rows}:", deeper=True)
        elif self.mode is QueryMode.MASKS:
            self._masks = number = self._masks + 1
            row = target if len(names) == 1 else f"({target})"
            self.source.line(f"for bit_{number}, {row} in {rows}[1].items():", deeper=True)
            self._require(f"bit_{number}")
        else:
            n = self.source.depth
            self.source.line(f"mask_{n}, rows_{n} = {rows}")
            self.source.line(f"live_{n} = state & mask_{n}")
            self.source.line(f"while live_{n}:", deeper=True)
            self.source.line(f"bit_{n} = live_{n} & -live_{n}")
            self.source.line(f"live_{n} ^= bit_{n}")
            self.source.line(f"{target} = rows_{n}[bit_{n}]")
        if checks:
            self.source.line(f"if {' and '.join(checks)}:", deeper=True)

    def _rows(self, predicate: str, plane: Plane, literal: AtomCondition, free: Sequence[int]) -> str:
        where = tuple(i for i in range(1, len(literal.arguments) + 1) if i not in free)
        kinds = tuple(self.kinds[literal.arguments[i - 1]] for i in free)
        number = self._index(AtomIndex(predicate, where, kinds, plane))
        keys = [self.value(literal.arguments[i - 1]) for i in where]
        key = keys[0] if len(keys) == 1 else f"({', '.join(keys)})" if keys else "()"
        return f"t[{number}].get({key}, {'()' if plane == 'static' else 'NOTHING'})"

    def _may_equal(self, one: str, other: str) -> bool:
        kinds = {self.kinds[one], self.kinds[other]}
        return len(kinds) == 1 or ROOT in kinds

    def _look(self, mask: str) -> None:
        self.source.line(f"looked |= {mask}")

    def _require(self, bit: str) -> None:
        number = self._masks
        self.source.line(f"needs_{number} = needs_{number - 1} | {bit}")
        self.source.line(f"forbids_{number} = forbids_{number - 1}")

    # ---- answers -----------------------------------------------------------------------------

    def masks(self, literals: Sequence[AtomCondition]) -> None:
        """Write what adds (bits needed, bits forbidden) of every answer to ``found``."""
        depth = self.source.depth
        self._masks = 0
        self.source.line("needs_0 = forbids_0 = 0")
        self.conjunction(literals)
        for variable in self.kinds:
            if not self.known(variable):
                self.every(variable)
        n = self._masks
        self.source.line(f"if not needs_{n} & forbids_{n}:", deeper=True)
        self.source.line(f"found.append((needs_{n}, forbids_{n}))")
        self.source.depth = depth


_UNKNOWN = (1 << 30, True)
_OWN = frozenset(
    {"t", "state", "found", "looked", "adds", "deletes", "maybe", "bit", "len", "dict", "tuple", "NOTHING"}
)
"""Names that generated functions use themselves."""
