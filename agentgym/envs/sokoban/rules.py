"""Rule-based baseline: greedy pushes that avoid deadlocks, from the board as its text shows it.

Of the pushes that the player can do, it does the one after which the boxes have least to go, by the
cheapest assignment to targets on an otherwise empty board. Pushes that freeze a box off its targets, or
move one to where no target can be reached from, are left out, and so are layouts that the episode has been
through. It looks one push ahead, so it loses where boxes must make room for each other first.
"""

from __future__ import annotations

import re
from functools import lru_cache

from agentgym.core.episodes import observed_text
from agentgym.core.policies import RequestPolicy
from agentgym.core.types import Observation, Policy, Request
from agentgym.envs.sokoban.level import PLAYER, PLAYER_ON_TARGET
from agentgym.envs.sokoban.masks import boxes
from agentgym.envs.sokoban.solver import DIRECTIONS, NEVER, FloorPlan, PushState
from agentgym.vector.core import AgentVectorEnv

_ROW = re.compile(r"[# .$*@+]+")


def make_greedy(envs: AgentVectorEnv) -> Policy:
    """Make the agent ``rules`` of Sokoban."""
    return GreedyPushPolicy()


class GreedyPushPolicy(RequestPolicy):
    r"""Does the push that most helps; see the module. It keeps nothing: all follows from the request.

    Example:
        >>> request = Request(episode=0, task_id="t", task_type="", turn=0, seed=7, state_hash="0",
        ...                   observation="######\n#@ $.#\n######",
        ...                   admissible_actions=("up", "down", "left", "right"))
        >>> GreedyPushPolicy().act([request])[0].action
        'right'
    """

    def _action(self, request: Request) -> str:
        """Return the next move; where no push is left to do, the first action."""
        board = read_board(request.observation)
        past = frozenset(boxes(read_board(step.observation)) for step in request.history)
        move = _move(board, past)
        if move is None:
            return next(iter(request.admissible_actions), "")
        return move if move in request.admissible_actions else f"push {move}"


def read_board(observation: Observation) -> bytes:
    """Return the board that an observation's text shows, without the line that may precede it."""
    rows = [line for line in observed_text(observation).split("\n") if _ROW.fullmatch(line)]
    return "\n".join(rows).encode("ascii")


@lru_cache(maxsize=4096)
def _move(board: bytes, past: frozenset[int]) -> str | None:
    """Return the direction of the first move towards the best push."""
    room = _floor_plan(re.sub(rb"[$@]", b" ", re.sub(rb"[*+]", b".", board)))
    player = max(board.find(PLAYER), board.find(PLAYER_ON_TARGET))
    now = PushState(boxes(board), player)
    options = []
    for walked, stand, direction in room.pushes(now):
        box = stand + room.deltas[direction]
        after = now.boxes ^ 1 << box | 1 << box + room.deltas[direction]
        left = room.bound(after)
        if left < NEVER:
            # a walk towards the best push keeps it the best, so no plan has to be remembered
            options.append((after in past, left, walked, stand, direction))
    if not options:
        return None
    *_, stand, direction = min(options)
    return (*room.walk(now.boxes, player, stand), DIRECTIONS[direction])[0]


_floor_plan = lru_cache(maxsize=1024)(FloorPlan)
"""The facts about a board without boxes and player."""
