"""Spaces for text: membership in constant time, any Unicode."""

from __future__ import annotations

import ctypes
import multiprocessing
import string
from collections.abc import Sequence
from typing import Any, overload

import numpy as np
from gymnasium.spaces import Space
from gymnasium.spaces.utils import flatten, flatten_space, unflatten
from gymnasium.vector.utils.shared_memory import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
from gymnasium.wrappers.utils import create_zero_array

_SAMPLE_ALPHABET = np.array(list(string.ascii_lowercase + string.digits + " "))


class UnicodeText(Space[str]):
    """All strings of at most ``max_length`` characters, of any script.

    `gymnasium.spaces.Text` admits ASCII letters and digits by default and walks every
    character of every string it checks; observations of language environments are long and
    multilingual, so membership here looks at the type and the length only.

    The space is not a `Text`. It lives in the shared memory of `gymnasium.vector.AsyncVectorEnv`
    (`SharedTexts`), and Gymnasium's wrappers stack it and pad it with the empty string. It has no form as
    a flat array: flattened, it stays as it is, as Gymnasium does with its own spaces of that kind.

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

    def __eq__(self, other: object) -> bool:
        """Equal when the length limits are."""
        return isinstance(other, UnicodeText) and self.max_length == other.max_length

    __hash__ = None  # type: ignore[assignment]  # mutable (it owns an RNG), like every Space

    def __repr__(self) -> str:
        """``UnicodeText(max_length)``."""
        return f"UnicodeText({self.max_length})"


class SharedTexts(Sequence[str]):
    """The strings of n slots in shared memory, as they are now.

    A slot is a length of eight bytes and the string in UTF-8, at most four bytes a character.
    """

    def __init__(self, space: UnicodeText, n: int, memory: Any):
        """View ``memory`` of n slots, as `create_shared_memory` makes it for the space of one."""
        self._n = n
        self._slot = _slot_bytes(space)
        self._bytes = memoryview(memory).cast("B")

    def __len__(self) -> int:
        """Number of slots."""
        return self._n

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[str, ...]: ...
    def __getitem__(self, index: int | slice) -> str | tuple[str, ...]:
        """Return the string of a slot, or of several."""
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._n)))
        if not -self._n <= index < self._n:
            raise IndexError(f"slot {index} is outside 0 to {self._n - 1}")
        start = index % self._n * self._slot
        length = int.from_bytes(self._bytes[start : start + _LENGTH], "little")
        return bytes(self._bytes[start + _LENGTH : start + _LENGTH + length]).decode(*_ENCODING)

    def __deepcopy__(self, memo: dict[int, Any]) -> tuple[str, ...]:
        """Return the same strings, which are immutable, where a vector environment copies."""
        return tuple(self)

    def write(self, index: int, text: str) -> None:
        """Put a string into a slot."""
        encoded = text.encode(*_ENCODING)
        start = index * self._slot
        if _LENGTH + len(encoded) > self._slot:
            raise ValueError(f"a text of {len(text)} characters is longer than its space admits")
        self._bytes[start + _LENGTH : start + _LENGTH + len(encoded)] = encoded
        self._bytes[start : start + _LENGTH] = len(encoded).to_bytes(_LENGTH, "little")


_LENGTH = 8
_ENCODING = ("utf-8", "surrogatepass")


def _slot_bytes(space: UnicodeText) -> int:
    return _LENGTH + 4 * space.max_length


@create_shared_memory.register(UnicodeText)
def _create_texts(space: UnicodeText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.RawArray(ctypes.c_uint8, n * _slot_bytes(space))


@read_from_shared_memory.register(UnicodeText)
def _read_texts(space: UnicodeText, shared_memory: Any, n: int = 1) -> SharedTexts:
    return SharedTexts(space, n, shared_memory)


@write_to_shared_memory.register(UnicodeText)
def _write_text(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    SharedTexts(space, index + 1, shared_memory).write(index, value)


@create_zero_array.register(UnicodeText)
def _empty_text(space: UnicodeText) -> str:  # type: ignore[misc]  # a Space[str], as the fallback takes
    return ""


@flatten_space.register(UnicodeText)
def _flatten_space(space: UnicodeText) -> UnicodeText:
    return space


@flatten.register(UnicodeText)
@unflatten.register(UnicodeText)
def _flatten(space: UnicodeText, x: str) -> str:  # type: ignore[misc]
    return x
