"""Random numbers from a seed, which never change between versions, machines and batches.

`TurnRng` is counter-based: a pure function of an episode's seed and its turn, cheap enough for every
action. A generator per episode would make an action depend on how many were drawn before it, and a
`SeedSequence` per action costs more than the step it decides. `KeyRng` is a stream for generators of
content: raw words of a bit generator, which numpy keeps stable where a Generator's methods may change.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
"""The odd number nearest to 2^64 divided by the golden ratio."""


def mix(value: int) -> int:
    """Return a 64-bit integer whose every bit depends on every bit of ``value``; a bijection.

    The finaliser of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
    generators", OOPSLA 2014, Figure 16: variant 13 of Stafford).
    """
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


class TurnRng:
    """The random numbers of one turn of one episode, in order.

    Example:
        >>> rng, again = TurnRng(seed=7, turn=3), TurnRng(seed=7, turn=3)
        >>> [rng.below(10) for _ in range(5)] == [again.below(10) for _ in range(5)]
        True
    """

    __slots__ = ("_state",)

    def __init__(self, seed: int, turn: int):
        """Start at the beginning of a turn.

        Args:
            seed: of the episode; its lowest 64 bits count.
            turn: steps taken so far.
        """
        self._state = mix((seed + (turn + 1) * _GAMMA) & _MASK)

    def below(self, bound: int) -> int:
        """Draw an integer uniformly from 0 to ``bound - 1``; the bias is below ``bound / 2^64``."""
        self._state = (self._state + _GAMMA) & _MASK
        return (mix(self._state) * bound) >> 64


Item = TypeVar("Item")

_BLOCK = 64


class KeyRng:
    """A stream of choices that depends on nothing but its key.

    It uses raw 64-bit words: unlike a Generator's methods, they never change between versions of numpy.

    Example:
        >>> KeyRng(1, 2).below(10) == KeyRng(1, 2).below(10)
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
