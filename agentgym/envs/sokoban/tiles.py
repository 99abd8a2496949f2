"""Pictures of boards: a tile atlas drawn once with numpy, and lookups into it.

The tiles are this project's own drawing. The colours of ``tiny``, one pixel a cell, are
gym-sokoban's, so that models trained on its tiny world see the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from agentgym.envs.sokoban.level import SYMBOLS, WALL

Image: TypeAlias = npt.NDArray[np.uint8]
TileSize: TypeAlias = Literal[16, "tiny"]

TILE: Final = 16
"""Side of a drawn tile in pixels."""

TINY_COLOURS = {
    "#": (0, 0, 0),
    " ": (243, 248, 238),
    ".": (254, 126, 125),
    "*": (254, 95, 56),
    "$": (142, 121, 56),
    "@": (160, 212, 56),
    "+": (219, 212, 56),
}

_Y, _X = np.mgrid[0:TILE, 0:TILE]
_RADIUS = np.hypot(_Y - 7.5, _X - 7.5)


def pixels_of(tile_size: TileSize) -> int:
    """Return the side of a cell in pixels."""
    return TILE if tile_size == TILE else 1


def draw(boards: npt.NDArray[np.uint8], tile_size: TileSize) -> Image:
    """Draw boards of symbols, (n, height, width), as pictures (n, height * pixels, width * pixels, 3)."""
    n, height, width = boards.shape
    tiles = _tile_numbers().take(boards)
    if tile_size == "tiny":
        return _tiny_atlas().take(tiles, axis=0)
    atlas = _atlas()
    picture = np.empty((n, height, TILE, width, TILE * 3), dtype=np.uint8)
    for line in range(TILE):
        picture[:, :, line] = atlas[line].take(tiles, axis=0)
    return picture.reshape(n, height * TILE, width * TILE, 3)


def grid(board: bytes, width: int, extent: tuple[int, int]) -> npt.NDArray[np.uint8]:
    """Return a board's symbols as an array of shape ``extent``, with wall added on the right and below."""
    rows = np.frombuffer(board + b"\n", dtype=np.uint8).reshape(-1, width + 1)[:, :-1]
    if rows.shape == extent:
        return rows
    filled = np.full(extent, WALL, dtype=np.uint8)
    filled[: rows.shape[0], : rows.shape[1]] = rows
    return filled


@cache
def _tile_numbers() -> npt.NDArray[np.uint8]:
    numbers = np.zeros(256, dtype=np.uint8)
    for number, symbol in enumerate(SYMBOLS):
        numbers[ord(symbol)] = number
    return numbers


@cache
def _tiny_atlas() -> Image:
    return np.array([TINY_COLOURS[symbol] for symbol in SYMBOLS], dtype=np.uint8)


@cache
def _atlas() -> Image:
    """Return all tiles line by line, shape (16 lines, 7 tiles, 16 * 3)."""
    painters: dict[str, Callable[[], npt.NDArray[np.float64]]] = {
        "#": _wall,
        " ": _floor,
        ".": _target,
        "$": lambda: _box((178, 122, 62), (120, 76, 34)),
        "*": lambda: _box((96, 168, 88), (48, 104, 56)),
        "@": lambda: _player(_floor()),
        "+": lambda: _player(_covered_target()),
    }
    tiles = np.array([painters[symbol]() for symbol in SYMBOLS])
    lines = tiles.round().clip(0, 255).astype(np.uint8).transpose(1, 0, 2, 3)
    return np.ascontiguousarray(lines.reshape(TILE, len(SYMBOLS), TILE * 3))


def _plain(colour: tuple[int, int, int]) -> npt.NDArray[np.float64]:
    return np.tile(np.array(colour, dtype=np.float64), (TILE, TILE, 1))


def _bevel(tile: npt.NDArray[np.float64], rise: float, where: npt.NDArray[np.bool_]) -> None:
    """Lighten the upper and left edge of the rectangle ``where``, darken the others."""
    rows, columns = np.flatnonzero(where.any(axis=1)), np.flatnonzero(where.any(axis=0))
    top, bottom, left, right = rows[0], rows[-1], columns[0], columns[-1]
    tile[top, left : right + 1] += rise
    tile[top : bottom + 1, left] += rise
    tile[bottom, left : right + 1] -= rise
    tile[top : bottom + 1, right] -= rise


def _floor() -> npt.NDArray[np.float64]:
    tile = _plain((222, 214, 196))
    tile[0], tile[:, 0] = (211, 202, 182), (211, 202, 182)
    grains = (_Y * 7 + _X * 11 + _Y * _X) % 13 == 5
    tile[grains] -= 6
    return tile


def _wall() -> npt.NDArray[np.float64]:
    tile = _plain((92, 98, 112))
    for top, starts in ((0, (0, 8)), (5, (-4, 4, 12)), (10, (0, 8))):
        for left in starts:
            brick = (_Y >= top) & (_Y < top + 5) & (_X >= left) & (_X < left + 8)
            _bevel(tile, 24, brick)
    tile[15] = (58, 62, 74)
    return tile


def _target() -> npt.NDArray[np.float64]:
    tile = _floor()
    tile[(_RADIUS > 3.2) & (_RADIUS < 5.6)] = (206, 66, 58)
    tile[_RADIUS < 1.8] = (206, 66, 58)
    return tile


def _covered_target() -> npt.NDArray[np.float64]:
    """Return a target's tile, visible around a box or player on it."""
    tile = _floor()
    tile[_RADIUS < 8.0] = (206, 66, 58)
    tile[_RADIUS < 6.4] = (244, 176, 160)
    return tile


def _box(wood: tuple[int, int, int], frame: tuple[int, int, int]) -> npt.NDArray[np.float64]:
    tile = _floor()
    body = (_Y >= 1) & (_Y <= 14) & (_X >= 1) & (_X <= 14)
    inner = (_Y >= 4) & (_Y <= 11) & (_X >= 4) & (_X <= 11)
    tile[body] = np.array(wood) + 22.0
    tile[inner] = wood
    brace = inner & ((np.abs(_Y - _X) <= 1) | (np.abs(_Y + _X - 15) <= 1))
    tile[brace] = np.array(wood) + 30.0
    edge = body & ~((_Y >= 2) & (_Y <= 13) & (_X >= 2) & (_X <= 13))
    rim = (_Y >= 3) & (_Y <= 12) & (_X >= 3) & (_X <= 12) & ~inner
    tile[edge | rim] = frame
    return tile


def _player(ground: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    tile = ground
    ink = (30, 44, 86)
    body = ((_Y - 12.5) / 4.4) ** 2 + ((_X - 7.5) / 5.4) ** 2
    tile[(body < 1) & (_Y < 15)] = ink
    tile[(body < 0.62) & (_Y < 14)] = (58, 110, 196)
    head = np.hypot(_Y - 5.5, _X - 7.5)
    tile[head < 4.6] = ink
    tile[head < 3.7] = (246, 205, 164)
    tile[(head < 3.7) & (_Y < 4)] = (104, 66, 40)
    tile[6, [6, 9]] = ink
    return tile
