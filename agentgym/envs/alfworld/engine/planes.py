"""State bits: the fact that each bit stands for.

A state has three planes of bits. The first has one bit for each fluent atom: the truth, on which
preconditions and the goal depend. The second has one for each *negated* atom, which the real engine
records as a fact once an action has deleted the atom, and which its grammar can read. The third is
only for atoms with conditional effects: the real engine records all of an action's conditional
effects, whether their condition held or not, additions first, so what its grammar reads of such an
atom is not the truth.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agentgym.envs.alfworld.engine.pddl import TRUE, Domain, Fact


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
    width: int
    """Bits of a plane: a negated atom's bit lies this much to the left of the atom's."""
    every: int
    """All bits of all planes."""

    def __init__(self, domain: Domain, fluents: tuple[Fact, ...], static: frozenset[Fact]):
        """Give every fluent atom its bits; ``fluents`` are sorted."""
        self.fluents, self.static = fluents, static
        self.width = width = len(self.fluents)
        self.truth = {fact: 1 << i for i, fact in enumerate(self.fluents)}
        unsure = {e.literal.predicate for s in domain.schemas for e in s.effects if e.condition != TRUE}
        doubtful = [fact for fact in self.fluents if fact[0] in unsure]
        self.shown = {**self.truth, **{fact: 1 << 2 * width + i for i, fact in enumerate(doubtful)}}
        self._doubtful = [(self.truth[fact], self.shown[fact]) for fact in doubtful]
        self.every = (1 << 2 * width + len(doubtful)) - 1

    def start(self, init: Iterable[Fact]) -> int:
        """Return the state in which ``init`` holds and nothing has been deleted."""
        return union(self.truth[fact] | self.shown[fact] for fact in init if fact in self.truth)

    def mask(self, facts: Iterable[Fact]) -> int:
        """Return the bits of the truth of fluent atoms."""
        return union(self.truth[fact] for fact in facts)

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
