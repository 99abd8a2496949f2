"""The rules on N boards at once: no strings, no loop over boards.

What an action does to a board depends on three cells: the player's, the one ahead and the one
beyond. Their symbols make a key, and tables indexed by it (filled by playing `engine.play` on every
combination) say what changes. A step is then about twenty numpy calls, whatever N is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from agentgym.core.arrays import Bools, Ints
from agentgym.envs.sokoban.builtin.bank import Bank
from agentgym.envs.sokoban.engine import SokobanAction, play
from agentgym.envs.sokoban.level import (
    BOX,
    BOX_ON_TARGET,
    FLOOR,
    PLAYER,
    PLAYER_ON_TARGET,
    TARGET,
    WALL,
    Level,
)
from agentgym.envs.sokoban.tiles import grid

_WEIGHTS = np.array([1, 2, 10], dtype=np.uint16)
"""A key is the sum of the three symbols' byte values times these: found by search, all keys differ."""

_NO_PUSH = 1024
"""Constant added to the key of an action that may not push; larger than any key."""


class Tables(NamedTuple):
    """Transition tables, by key."""

    flips: npt.NDArray[np.uint8]
    """Bits to flip in the three cells, shape (2048, 3)."""
    moved: Bools
    pushed: Bools
    gain: npt.NDArray[np.int64]
    """Change of the number of boxes on targets."""


class Steps(NamedTuple):
    """One step on n boards, arrays of shape (n,)."""

    rewards: npt.NDArray[np.float64]
    terminated: Bools
    """True where all boxes are on targets."""
    truncated: Bools
    """The step limit was reached without that."""
    moved: Bools
    """The player moved."""
    pushed: Bools
    """A box moved."""


def _make_tables() -> Tables:
    tables = Tables(
        np.zeros((2 * _NO_PUSH, 3), dtype=np.uint8),
        np.zeros(2 * _NO_PUSH, dtype=np.bool_),
        np.zeros(2 * _NO_PUSH, dtype=np.bool_),
        np.zeros(2 * _NO_PUSH, dtype=np.int64),
    )
    standing = (PLAYER, PLAYER_ON_TARGET)
    cells = (WALL, FLOOR, TARGET, BOX, BOX_ON_TARGET, *standing)
    beyond = (*cells, ord("\n"), 0)  # cells outside the board are read, and never matter
    seen = set()
    for pushes, *symbols in product((True, False), standing, cells, beyond):
        key = int(np.dot(symbols, _WEIGHTS)) + (0 if pushes else _NO_PUSH)
        assert key not in seen, "weights must give different keys"
        seen.add(key)
        board = bytearray(symbols)
        move = play(board, 0, 1, pushes)
        tables.flips[key] = np.frombuffer(bytes(board), np.uint8) ^ np.array(symbols, np.uint8)
        tables.moved[key], tables.pushed[key], tables.gain[key] = move.moved, move.pushed, move.gain
    return tables


_TABLES = _make_tables()


