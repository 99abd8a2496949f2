"""An episode as an animated picture of its environment's frames."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from agentgym.agents.screen import printable
from agentgym.core.text_image import FAINT, blank, columns_of, enlarged, gif, page, wrapped
from agentgym.core.text_image import check_packages as check_packages
from agentgym.core.types import Snapshot, Step
from agentgym.env import AgentEnv

FRAME_MILLISECONDS = 500
END_MILLISECONDS = 2000

_MIN_HEIGHT = 320
"""Pixels: smaller pictures are enlarged by a whole number to about this height."""

_MIN_COLUMNS = 30
"""Characters a line of a caption below a narrow picture."""


def film(env: AgentEnv[Any], states: Sequence[Snapshot], steps: Sequence[Step]) -> bytes:
    """Draw an episode as an endless GIF: a picture of each state, with the step that led there.

    ``env``: of the episode's suite and data, whose own episode is lost; ``states``: T + 1; ``steps``: the T
    between them.
    """
    return gif(list(_pictures(env, states, steps)), [FRAME_MILLISECONDS] * len(steps) + [END_MILLISECONDS])


def _pictures(env: AgentEnv[Any], states: Sequence[Snapshot], steps: Sequence[Step]) -> Iterator[Any]:
    """Yield each state as a picture with its caption."""
    env.render_mode = "rgb_array"
    captions = ["the beginning", *(_caption(number, step) for number, step in enumerate(steps, start=1))]
    for state, caption in zip(states, captions, strict=True):
        env.restore(state)
        board = enlarged(env.render(), _MIN_HEIGHT)
        words = page(wrapped(caption, max(columns_of(board.width), _MIN_COLUMNS)), FAINT)
        picture = blank(max(board.width, words.width), board.height + words.height)
        picture.paste(board, (0, 0))
        picture.paste(words, (0, board.height))
        yield picture


def _caption(number: int, step: Step) -> str:
    rejected = "" if step.valid else ", rejected"
    return f"{number}: {printable(step.action)}, reward {step.reward:g}{rejected}"
