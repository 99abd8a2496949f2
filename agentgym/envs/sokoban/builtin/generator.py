"""Levels by reverse play: carve a room, put boxes on targets, pull them away.

Candidate c of a configuration depends on nothing but the generator's version, the configuration and
c. Every level is solvable because it was reached from its solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.envs.sokoban.level import BOX, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET, WALL, Level
from agentgym.envs.sokoban.masks import cells, flood
from agentgym.errors import UsageError

VERSION = 1
"""Part of every candidate's seed; a change of the levels made changes it."""

MIN_PULLS = 2
"""A level takes at least this many pushes, so that none is won by one push."""

MAX_LAYOUTS = 2_000
"""Layouts explored by reverse play before it takes the best found."""

_WALK = 4
"""Steps of the carving walk for each cell of the room, at most."""


@dataclass(frozen=True, slots=True)
class Config:
    """Configuration of generated levels.

    Example:
        >>> Config(6, 6, 1).name
        '6x6-1'
    """

    height: int
    """Rows, walls included."""
    width: int
    """Columns, walls included."""
    boxes: int

    def __post_init__(self) -> None:
        """Refuse rooms that cannot hold the boxes."""
        inside = (self.height - 2) * (self.width - 2)
        if not 5 <= min(self.height, self.width) <= max(self.height, self.width) <= 32:
            raise UsageError(f"dim_room must be from (5, 5) to (32, 32), got ({self.height}, {self.width})")
        if not 1 <= self.boxes <= min(inside // 4, 8):
            raise UsageError(
                f"num_boxes must be from 1 to {min(inside // 4, 8)} in a {self.height}x{self.width} room, "
                f"got {self.boxes}"
            )

    @property
    def name(self) -> str:
        """``HEIGHTxWIDTH-BOXES``."""
        return f"{self.height}x{self.width}-{self.boxes}"


def generate(config: Config, candidate: int) -> Level | None:
    """Return candidate number ``candidate``, or None where its room allows no level.

    No box starts on a target, and the level takes at least `MIN_PULLS` pushes.
    """
    seed = np.random.SeedSequence((VERSION, config.height, config.width, config.boxes, candidate))
    # raw 64-bit words: unlike a Generator's methods, they never change between versions of numpy
    words = np.random.PCG64(seed).random_raw(4 + config.boxes + _WALK * config.height * config.width)
    size, start, pick, stand, *rest = words.tolist()
    room = _carve(config, size, start, rest[config.boxes :])
    floor = cells(room)
    if len(floor) < 2 * config.boxes + 1:
        return None
    targets = sum(1 << floor.pop(word % len(floor)) for word in rest[: config.boxes])
    by_pulls = _pull(room, targets, config.width + 1)
    apart = [[node for node in layer if not node[0] & targets] for layer in by_pulls[MIN_PULLS:]]
    apart = [layer for layer in apart if layer]
    if not apart:
        return None
    layer = apart[(pick >> 32) % len(apart)]  # all depths alike: easy and hard levels
    boxes, region = layer[(pick & 0xFFFFFFFF) % len(layer)]
    stands = cells(region)
    return Level.of_board(_draw(config, room, targets, boxes, stands[stand % len(stands)]))


def _carve(config: Config, size: int, start: int, words: list[int]) -> int:
    """Return a connected floor: a random walk that prefers to go on, with a brush of 1 to 4 cells."""
    rows, columns, stride = config.height - 2, config.width - 2, config.width + 1
    inside = rows * columns
    wanted = inside // 2 + size % (inside - inside // 2 + 1)
    row, column = divmod(start % inside, columns)
    direction = start >> 62
    room = 0
    for word in words:
        for d_row in range(1 + (word >> 4 & 1)):
            for d_column in range(1 + (word >> 5 & 1)):
                r, c = min(row + d_row, rows - 1), min(column + d_column, columns - 1)
                room |= 1 << (r + 1) * stride + c + 1
        if room.bit_count() >= wanted:
            break
        if (word >> 8 & 255) < 90:  # about one step in three turns
            direction = word & 3
        row = min(max(row + (-1, 1, 0, 0)[direction], 0), rows - 1)
        column = min(max(column + (0, 0, -1, 1)[direction], 0), columns - 1)
    return room


def _pull(room: int, targets: int, stride: int) -> list[list[tuple[int, int]]]:
    """Explore reverse play from the solved board, breadth first.

    Returns, for each number of pulls, the layouts (boxes, region of the player) first reached with it.
    """
    layer = []
    rest = room & ~targets
    while rest:
        region = flood(rest & -rest, room & ~targets, stride)
        rest &= ~region
        layer.append((targets, region))
    seen = set(layer)
    layers = []
    while layer:
        layers.append(layer)
        if len(seen) >= MAX_LAYOUTS:
            break
        following = []
        for boxes, region in layer:
            free = room & ~boxes
            for delta in (-stride, stride, -1, 1):
                # the player stands at x (in its region) beside a box at x - delta and steps to x + delta
                beside = _shift(boxes, delta) & region & _shift(free, -delta)
                while beside:
                    stand = beside & -beside
                    beside ^= stand
                    pulled = boxes ^ _shift(stand, -delta) | stand
                    node = (pulled, flood(_shift(stand, delta), room & ~pulled, stride))
                    if node not in seen:
                        seen.add(node)
                        following.append(node)
        layer = following
    return layers


def _shift(mask: int, delta: int) -> int:
    return mask << delta if delta > 0 else mask >> -delta


def _draw(config: Config, room: int, targets: int, boxes: int, player: int) -> bytes:
    stride = config.width + 1
    board = bytearray((bytes([WALL]) * config.width + b"\n") * config.height)[:-1]
    for symbol, mask in ((FLOOR, room), (TARGET, targets), (BOX, boxes)):
        for cell in cells(mask):
            board[cell] = symbol
    board[player] = PLAYER_ON_TARGET if targets >> player & 1 else PLAYER
    assert len(board) == stride * config.height - 1
    return bytes(board)