class BoardBatch:
    r"""N boards of any sizes, stepped together.

    Actions are integers: positions in the action set, or ``len(actions)`` for one that does nothing
    but take a step.

    Example:
        >>> from agentgym.envs.sokoban.engine import ACTIONS, REWARDS
        >>> batch = BoardBatch(2, 20, ACTIONS["agent"], REWARDS["native"], max_steps=120)
        >>> for slot in range(2):
        ...     batch.load(slot, Level.parse(["######", "#@ $.#", "######"]))
        >>> batch.step(np.array([3, 0])).moved.tolist()
        [True, False]
        >>> batch.step(np.array([3, 0])).terminated.tolist(), batch.text(0)
        ([True, False], '######\n#  @*#\n######')
    """

    def __init__(
        self,
        num: int,
        size: int,
        actions: Sequence[SokobanAction],
        rewards: Sequence[float],
        *,
        max_steps: int,
        upstream_count: bool = False,
    ):
        """Allocate N boards of at most ``size`` characters; ``rewards`` is a table of `engine.REWARDS`.

        ``upstream_count`` counts boxes on targets as gym-sokoban does: from 0 at the start of every episode,
        whatever the board.
        """
        self.num = num
        self.size = size
        self.max_steps = max_steps
        self.upstream_count = upstream_count
        self._actions = tuple(actions)
        self._rewards = np.array(rewards)
        self._no_push = np.array([0 if a.pushes else _NO_PUSH for a in actions] + [0], dtype=np.uint16)
        self._some_cannot_push = bool(self._no_push.any())
        self.boards = np.zeros((num, size), dtype=np.uint8)
        """Texts of the boards, filled up with zeros."""
        self._flat = self.boards.reshape(-1)
        self.lengths = np.zeros(num, dtype=np.int64)
        self.strides = np.zeros(num, dtype=np.int64)
        """Distance in a board's text between a cell and the one below it."""
        self.boxes = np.ones(num, dtype=np.int64)
        self.missing = np.ones(num, dtype=np.int64)
        """Boxes that are not on a target."""
        self.counted = np.zeros(num, dtype=np.int64)
        """Boxes on targets as the reward rule knows; kept up only under ``upstream_count``."""
        self.turns = np.zeros(num, dtype=np.int64)
        self._base = np.arange(num) * size
        self._players = np.zeros(num, dtype=np.int64)  # indices into _flat
        self._strides: dict[int, int] = {}
        self._rows = np.zeros(num, dtype=np.int64)  # first row of the slot's stride in _offsets
        self._offsets = np.zeros((0, 3), dtype=np.int64)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Go on from a pickle, in which views of arrays have become arrays of their own."""
        self.__dict__.update(state)
        self._flat = self.boards.reshape(-1)

    # ---- boards in -------------------------------------------------------------------------

    def load(self, slot: int, level: Level) -> None:
        """Start an episode of ``level``."""
        self.put(slot, level.board, level.player, level.stride, level.boxes, level.boxes - level.on_target)

    def put(self, slot: int, board: bytes, player: int, stride: int, boxes: int, missing: int) -> None:
        """Place a board; the turn is 0 and boxes are counted as at the start of an episode."""
        length = len(board)
        row = self.boards[slot]
        row[:length] = np.frombuffer(board, dtype=np.uint8)
        row[length:] = 0
        self.lengths[slot] = length
        self._players[slot] = slot * self.size + player
        self.strides[slot] = stride
        self._rows[slot] = self._rows_of(stride)
        self.boxes[slot] = boxes
        self.missing[slot] = missing
        self.counted[slot] = 0 if self.upstream_count else boxes - missing
        self.turns[slot] = 0

    def load_from(self, bank: Bank, slots: Ints, rows: Ints) -> None:
        """Start episodes of a bank's levels, none of which has a box on a target, in n slots.

        ``rows``: n positions in the bank.
        """
        length = bank.boards.shape[1]
        self.boards[slots, :length] = bank.boards[rows]
        self.boards[slots, length:] = 0
        self.lengths[slots] = length
        self._players[slots] = self._base[slots] + bank.players[rows]
        self.strides[slots] = bank.config.width + 1
        self._rows[slots] = self._rows_of(bank.config.width + 1)
        self.boxes[slots] = self.missing[slots] = bank.config.boxes
        self.counted[slots] = 0
        self.turns[slots] = 0

    # ---- boards out ------------------------------------------------------------------------

    def text(self, slot: int) -> str:
        """Return one board as text."""
        return self.board(slot).decode("ascii")

    def board(self, slot: int) -> bytes:
        """Return one board as the bytes of its text."""
        return self.boards[slot, : self.lengths[slot]].tobytes()

    def player(self, slot: int) -> int:
        """Return the index of the player in a board's text."""
        return int(self._players[slot]) - slot * self.size

    def symbols(self, slots: Ints | None, extent: tuple[int, int]) -> npt.NDArray[np.uint8]:
        """Return boards as symbols of shape (n, height, width), with wall added on the right and below.

        ``slots`` None means all; ``extent``: height and width, whose board has ``size`` characters.
        """
        where: Any = slice(None) if slots is None else slots
        height, width = extent
        if ((self.strides[where] == width + 1) & (self.lengths[where] == self.size - 1)).all():
            boards: npt.NDArray[np.uint8] = self.boards[where].reshape(-1, height, width + 1)
            return boards[:, :, :-1]
        numbers = range(self.num) if slots is None else slots.tolist()
        return np.stack([grid(self.board(i), int(self.strides[i]) - 1, extent) for i in numbers])

    # ---- stepping --------------------------------------------------------------------------

    def step(self, actions: npt.NDArray[np.integer], slots: Ints | None = None) -> Steps:
        """Play one action on each board, (n,).

        ``slots``: all different; None for all.
        """
        every = slots is None
        rows = self._rows if every else self._rows[slots]
        players = self._players if every else self._players[slots]
        cells = self._offsets.take(rows + actions, axis=0)
        cells += players[:, None]
        # 'clip': beyond the wall at the edge of the last board there is nothing, and it does not matter
        symbols = self._flat.take(cells, mode="clip")
        keys = symbols.dot(_WEIGHTS)
        if self._some_cannot_push:
            keys += self._no_push.take(actions)
        symbols ^= _TABLES.flips.take(keys, axis=0)
        self._flat.put(cells, symbols, mode="clip")
        moved = _TABLES.moved.take(keys)
        gains = _TABLES.gain.take(keys)
        if every:
            np.copyto(self._players, cells[:, 1], where=moved)
            missing = self.missing
            missing -= gains
            turns = self.turns
            turns += 1
        else:
            self._players[slots] = np.where(moved, cells[:, 1], players)
            missing = self.missing[slots] - gains
            self.missing[slots] = missing
            turns = self.turns[slots] + 1
            self.turns[slots] = turns
        terminated = missing == 0
        truncated = turns >= self.max_steps
        truncated &= ~terminated
        changes = self._changes(missing, slots) if self.upstream_count else gains
        rewards = self._rewards.take(2 * (changes + 1) + terminated)
        return Steps(rewards, terminated, truncated, moved, _TABLES.pushed.take(keys))

    def effective(self, slots: Ints | None = None) -> Bools:
        """Return bool (n, number of actions): the actions that would change the board."""
        count = len(self._actions)
        rows = (self._rows if slots is None else self._rows[slots])[:, None] + np.arange(count)
        players = self._players if slots is None else self._players[slots]
        cells = self._offsets.take(rows, axis=0) + players[:, None, None]
        keys = self._flat.take(cells, mode="clip").dot(_WEIGHTS) + self._no_push[:count]
        moved: Bools = _TABLES.moved.take(keys)
        return moved

    def _changes(self, missing: Ints, slots: Ints | None) -> Ints:
        """Return the signs of the difference between the count of boxes on targets and the stored one."""
        where = slice(None) if slots is None else slots
        now = self.boxes[where] - missing
        changes: Ints = np.sign(now - self.counted[where])
        self.counted[where] = now
        return changes

    def _rows_of(self, stride: int) -> int:
        """Return the first row of a stride's offsets, which are made when it is first seen."""
        row = self._strides.get(stride)
        if row is None:
            row = self._strides[stride] = len(self._offsets)
            deltas = [action.rows * stride + action.columns for action in self._actions] + [0]
            self._offsets = np.vstack([self._offsets, np.outer(deltas, [0, 1, 2])])
        return row
