"""Random numbers that never change: raw words of a bit generator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

Item = TypeVar("Item")

_BLOCK = 64


class Draws:
    """A stream of choices that depends on nothing but its key.

    It uses raw 64-bit words: unlike a Generator's methods, they never change between versions of numpy.

    Example:
        >>> Draws(1, 2).below(10) == Draws(1, 2).below(10)
        True
    """

    def __init__(self, *key: int):
        """Seed with non-negative integers."""
        self._words = _words(key)

    def below(self, bound: int) -> int:
        """Return an integer from 0 to ``bound - 1``."""
        return next(self._words) % bound

    def between(self, low: int, high: int) -> int:
        """Return an integer from ``low`` to ``high``."""
        return low + self.below(high - low + 1)

    def pick(self, items: Sequence[Item]) -> Item:
        """Return one of ``items``, all alike."""
        return items[self.below(len(items))]


def _words(key: tuple[int, ...]) -> Iterator[int]:
    generator = np.random.PCG64(np.random.SeedSequence(key))
    while True:
        yield from generator.random_raw(_BLOCK).tolist()
