"""Lucene's document lengths: one byte, exact below 40 terms, then with four bits.

Source: Lucene's ``SmallFloat.intToByte4`` and ``BM25Similarity``. What it loses decides the order of
documents that score alike, so an index without it ranks otherwise than Lucene.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FREE = 24
"""Codes that stand for themselves."""


def byte_length(code: int) -> int:
    """Return the length that a byte stands for.

    Example:
        >>> [byte_length(code) for code in (0, 23, 40, 41, 255)]
        [0, 23, 40, 42, 2013265944]
    """
    code -= FREE
    if code < 0:
        return code + FREE
    bits, shift = code & 7, (code >> 3) - 1
    return FREE + (bits if shift < 0 else (bits | 8) << shift)


LENGTHS: npt.NDArray[np.int64] = np.array([byte_length(code) for code in range(256)])
"""[256] the length that each byte stands for, ascending."""


def encode_lengths(lengths: npt.NDArray[np.integer]) -> npt.NDArray[np.uint8]:
    """Return the byte of each length: that of the largest coded length which is no larger."""
    return (np.searchsorted(LENGTHS, lengths, side="right") - 1).astype(np.uint8)
