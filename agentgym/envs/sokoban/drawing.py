"""Sokoban drawing for people: the board as pixels, and its status."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentgym.core.markup import Element, element, picture
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.types import Step
from agentgym.envs.sokoban.env import REJECTED, SokobanState
from agentgym.envs.sokoban.tiles import TILE, draw


def draw_board(env: Any, steps: Sequence[Step]) -> Element:
    """Draw the board of a Sokoban environment, text or visual."""
    state: SokobanState = env.snapshot().state
    boxes = env.task.content.boxes
    caption = [f"{state.on_target} of {boxes} boxes on targets"]
    if state.deadlock:
        caption.append(" ")
        lost = element("strong", "a box is stuck: the level is lost", class_="bad")
    return element(
        "figure",
        picture(draw(env.symbols()[None], TILE)[0], alt=state.board.decode("ascii")),
        element("figcaption", *caption, lost if state.deadlock else None),
    )


def notices(env: Any) -> tuple[str, ...]:
    """Return the notice of an action that was not accepted."""
    return (REJECTED.strip(),)


DRAWING = SuiteDrawing(draw_board, notices, of_state=True)
