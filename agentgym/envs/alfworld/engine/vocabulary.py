"""What the sentences of one game can be about: its atoms, found by their arguments, and its names."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from agentgym.envs.alfworld.engine.grounding import Objects
from agentgym.envs.alfworld.engine.pddl import Fact
from agentgym.envs.alfworld.engine.planes import Planes


class Vocabulary:
    """The atoms and objects of one game, as its grammar sees them."""

    def __init__(self, planes: Planes, objects: Objects, init: Iterable[Fact]):
        """Name the objects that the problem's first facts mention; no other has a name."""
        self.names = display_names(name for fact in init for name in fact[1:])
        self._objects, self._planes = objects, planes
        self._atoms: dict[str, list[tuple[Fact, int]]] = defaultdict(list)
        for fact in planes.static:
            self._atoms[fact[0]].append((fact, 0))
        for fact, bit in planes.shown.items():
            self._atoms[fact[0]].append((fact, bit))
        self._indexes: dict[tuple[str, tuple[int, ...]], dict[Fact, list[tuple[Fact, int]]]] = {}
        self._sorted: set[str] = set()

    def candidates(self, predicate: str, bound: Sequence[str | None]) -> Sequence[tuple[Fact, int]]:
        """Return the atoms that could ever hold, sorted, with their bits (0: it always holds).

        Args:
            predicate: the predicate's name; ``not_`` before one that changes means its recorded negation.
            bound: for each argument the object it must be, or None.
        """
        if predicate.startswith("not_") and predicate not in self._atoms:
            truth, width = self._planes.truth, self._planes.width
            positive = [fact for fact, _ in self.candidates(predicate[4:], bound) if fact in truth]
            return [((predicate, *fact[1:]), truth[fact] << width) for fact in positive]
        where = tuple(i for i, value in enumerate(bound, 1) if value is not None)
        index = self._indexes.get((predicate, where))
        if index is None:
            index = self._indexes[predicate, where] = defaultdict(list)
            for atom in self._of(predicate):
                index[tuple([atom[0][i] for i in where])].append(atom)
        return index.get(tuple([value for value in bound if value is not None]), ())

    def count(self, predicate: str) -> int:
        """Return how many atoms a predicate can have."""
        return len(self._atoms.get(predicate, ()))

    def is_a(self, name: str, kind: str) -> bool:
        """Return whether an object is of a type."""
        return name in self._objects.sets.get(kind, ())

    def attribute(self, name: str, attribute: str) -> str:
        """Return an object's ``name``, ``id``, ``definite``, ``indefinite`` or ``type``."""
        match attribute:
            case "id":
                return name
            case "indefinite":
                return "a"
            case "definite":
                return "the"
            case "type":
                return self._objects.type_of[name]
        return self.names[name]

    def _of(self, predicate: str) -> list[tuple[Fact, int]]:
        facts = self._atoms.get(predicate, [])
        if predicate not in self._sorted:
            facts.sort()
            self._sorted.add(predicate)
        return facts


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
