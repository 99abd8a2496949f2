"""Sets of cells as bit masks: bit i stands for cell i of a board's text.

Python's integers shift and combine whole boards at once, which makes floods, frozen boxes and
pushes cheap enough to look at on every step.
"""

from __future__ import annotations


def _selector(symbols: str) -> bytes:
    return bytes(ord("1") if chr(i) in symbols else ord("0") for i in range(256))


_WALLS, _BOXES, _TARGETS, _LOOSE = (_selector(s) for s in ("#", "$*", ".*+", "$"))


def walls(board: bytes | bytearray) -> int:
    """Return the walls as a bit mask: bit i is cell i of the board."""
    return int(board.translate(_WALLS)[::-1], 2)


def boxes(board: bytes | bytearray) -> int:
    """Return the boxes as a bit mask."""
    return int(board.translate(_BOXES)[::-1], 2)


def targets(board: bytes | bytearray) -> int:
    """Return the targets as a bit mask, whatever stands on them."""
    return int(board.translate(_TARGETS)[::-1], 2)


def loose_boxes(board: bytes | bytearray) -> int:
    """Return the boxes that are not on a target as a bit mask."""
    return int(board.translate(_LOOSE)[::-1], 2)


def cells(mask: int) -> list[int]:
    """Return the indices of a mask's bits, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found


def flood(start: int, free: int, stride: int) -> int:
    """Return the cells of the mask ``free`` connected with the cells of the mask ``start``."""
    reached, before = start, 0
    while reached != before:
        before = reached
        reached |= (reached << 1 | reached >> 1 | reached << stride | reached >> stride) & free
    return reached
