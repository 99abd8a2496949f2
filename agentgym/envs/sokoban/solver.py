"""A* over pushes: a solution of a board, of fewest moves on request.

A node is a box layout and the player's cell after a push; an edge walks to a box and pushes it, and
costs the moves of both. The bound is the cheapest assignment of boxes to targets in pushes on an
otherwise empty board (Hungarian problem, solved by dynamic programming over subsets); boxes that
cannot reach a target, or are frozen off target, are cut.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

from agentgym.envs.sokoban.deadlock import frozen
from agentgym.envs.sokoban.level import PLAYER, PLAYER_ON_TARGET
from agentgym.envs.sokoban.masks import boxes, cells, targets, walls

DIRECTIONS = ("up", "down", "left", "right")
MAX_NODES = 1_000_000
"""Nodes expanded before a search gives up."""

NEVER = 1 << 30
"""`FloorPlan.bound` of boxes that cannot all be brought to targets."""


class PushState(NamedTuple):
    """A box layout, and the cell the player stands on."""

    boxes: int
    """Mask of the boxes."""
    player: int


class _Push(NamedTuple):
    """Origin of a node: from ``parent``, with the player at ``stand``, pushing ``direction``."""

    parent: PushState
    stand: int
    direction: int


class FloorPlan:
    """The fixed part of a board, with the search's knowledge of it."""

    def __init__(self, board: bytes):
        """Read walls and targets of ``board``; boxes and player may stand anywhere."""
        self.stride = board.find(b"\n") + 1
        self.deltas = (-self.stride, self.stride, -1, 1)
        self.walls = walls(board)
        self.targets = targets(board)
        self.open = ~self.walls & ((1 << len(board)) - 1)
        newlines = sum(1 << i for i in range(self.stride - 1, len(board), self.stride))
        self.open &= ~newlines
        self._distances = [self._pushes_to(target) for target in cells(self.targets)]
        self._bounds: dict[int, int] = {}

    def _pushes_to(self, target: int) -> dict[int, int]:
        """Return the number of pushes of a lone box to ``target``, by cell from which there is a way."""
        distance = {target: 0}
        queue = [target]
        for cell in queue:
            for delta in self.deltas:
                origin, stand = cell - delta, cell - 2 * delta
                if stand >= 0 and origin not in distance and self.open >> origin & self.open >> stand & 1:
                    distance[origin] = distance[cell] + 1
                    queue.append(origin)
        return distance

    def bound(self, boxes: int) -> int:
        """Return a lower bound on the pushes that bring all boxes to targets, or `NEVER`."""
        known = self._bounds.get(boxes)
        if known is None:
            known = self._bounds[boxes] = self._assignment(boxes)
        return known

    def _assignment(self, boxes: int) -> int:
        if frozen(boxes, self.walls, self.stride) & ~self.targets:
            return NEVER
        best = {0: 0}  # cheapest assignment of the boxes so far, by the set of targets taken
        for box in cells(boxes):
            costs = [(1 << t, distance[box]) for t, distance in enumerate(self._distances) if box in distance]
            extended: dict[int, int] = {}
            for taken, total in best.items():
                for bit, cost in costs:
                    if not taken & bit and total + cost < extended.get(taken | bit, NEVER):
                        extended[taken | bit] = total + cost
            best = extended
        return min(best.values(), default=NEVER)

    def pushes(self, node: PushState) -> list[tuple[int, int, int]]:
        """Return (walked, stand, direction) for each push that the player can do from a node."""
        free = self.open & ~node.boxes
        wanted: dict[int, list[int]] = {}
        for box in cells(node.boxes):
            for direction, delta in enumerate(self.deltas):
                if free >> box + delta & free >> box - delta & 1:
                    wanted.setdefault(1 << box - delta, []).append(direction)
        missing = sum(wanted)
        layer = reached = 1 << node.player
        found: list[tuple[int, int, int]] = []
        walked = 0
        while layer and missing:
            hits = layer & missing
            missing ^= hits
            while hits:
                low = hits & -hits
                hits ^= low
                stand = low.bit_length() - 1
                found.extend((walked, stand, direction) for direction in wanted[low])
            stride = self.stride
            layer = (layer << 1 | layer >> 1 | layer << stride | layer >> stride) & free & ~reached
            reached |= layer
            walked += 1
        return found

    def walk(self, boxes: int, start: int, goal: int) -> list[str]:
        """Return the directions of a shortest walk that touches no box."""
        free = self.open & ~boxes
        came: dict[int, int] = {goal: -1}
        queue = [goal]
        for cell in queue:
            for direction, delta in enumerate(self.deltas):
                if cell - delta not in came and free >> cell - delta & 1:
                    came[cell - delta] = direction
                    queue.append(cell - delta)
        path = []
        while start != goal:
            path.append(DIRECTIONS[came[start]])
            start += self.deltas[came[start]]
        return path


def solve(board: bytes, *, weight: float = 1.0, max_nodes: int = MAX_NODES) -> tuple[str, ...] | None:
    r"""Return moves that solve a board of a closed room, or None if there are none or too many nodes.

    ``weight``: of the bound; 1 gives a solution of fewest moves, more is faster and gives one at most
    ``weight`` times as long.

    Example:
        >>> solve(b"######\n#@ $.#\n######")
        ('right', 'right')
    """
    return search(board, weight, max_nodes)[0]


def search(board: bytes, weight: float, max_nodes: int) -> tuple[tuple[str, ...] | None, float]:
    """Return the moves of `solve`, and with weight 1 a lower bound of any; `NEVER` where there are none."""
    room = FloorPlan(board)
    player = board.find(PLAYER)
    start = PushState(boxes(board), player if player >= 0 else board.find(PLAYER_ON_TARGET))
    if room.bound(start.boxes) >= NEVER:
        return None, NEVER
    costs = {start: 0}
    came: dict[PushState, _Push] = {}
    queue: list[tuple[float, int, PushState]] = [(0.0, 0, start)]
    closed: set[PushState] = set()
    while queue and len(closed) < max_nodes:
        _, _, node = heapq.heappop(queue)
        if node.boxes == room.targets:
            return _moves(room, came, node), costs[node]
        if node in closed:
            continue
        closed.add(node)
        cost = costs[node]
        for walked, stand, direction in room.pushes(node):
            box = stand + room.deltas[direction]
            child = PushState(node.boxes ^ 1 << box | 1 << box + room.deltas[direction], box)
            total = cost + walked + 1
            if total < costs.get(child, NEVER):
                bound = room.bound(child.boxes)
                if bound < NEVER:
                    costs[child] = total
                    came[child] = _Push(node, stand, direction)
                    # ties: deeper first
                    heapq.heappush(queue, (total + weight * bound, -total, child))
    return None, queue[0][0] if queue else NEVER


def _moves(room: FloorPlan, came: dict[PushState, _Push], node: PushState) -> tuple[str, ...]:
    pieces: list[list[str]] = []
    while node in came:
        parent, stand, direction = came[node]
        pieces.append([*room.walk(parent.boxes, parent.player, stand), DIRECTIONS[direction]])
        node = parent
    return tuple(move for piece in reversed(pieces) for move in piece)
