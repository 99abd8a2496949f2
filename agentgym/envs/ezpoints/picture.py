"""The table as an image: two cards on green cloth, the formula written below them.

A frame is composed from an atlas of 48 cards and 14 tiles, drawn once a process; no file is read.
"""

from __future__ import annotations

from functools import cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.envs.ezpoints.cards import RANKS, SUITS, PlayingCard
from agentgym.envs.ezpoints.formula import MAX_TOKENS, TOKENS
from agentgym.envs.ezpoints.strokes import Mask, suit, write

Pixels: TypeAlias = npt.NDArray[np.uint8]
Colors: TypeAlias = npt.NDArray[np.float64]
"""An image while it is drawn, [H, W, 3], 0 to 255."""

Indices: TypeAlias = npt.NDArray[np.intp]

HEIGHT, WIDTH = 196, 224
"""Size of a frame in pixels: 7 x 8 patches of 28, which vision encoders cut without rescaling."""

CARD_HEIGHT, CARD_WIDTH = 126, 90
CARD_TOP, CARD_LEFTS = 12, (16, 118)
TILE_HEIGHT, TILE_WIDTH = 36, 32
TILE_TOP, TILE_LEFT = 149, 16
TILES_PER_ROW = MAX_TOKENS + 1
"""Places of the formula: five tokens and ``=``."""

NO_TILE = len(TOKENS)
"""Index of the tile of a place not written yet."""

_CLOTH, _STRIP = (24, 92, 66), (13, 61, 43)
_PAPER, _EDGE = (253, 252, 247), (176, 178, 170)
_RED, _BLACK, _CHALK = (200, 28, 38), (26, 28, 34), (246, 244, 226)


def card_index(card: PlayingCard) -> int:
    """Return the position of a card in the atlas."""
    return (card.rank - RANKS.start) * len(SUITS) + card.suit


def paint(left: Indices, right: Indices, tiles: Indices) -> Pixels:
    """Return n frames, uint8[n, HEIGHT, WIDTH, 3].

    ``left``, ``right``: `card_index` of the cards, [n]; ``tiles``: index into `TOKENS`, or `NO_TILE`, for
    each place of the formula, [n, TILES_PER_ROW].
    """
    cloth, cards, signs = _atlas()
    frames = np.empty((len(left), HEIGHT, WIDTH, 3), dtype=np.uint8)
    frames[:] = cloth
    for at, which in zip(CARD_LEFTS, (left, right), strict=True):
        frames[:, CARD_TOP : CARD_TOP + CARD_HEIGHT, at : at + CARD_WIDTH] = cards[which]
    for place in range(TILES_PER_ROW):
        at = TILE_LEFT + place * TILE_WIDTH
        frames[:, TILE_TOP : TILE_TOP + TILE_HEIGHT, at : at + TILE_WIDTH] = signs[tiles[:, place]]
    return frames


@cache
def _atlas() -> tuple[Pixels, Pixels, Pixels]:
    """Draw the empty table, the cards by `card_index`, and the tiles by index into `TOKENS`."""
    cloth = _flat(HEIGHT, WIDTH, _CLOTH)
    strip = _rounded(TILE_HEIGHT + 6, WIDTH - 20, 8)
    cloth[TILE_TOP - 3 : TILE_TOP + TILE_HEIGHT + 3, 10:-10] = _over(
        cloth[TILE_TOP - 3 : TILE_TOP + TILE_HEIGHT + 3, 10:-10], strip, _STRIP
    )
    cards = [_card(PlayingCard(rank, sign)) for rank in RANKS for sign in range(len(SUITS))]
    empty = _flat(TILE_HEIGHT, TILE_WIDTH, _STRIP)
    written = [
        _over(empty, write(token, TILE_HEIGHT, TILE_WIDTH, size=18, weight=3), _CHALK) for token in TOKENS
    ]
    return _bytes(cloth), _bytes(np.stack(cards)), _bytes(np.stack([*written, empty]))


def _card(card: PlayingCard) -> Colors:
    ink = _RED if SUITS[card.suit] in ("diamonds", "hearts") else _BLACK
    face = _over(_flat(CARD_HEIGHT, CARD_WIDTH, _CLOTH), _rounded(CARD_HEIGHT, CARD_WIDTH, 9), _EDGE)
    face[1:-1, 1:-1] = _over(face[1:-1, 1:-1], _rounded(CARD_HEIGHT - 2, CARD_WIDTH - 2, 8), _PAPER)
    corner = np.zeros((CARD_HEIGHT, CARD_WIDTH))
    corner[6:26, 5:27] = write(card.face, 20, 22, size=14, weight=2.2)
    corner[27:40, 10:23] = suit(SUITS[card.suit], 13)
    marks = np.maximum(corner, corner[::-1, ::-1])
    marks[20:62, 28:74] = np.maximum(marks[20:62, 28:74], write(card.face, 42, 46, size=32, weight=4.6))
    marks[70:106, 20:56] = suit(SUITS[card.suit], 36)
    return _over(face, marks, ink)


def _rounded(height: int, width: int, radius: int) -> Mask:
    """Return a filled rectangle with round corners."""
    y, x = np.mgrid[:height, :width] + 0.5
    dx = np.maximum(0, np.maximum(radius - x, x - (width - radius)))
    dy = np.maximum(0, np.maximum(radius - y, y - (height - radius)))
    coverage: Mask = np.clip(radius - np.hypot(dx, dy) + 0.5, 0, 1)
    return coverage


def _flat(height: int, width: int, color: tuple[int, int, int]) -> Colors:
    return np.tile(np.array(color, dtype=np.float64), (height, width, 1))


def _over(below: Colors, mask: Mask, color: tuple[int, int, int]) -> Colors:
    """Paint ``color`` through a mask."""
    painted: Colors = below + mask[..., None] * (np.array(color) - below)
    return painted


def _bytes(image: Colors) -> Pixels:
    return np.rint(image).astype(np.uint8)
