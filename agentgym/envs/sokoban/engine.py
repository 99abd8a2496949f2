"""Rules of the game: the effect of an action on one board.

Rules and numbers are those of gym-sokoban's ``SokobanEnv`` (``gym_sokoban/envs/sokoban_env.py``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from agentgym.core.rewards import WIN, RewardScheme
from agentgym.envs.sokoban.level import BOX, BOX_ON_TARGET, FLOOR, PLAYER, PLAYER_ON_TARGET, TARGET

ActionSet: TypeAlias = Literal["agent", "full"]
RewardRule: TypeAlias = RewardScheme | Literal["sparse"]


class SokobanAction(NamedTuple):
    """An action as arithmetic: the player steps ``rows * stride + columns`` along the board."""

    name: str
    rows: int
    columns: int
    pushes: bool
    """Whether it may push a box; without a box to push, a push moves the player."""


_DIRECTIONS = (("up", -1, 0), ("down", 1, 0), ("left", 0, -1), ("right", 0, 1))

ACTIONS: Mapping[str, tuple[SokobanAction, ...]] = {
    "agent": tuple(SokobanAction(name, r, c, True) for name, r, c in _DIRECTIONS),
    "full": (
        SokobanAction("no operation", 0, 0, False),
        *(SokobanAction(f"push {name}", r, c, True) for name, r, c in _DIRECTIONS),
        *(SokobanAction(f"move {name}", r, c, False) for name, r, c in _DIRECTIONS),
    ),
}
"""Actions by action set: ``agent``, push or move in four directions; ``full``, gym-sokoban's nine, in
order."""

_STEP, _ON, _OFF, _ALL = -0.1, 1.0, -1.0, 10.0

REWARDS: Mapping[str, tuple[float, ...]] = {
    "native": (
        _STEP + _OFF,
        _STEP + _OFF + _ALL,
        _STEP,
        _STEP + _ALL,
        _STEP + _ON,
        _STEP + _ON + _ALL,
    ),
    "sparse": (0.0, WIN["sparse10"]) * 3,
    **{scheme: (0.0, win) * 3 for scheme, win in WIN.items()},
}
"""Reward at index ``2 * (change + 1) + won``, change = sign of the change of boxes on targets.

Sums are written in gym-sokoban's order of addition, so that they are equal to the last bit.
"""

ENTER = {FLOOR: PLAYER, TARGET: PLAYER_ON_TARGET, BOX: PLAYER, BOX_ON_TARGET: PLAYER_ON_TARGET}
"""Cells after the player steps on them, pushing away a box that stood there."""

LEAVE = {PLAYER: FLOOR, PLAYER_ON_TARGET: TARGET}
"""Cells after the player leaves them."""

RECEIVE = {FLOOR: BOX, TARGET: BOX_ON_TARGET}
"""Free cells after a box is pushed onto them."""


class Move(NamedTuple):
    """Effect of an action on a board."""

    player: int
    """Cell of the player after the action."""
    moved: bool
    pushed: bool
    gain: int
    """Change of the number of boxes on targets: -1, 0 or 1."""


def play(board: bytearray, player: int, delta: int, pushes: bool) -> Move:
    """Play one action on ``board``, in place; the room must be closed.

    ``delta``: the action's step along the board; 0 stays.
    """
    ahead = player + delta
    cell = board[ahead]
    if cell in RECEIVE:
        board[player] = LEAVE[board[player]]
        board[ahead] = ENTER[cell]
        return Move(ahead, True, False, 0)
    if not pushes or cell not in ENTER:
        return Move(player, False, False, 0)
    beyond = board[ahead + delta]
    if beyond not in RECEIVE:
        return Move(player, False, False, 0)
    board[ahead + delta] = RECEIVE[beyond]
    board[player] = LEAVE[board[player]]
    board[ahead] = ENTER[cell]
    return Move(ahead, True, True, (beyond == TARGET) - (cell == BOX_ON_TARGET))
