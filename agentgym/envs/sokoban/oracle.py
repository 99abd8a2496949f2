"""The policy that solves levels."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from agentgym.core.distances import NO_WAY, GoalDistance, StepBounds
from agentgym.core.policies import SnapshotPolicy
from agentgym.core.types import Request, Snapshot
from agentgym.env import AgentEnv
from agentgym.envs.sokoban.engine import ACTIONS, play
from agentgym.envs.sokoban.level import PLAYER, PLAYER_ON_TARGET, Level
from agentgym.envs.sokoban.solver import NEVER, search, solve

EXACT_BOXES = 2
"""Most boxes for which solutions have fewest moves; beyond, at most `GREEDY_WEIGHT` times as many."""

GREEDY_WEIGHT = 2.0

MAX_NODES = 200_000
"""Nodes the search expands before it takes a board for unsolvable."""

EXACT_NODES = 20_000
"""Nodes expanded before the distance of a board is left at bounds."""

REMEMBERED = 200_000
"""Boards whose next move is kept."""


SOLVED = 4_096
"""Boards whose solution is kept."""


@lru_cache(maxsize=SOLVED)
def solution(board: bytes) -> tuple[str, ...] | None:
    """Return the moves that solve a board; None where none are found among `MAX_NODES` nodes.

    They are fewest up to `EXACT_BOXES` boxes, and beyond at most `GREEDY_WEIGHT` times as many.
    """
    exact = Level.of_board(board).boxes <= EXACT_BOXES
    moves = solve(board, weight=1.0 if exact else GREEDY_WEIGHT, max_nodes=MAX_NODES)
    return None if moves is None else tuple(moves)


def goal_distance(env: AgentEnv[Any]) -> GoalDistance:
    """Return the distance to a solved board."""
    return GoalDistance(lambda state: steps_left(state.board))


@lru_cache(maxsize=SOLVED)
def steps_left(board: bytes) -> StepBounds:
    """Return bounds on the moves that solve a board; beyond `EXACT_NODES`, a solution gives the upper one."""
    moves, least = search(board, 1.0, EXACT_NODES)
    if least >= NEVER:
        return NO_WAY
    moves = moves or solve(board, weight=GREEDY_WEIGHT, max_nodes=MAX_NODES)
    return StepBounds(least, math.inf if moves is None else len(moves))


class SokobanOracle(SnapshotPolicy):
    """Plays a solution of the board it is shown; where there is none, the first admissible action."""

    def __init__(self, names: tuple[str, ...]):
        """Take the names of the environment's actions."""
        self._push = {d: d if d in names else f"push {d}" for d in ("up", "down", "left", "right")}
        self._next: dict[bytes, str] = {}

    def _choose(self, request: Request, snapshot: Snapshot) -> str:
        board: bytes = snapshot.state.board
        if board not in self._next:
            self._plan(board, lost=request.admissible_actions[0])
        return self._next[board]

    def _plan(self, board: bytes, lost: str) -> None:
        """Note the next move of every board on the way to the solution; ``lost`` if there is none."""
        if len(self._next) > REMEMBERED:
            self._next.clear()
        moves = solution(board)
        if moves is None:
            self._next[board] = lost
            return
        stride = board.find(b"\n") + 1
        steps = {a.name: a.rows * stride + a.columns for a in ACTIONS["agent"]}
        now = bytearray(board)
        player = max(now.find(PLAYER), now.find(PLAYER_ON_TARGET))
        for move in moves:
            self._next[bytes(now)] = self._push[move]
            player = play(now, player, steps[move], pushes=True).player
