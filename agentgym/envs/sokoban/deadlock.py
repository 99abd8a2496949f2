"""Deadlock detection: frozen boxes, of which a box in a corner is the simplest.

A box is frozen if it can never move again: on both axes it has a wall or another frozen box beside
it. A frozen box that is not on a target loses the level. The test is sound and not complete: some
lost boards have no frozen box.
"""

from __future__ import annotations

from agentgym.envs.sokoban.masks import boxes, loose_boxes, walls


def frozen(boxes: int, walls: int, stride: int) -> int:
    """Return the largest set of boxes that block each other and are blocked by walls for ever.

    Boxes and walls are masks; ``stride``: distance between a cell and the one below it.
    """
    held, before = boxes, -1
    while held != before:
        before = held
        solid = walls | held
        held &= (solid << 1 | solid >> 1) & (solid << stride | solid >> stride)
    return held


def is_deadlocked(board: bytes | bytearray, stride: int) -> bool:
    """Return whether a frozen box stands off its targets."""
    loose = loose_boxes(board)
    return loose != 0 and frozen(boxes(board), walls(board), stride) & loose != 0
