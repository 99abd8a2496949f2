"""Spaces for text: membership in constant time, any Unicode."""

from __future__ import annotations

import string
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium.spaces import Space

_SAMPLE_ALPHABET = np.array(list(string.ascii_lowercase + string.digits + " "))


class UnicodeText(Space[str]):
    """All strings of at most ``max_length`` characters, of any script.

    `gymnasium.spaces.Text` admits ASCII letters and digits unless told otherwise and walks every
    character of every string it checks; observations of language environments are long and
    multilingual, so membership here looks at the type and the length only.

    The space is not a `Text` and cannot live in shared memory: pass ``shared_memory=False`` to
    `gymnasium.vector.AsyncVectorEnv`.

    Example:
        >>> space = UnicodeText(max_length=8)
        >>> "grüße" in space, "far too long" in space, 3 in space
        (True, False, False)
    """

    def __init__(self, max_length: int = 1 << 20, *, seed: int | np.random.Generator | None = None):
        """Make the space.

        Args:
            max_length: longest string admitted, in characters.
            seed: seed or generator of `sample`.

        Raises:
            ValueError: ``max_length`` is below 1.
        """
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1, got {max_length}")
        self.max_length = int(max_length)
        super().__init__(shape=None, dtype=None, seed=seed)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw 1 to 16 lower-case ASCII characters; masks have no meaning here and must be None."""
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText.sample takes no mask: draw from admissible_actions() instead")
        length = int(self.np_random.integers(1, min(16, self.max_length), endpoint=True))
        return "".join(self.np_random.choice(_SAMPLE_ALPHABET, size=length))

    def contains(self, x: Any) -> bool:
        """True for a string of at most ``max_length`` characters; O(1)."""
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        """False: text has no fixed-width array form."""
        return False

    def to_jsonable(self, sample_n: Iterable[str]) -> list[str]:
        """Strings are JSON already."""
        return list(sample_n)

    def from_jsonable(self, sample_n: Iterable[Any]) -> list[str]:
        """Inverse of `to_jsonable`."""
        return [str(x) for x in sample_n]

    def __eq__(self, other: object) -> bool:
        """Equal when the length limits are."""
        return isinstance(other, UnicodeText) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]  # mutable (it owns an RNG), like every Space

    def __repr__(self) -> str:
        """``UnicodeText(max_length)``."""
        return f"UnicodeText({self.max_length})"
