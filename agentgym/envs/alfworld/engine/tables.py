"""The atoms of one game as generated code reads them: tables by some of an atom's arguments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress
from operator import itemgetter
from typing import Any, TypeAlias

from agentgym.envs.alfworld.engine.codegen import ROOT, AtomIndex
from agentgym.envs.alfworld.engine.grounding import Objects
from agentgym.envs.alfworld.engine.pddl import Fact
from agentgym.envs.alfworld.engine.planes import Planes
from agentgym.errors import UsageError

Table: TypeAlias = Mapping[Any, Any]
"""Rows of a table, by the known arguments.

For a predicate that never changes the rows are a tuple of the other arguments. For one that changes they are
the bits of all atoms together, and a row by each bit; bits are in the order of their atoms."""


class Names(dict[str, str]):
    """Object id -> the name that sentences use."""

    def __missing__(self, name: str) -> str:
        """Refuse an object that no first fact mentions."""
        raise UsageError(f"unknown construct in a PDDL problem: no fact mentions {name}, so it has no name")


class AtomTables(dict[int, Table]):
    """The tables of one game, each made when it is first read: ``tables[number]``."""

    __slots__ = (
        "_columns",
        "_indexes",
        "_planes",
        "_static_atoms",
        "members",
        "names",
        "sets",
        "shown",
        "static",
        "task",
        "truth",
        "types",
        "width",
    )  # fmt: skip

    def __init__(
        self,
        planes: Planes,
        objects: Objects,
        names: Mapping[str, str],
        task: str,
        indexes: Sequence[AtomIndex],
    ):
        """Hold the parts of the tables; ``indexes`` may grow."""
        super().__init__()
        self._planes, self._indexes = planes, indexes
        self.truth, self.shown, self.static, self.width = (
            planes.truth,
            planes.shown,
            planes.static,
            planes.width,
        )
        self.members, self.sets, self.types = objects.members, objects.sets, objects.type_of
        self.names, self.task = Names(names), task
        self._static_atoms: dict[str, list[Fact]] | None = None
        self._columns: dict[tuple[str, int], set[str]] = {}

    def __missing__(self, number: int) -> Table:
        """Make a table."""
        index = self._indexes[number]
        found = self._static(index) if index.plane == "static" else self._changing(index)
        self[number] = found
        return found

    def _static(self, index: AtomIndex) -> Table:
        facts = sorted(self._static_facts(index.predicate))
        table: dict[Any, list[Any]] = defaultdict(list)
        for key, row, _ in self._split(index, facts, [0] * len(facts)):
            table[key].append(row)
        return {key: tuple(rows) for key, rows in table.items()}

    def _changing(self, index: AtomIndex) -> Table:
        masks: dict[Any, int] = defaultdict(int)
        rows: dict[Any, dict[int, Any]] = defaultdict(dict)
        atoms = self._planes.atoms(index.predicate)
        bits = self._planes.bits(index.predicate, index.plane)
        for key, row, bit in self._split(index, atoms, bits):
            masks[key] |= bit
            rows[key][bit] = row
        return {key: (mask, rows[key]) for key, mask in masks.items()}

    def column(self, predicate: str, position: int) -> Collection[str]:
        """Return the objects at a position, from 1, of a predicate's atoms."""
        key = (predicate, position)
        if key not in self._columns:
            facts = [*self._planes.atoms(predicate), *self._static_facts(predicate)]
            self._columns[key] = {fact[position] for fact in facts}
        return self._columns[key]

    def _static_facts(self, predicate: str) -> list[Fact]:
        if self._static_atoms is None:
            groups: dict[str, list[Fact]] = defaultdict(list)
            for fact in self.static:
                groups[fact[0]].append(fact)
            self._static_atoms = groups
        return self._static_atoms.get(predicate, [])

    def _split(
        self, index: AtomIndex, facts: Sequence[Fact], bits: Sequence[int]
    ) -> Iterable[tuple[Any, Any, int]]:
        """Return each atom as (what it is looked up by, the other arguments, its bit)."""
        if not facts:
            return ()
        free = [i for i in range(1, len(facts[0])) if i not in index.bound]
        for position, kind in zip(free, index.kinds, strict=True):
            if kind != ROOT:
                fitting = self.sets.get(kind, frozenset())
                fits = [fact[position] in fitting for fact in facts]
                if not all(fits):
                    facts, bits = list(compress(facts, fits)), list(compress(bits, fits))
        return zip(_columns(facts, index.bound), _columns(facts, free), bits, strict=True)


def _columns(facts: Sequence[Fact], places: Sequence[int]) -> Iterable[Any]:
    """Return of each fact the argument at a place, or the tuple of those at several."""
    return map(itemgetter(*places), facts) if places else [()] * len(facts)
