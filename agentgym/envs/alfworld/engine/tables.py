"""The atoms of one game as generated code reads them: tables by some of an atom's arguments."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from agentgym.envs.alfworld.engine.grounding import Objects
from agentgym.envs.alfworld.engine.pddl import Fact
from agentgym.envs.alfworld.engine.planes import Planes
from agentgym.envs.alfworld.engine.queries import ROOT, Index
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


class Tables(dict[int, Table]):
    """The tables of one game, each made when it is first read: ``tables[number]``."""

    __slots__ = ("_by_predicate", "_indexes", "_planes", "members", "names", "sets", "shown", "static", "task", "truth", "types", "width")  # fmt: skip

    def __init__(
        self, planes: Planes, objects: Objects, names: Mapping[str, str], task: str, indexes: Sequence[Index]
    ):
        """Hold what tables are made of.

        Args:
            planes: the game's atoms.
            objects: its objects by type.
            names: what sentences call them.
            task: the sentence of the game's task, where the grammar's code leaves it to the game.
            indexes: what each number stands for; may grow.
        """
        super().__init__()
        self._planes, self._indexes = planes, indexes
        self.truth, self.shown, self.static, self.width = planes.truth, planes.shown, planes.static, planes.width
        self.members, self.sets, self.types = objects.members, objects.sets, objects.type_of
        self.names, self.task = Names(names), task
        self._by_predicate: dict[str, dict[str, Sequence[tuple[Fact, int]]]] = {}

    def __missing__(self, number: int) -> Table:
        """Make a table."""
        index = self._indexes[number]
        found = self._static(index) if index.plane == "static" else self._changing(index)
        self[number] = found
        return found

    def _static(self, index: Index) -> Table:
        table: dict[Any, list[Any]] = defaultdict(list)
        for key, row, _ in self._split(index):
            table[key].append(row)
        return dict(table)

    def _changing(self, index: Index) -> Table:
        masks: dict[Any, int] = defaultdict(int)
        rows: dict[Any, dict[int, Any]] = defaultdict(dict)
        for key, row, bit in self._split(index):
            masks[key] |= bit
            rows[key][bit] = row
        return {key: (mask, rows[key]) for key, mask in masks.items()}

    def _split(self, index: Index) -> Iterator[tuple[Any, Any, int]]:
        """Yield each atom as (what it is looked up by, the other arguments, its bit)."""
        atoms = self._atoms(index.plane).get(index.predicate, ())
        if not atoms:
            return
        bound = index.bound
        free = [i for i in range(1, len(atoms[0][0])) if i not in bound]
        checks = [
            (position, self.sets.get(kind, frozenset()))
            for position, kind in zip(free, index.kinds, strict=True)
            if kind != ROOT
        ]
        one_key, one_row = bound[0] if len(bound) == 1 else 0, free[0] if len(free) == 1 else 0
        for fact, bit in atoms:
            for position, fitting in checks:
                if fact[position] not in fitting:
                    break
            else:
                key = fact[one_key] if one_key else tuple([fact[i] for i in bound])
                yield key, fact[one_row] if one_row else tuple([fact[i] for i in free]), bit

    def _atoms(self, plane: str) -> dict[str, Sequence[tuple[Fact, int]]]:
        """Return the atoms of a plane by predicate, sorted, with their bits."""
        found = self._by_predicate.get(plane)
        if found is None:
            atoms: dict[str, list[tuple[Fact, int]]] = defaultdict(list)
            if plane == "static":
                for fact in sorted(self.static):
                    atoms[fact[0]].append((fact, 0))
            else:
                bits = self.shown if plane == "shown" else self.truth
                shift = self.width if plane == "negated" else 0
                for fact, bit in bits.items():
                    atoms[fact[0]].append((fact, bit << shift))
            found = self._by_predicate[plane] = dict(atoms)
        return found
