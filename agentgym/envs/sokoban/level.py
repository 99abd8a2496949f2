"""A level: the text of a board, checked once.

The text is the state. Symbols are those of .xsb files, rows have one length and are joined by
newlines, so a cell is an index into the text and a step up or down is a stride of width + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentgym.envs.sokoban.deadlock import is_deadlocked
from agentgym.envs.sokoban.masks import boxes, flood, targets, walls
from agentgym.errors import UsageError

WALL, FLOOR, TARGET, BOX, BOX_ON_TARGET, PLAYER, PLAYER_ON_TARGET = b"# .$*@+"
"""Byte values of the seven symbols."""

SYMBOLS = "# .$*@+"
"""Symbols of a board, in the order of the constants above."""

_EMPTIED = bytes.maketrans(b"$*@+", b" . .")
"""Table that removes boxes and player from a board: walls, floor and targets stay."""

MAX_SIDE = 256
"""Rows or columns of a level at most."""


@dataclass(frozen=True, slots=True)
class Level:
    """An initial board.

    Example:
        >>> level = Level.parse(["#####", "#@$.#", "#####"])
        >>> level.height, level.width, level.boxes, level.text.splitlines()[1]
        (3, 5, 1, '#@$.#')
    """

    board: bytes
    """The text in ASCII: ``height`` rows of ``width`` symbols, joined by newlines."""
    width: int
    player: int
    """Index of the player in ``board``."""
    boxes: int
    """Number of boxes, and of targets."""
    on_target: int
    """Number of boxes that start on a target."""
    deadlock: bool
    """Whether a box is frozen off its target from the start."""

    @classmethod
    def of_board(cls, board: bytes) -> Level:
        """Wrap a board that is known to be valid."""
        on_target = board.count(BOX_ON_TARGET)
        player = board.find(PLAYER)
        return cls(
            board,
            board.find(b"\n"),
            player if player >= 0 else board.find(PLAYER_ON_TARGET),
            board.count(BOX) + on_target,
            on_target,
            is_deadlocked(board, board.find(b"\n") + 1),
        )

    @classmethod
    def parse(cls, rows: Sequence[str]) -> Level:
        """Parse lines of .xsb symbols and check the level; short lines are filled up with floor."""
        if len(rows) < 3:
            raise UsageError(f"a level has at least 3 rows, this has {len(rows)}")
        width = max(map(len, rows))
        if max(len(rows), width) > MAX_SIDE:
            raise UsageError(
                f"a level has at most {MAX_SIDE} rows and columns, this has {len(rows)} and {width}"
            )
        text = "\n".join(row.ljust(width) for row in rows)
        unknown = set(text) - set(SYMBOLS) - {"\n"}
        if unknown:
            raise UsageError(f"unknown symbol {min(unknown)!r}: levels are written with {SYMBOLS!r}")
        players = text.count("@") + text.count("+")
        if players != 1:
            raise UsageError(f"a level has one player (@ or +), this has {players}")
        level = cls.of_board(text.encode("ascii"))
        _check_playable(level)
        return level

    def check_reached(self, board: bytes, player: int) -> None:
        """Raise a ValueError unless ``board`` has the level's cells and boxes, and its player at ``player``.

        Whether moves lead there is not checked.
        """
        if board.translate(_EMPTIED) != self.board.translate(_EMPTIED):
            raise ValueError("its board has other walls or targets than its level")
        if board.count(BOX) + board.count(BOX_ON_TARGET) != self.boxes:
            raise ValueError("its board has more or fewer boxes than its level")
        players = board.count(PLAYER) + board.count(PLAYER_ON_TARGET)
        if players != 1 or not 0 <= player < len(board) or board[player] not in (PLAYER, PLAYER_ON_TARGET):
            raise ValueError("its board has no player where it says")

    @property
    def text(self) -> str:
        """The board as a string."""
        return self.board.decode("ascii")

    @property
    def stride(self) -> int:
        """Distance in ``board`` between a cell and the one below it."""
        return self.width + 1

    @property
    def height(self) -> int:
        """Number of rows."""
        return (len(self.board) + 1) // (self.width + 1)


def _check_playable(level: Level) -> None:
    board, stride = level.board, level.stride
    goals = targets(board)
    if not level.boxes or level.boxes != goals.bit_count():
        raise UsageError(
            "a level has as many boxes as targets, at least one: "
            f"this has {level.boxes} and {goals.bit_count()}"
        )
    if level.on_target == level.boxes:
        raise UsageError("all boxes are on targets: nothing is left to do")
    # a box outside of the player's reach must be walled in as well: no step may leave the board
    bricks = walls(board)
    inside = 1 << level.player | boxes(board) | goals
    room = flood(inside, (1 << len(board)) - 1 & ~bricks, stride)
    if room & _border(level):
        raise UsageError("the room is not closed: walls (#) must surround the player, boxes and targets")
    player, blocks = level.player, bricks | boxes(board)
    for delta in (-stride, stride, -1, 1):
        if not bricks >> player + delta & 1 and not (
            blocks >> player + delta & 1 and blocks >> player + 2 * delta & 1
        ):
            return
    raise UsageError("the player can neither move nor push")


def _border(level: Level) -> int:
    stride, last = level.stride, (level.height - 1) * level.stride
    border = (1 << level.width) - 1
    border |= border << last
    for row in range(level.height):
        border |= (1 | 1 << level.width - 1) << row * stride
    return border
