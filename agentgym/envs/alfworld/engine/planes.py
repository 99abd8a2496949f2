"""State bits: the fact that each bit stands for.

A state has three planes of bits. The first has one bit for each fluent atom: the truth, on which
preconditions and the goal depend. The second has one for each *negated* atom, which the real engine
records as a fact once an action has deleted the atom, and which its grammar can read. The third is
only for atoms with conditional effects: the real engine records all of an action's conditional
effects, whether their condition held or not, additions first, so what its grammar reads of such an
atom is not the truth.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from agentgym.envs.alfworld.engine.codegen import Plane
from agentgym.envs.alfworld.engine.pddl import Domain, Fact

SHARED = 1 << 14
"""Bits that all games share: together they take 17 MB."""

_shared: list[int] = []
"""``1 << i`` at i, as far as a game has asked."""


class Planes:
    """Assignment of bits to the atoms of one game."""

    fluents: tuple[Fact, ...]
    """Atoms that can change, sorted: bit i of the first plane is atom i."""
    static: frozenset[Fact]
    """Atoms that hold throughout."""
    truth: Mapping[Fact, int]
    """Fluent atom -> its bit of the first plane."""
    shown: Mapping[Fact, int]
    """Fluent atom -> the bit that the grammar reads."""
    blocks: Mapping[str, tuple[int, int]]
    """Predicate -> where its atoms are among the fluents, and end."""
    width: int
    """Bits of a plane: a negated atom's bit lies this much to the left of the atom's."""
    every: int
    """All bits of all planes."""

    def __init__(self, domain: Domain, fluents: tuple[Fact, ...], static: frozenset[Fact]):
        """Give every fluent atom its bits; ``fluents`` are sorted."""
        self.fluents, self.static = fluents, static
        self.width = width = len(self.fluents)
        self.blocks = _blocks(fluents)
        self._bits = _powers(2 * width)
        self.truth = dict(zip(fluents, self._bits, strict=False))
        doubtful = [fact for name in sorted(domain.doubtful) for fact in self.atoms(name)]
        self.shown = self.truth
        if doubtful:
            self.shown = {**self.truth, **{fact: 1 << 2 * width + i for i, fact in enumerate(doubtful)}}
        self._doubtful = [(self.truth[fact], self.shown[fact]) for fact in doubtful]
        self.every = (1 << 2 * width + len(doubtful)) - 1

    def start(self, init: Iterable[Fact]) -> int:
        """Return the state in which ``init`` holds and nothing has been deleted."""
        return union(self.truth[fact] | self.shown[fact] for fact in init if fact in self.truth)

    def atoms(self, predicate: str) -> Sequence[Fact]:
        """Return a predicate's atoms that can change, sorted."""
        start, stop = self.blocks.get(predicate, (0, 0))
        return self.fluents[start:stop]

    def bits(self, predicate: str, plane: Plane = "truth") -> Sequence[int]:
        """Return the bits of `atoms` in a plane that has any."""
        if plane == "shown":
            return [self.shown[fact] for fact in self.atoms(predicate)]
        start, stop = self.blocks.get(predicate, (0, 0))
        shift = self.width if plane == "negated" else 0
        return self._bits[start + shift : stop + shift]

    def mask(self, predicates: Iterable[str]) -> int:
        """Return the bits of the truth of predicates' atoms."""
        blocks = (self.blocks[name] for name in predicates)
        return union((1 << stop) - (1 << start) for start, stop in blocks)

    def facts(self, state: int) -> set[Fact]:
        """Return every fact of a state as the real engine lists them."""
        recorded = {fact for fact, bit in self.shown.items() if state & bit}
        negated = {(f"not_{f[0]}", *f[1:]) for f, bit in self.truth.items() if state & bit << self.width}
        return set(self.static) | recorded | negated

    def change(self, adds: int, deletes: int) -> tuple[int, int]:
        """Return (bits that survive, bits that become set): an atom that changes loses its opposite."""
        lost = deletes | adds << self.width
        became = adds | deletes << self.width
        for truth, shown in self._doubtful:
            if truth & adds:
                became |= shown
            elif truth & deletes:
                lost |= shown
        return self.every & ~lost, became

    def record(self, effects: Iterable[tuple[int, bool]]) -> tuple[int, int]:
        """Return (bits set, bits cleared) in the records of conditional effects.

        ``effects``: an atom's bit of truth and whether the effect adds it.
        """
        appear = vanish = 0
        for bit, positive in sorted(effects, key=lambda effect: not effect[1]):
            shown = self.shown[self.fluents[bit.bit_length() - 1]]
            negated = bit << self.width
            new, old = (shown, negated) if positive else (negated, shown)
            appear, vanish = (appear | new) & ~old, (vanish | old) & ~new
        return appear, vanish


def _blocks(facts: Sequence[Fact]) -> dict[str, tuple[int, int]]:
    """Return where each predicate's facts are among sorted ones."""
    blocks: dict[str, tuple[int, int]] = {}
    at = 0
    while at < len(facts):
        name = facts[at][0]
        end = bisect_left(facts, (f"{name}\0",), at + 1)
        blocks[name] = (at, end)
        at = end
    return blocks


def _powers(count: int) -> list[int]:
    """Return at least the first ``count`` powers of two; equal numbers are one object as far as `SHARED`."""
    if count > SHARED:
        return [1 << i for i in range(count)]
    _shared.extend([1 << i for i in range(len(_shared), count)])
    return _shared


def union(masks: Iterable[int]) -> int:
    """Return the bits that any mask has."""
    total = 0
    for mask in masks:
        total |= mask
    return total


def indexes(mask: int) -> list[int]:
    """Return the numbers of the bits of a mask, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
