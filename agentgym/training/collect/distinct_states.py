"""Distinct states that a run has been in, counted by hash."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Self

import numpy as np

_BUFFER = 1 << 14
"""Number of new states that are merged at once."""


class DistinctStates:
    """Set of states that takes 8 bytes for each, in memory and in checkpoints.

    A state's hash is known by 64 bits: of n states, two are taken for one with a probability of at most
    n^2 / 2^65, 3e-8 for a million.

    Example:
        >>> states = DistinctStates()
        >>> states.add(["ab", "cd", "ab"])
        >>> len(states), len(DistinctStates.from_bytes(states.to_bytes()))
        (2, 2)
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._known = np.empty(0, np.uint64)
        """Ascending."""
        self._new: set[int] = set()

    def add(self, hashes: Iterable[str]) -> None:
        """Count states by their hashes, or other names."""
        self._new.update(_key(each) for each in hashes)
        if len(self._new) >= _BUFFER:
            self._merge()

    def __len__(self) -> int:
        """Return how many there are."""
        self._merge()
        return len(self._known)

    def _merge(self) -> None:
        new = np.sort(np.fromiter(self._new, np.uint64, len(self._new)))
        places = np.searchsorted(self._known, new)
        unknown = np.searchsorted(self._known, new, side="right") == places
        self._known, self._new = np.insert(self._known, places[unknown], new[unknown]), set()

    def to_bytes(self) -> bytes:
        """Return the states for a checkpoint."""
        self._merge()
        return self._known.astype("<u8").tobytes()

    @classmethod
    def from_bytes(cls, packed: bytes) -> Self:
        """Return what `to_bytes` has packed."""
        states = cls()
        states._known = np.frombuffer(packed, "<u8").astype(np.uint64)
        return states


def _key(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "little")
