"""The atoms of one game as generated code reads them: tables by some of an atom's arguments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

from agentgym.envs.alfworld.engine.grounding import Objects
from agentgym.envs.alfworld.engine.pddl import Fact
from agentgym.envs.alfworld.engine.planes import Planes
from agentgym.envs.alfworld.engine.queries import ROOT, AtomIndex, Plane
from agentgym.errors import UsageError

Table: TypeAlias = Mapping[Any, Any]
"""What is known of the arguments -> the rows of the others.

For a predicate that never changes the rows are a list. For one that changes they are the bits of all
atoms together, and a row by each bit; bits are in the order of their atoms.
"""


class Names(dict[str, str]):
    """Object id -> the name that sentences use."""

    def __missing__(self, name: str) -> str:
        """Refuse an object that no first fact mentions."""
        raise UsageError(f"unknown construct in a PDDL problem: no fact mentions {name}, so it has no name")


class AtomTables(dict[int, Table]):
    """The tables of one game, each made when it is first read: ``tables[number]``."""

    __slots__ = (
        "_changing_atoms",
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
        self._changing_atoms: dict[str, list[Fact]] | None = None

    def __missing__(self, number: int) -> Table:
        """Make a table."""
        index = self._indexes[number]
        found = self._static(index) if index.plane == "static" else self._changing(index)
        self[number] = found
        return found

    def _static(self, index: AtomIndex) -> Table:
        table: dict[Any, list[Any]] = defaultdict(list)
        for key, row, _ in self._split(index):
            table[key].append(row)
        return dict(table)

    def _changing(self, index: AtomIndex) -> Table:
        masks: dict[Any, int] = defaultdict(int)
        rows: dict[Any, dict[int, Any]] = defaultdict(dict)
        for key, row, bit in self._split(index):
            masks[key] |= bit
            rows[key][bit] = row
        return {key: (mask, rows[key]) for key, mask in masks.items()}

    def _split(self, index: AtomIndex) -> Iterable[tuple[Any, Any, int]]:
        """Return each atom as (what it is looked up by, the other arguments, its bit)."""
        atoms = self._atoms(index.predicate, index.plane)
        if not atoms:
            return ()
        free = [i for i in range(1, len(atoms[0][0])) if i not in index.bound]
        for position, kind in zip(free, index.kinds, strict=True):
            if kind != ROOT:
                fitting = self.sets.get(kind, frozenset())
                atoms = [atom for atom in atoms if atom[0][position] in fitting]
        facts = [fact for fact, _ in atoms]
        return zip(
            _columns(facts, index.bound), _columns(facts, free), [bit for _, bit in atoms], strict=True
        )

    def _atoms(self, predicate: str, plane: Plane) -> list[tuple[Fact, int]]:
        """Return a predicate's atoms, sorted, with their bits."""
        if plane == "static":
            if self._static_atoms is None:
                self._static_atoms = _grouped(self.static)
            return [(fact, 0) for fact in sorted(self._static_atoms.get(predicate, ()))]
        if self._changing_atoms is None:
            self._changing_atoms = _grouped(self.truth)
        bits = self.shown if plane == "shown" else self.truth
        shift = self.width if plane == "negated" else 0
        return [(fact, bits[fact] << shift) for fact in self._changing_atoms.get(predicate, ())]


def _columns(facts: list[Fact], places: Sequence[int]) -> Iterable[Any]:
    """Return of each fact the argument at a place, or the tuple of those at several."""
    return map(itemgetter(*places), facts) if places else [()] * len(facts)


def _grouped(facts: Iterable[Fact]) -> dict[str, list[Fact]]:
    """Return facts by predicate, in their order."""
    groups: dict[str, list[Fact]] = defaultdict(list)
    for fact in facts:
        groups[fact[0]].append(fact)
    return groups
