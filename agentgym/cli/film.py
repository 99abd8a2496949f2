"""An episode as an animated picture: what the environment draws, or else its text."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from agentgym.agents.screen import printable, text_of
from agentgym.env import AgentEnv
from agentgym.extras import load
from agentgym.types import Observation, Snapshot, Step

FRAME_MILLISECONDS = 500
END_MILLISECONDS = 2000

_SMALLEST = 320
"""Pixels: smaller pictures are enlarged by a whole number to about this height."""

_COLUMNS = 84
"""Characters a line of text."""

_FEWEST_COLUMNS = 30
"""Characters a line of a caption below a narrow picture."""

_FONT_SIZE, _MARGIN = 14, 8
_PAPER, _INK, _FAINT = "#FFFFFF", "#1F2328", "#6E7781"


def check_packages() -> None:
    """Check that pictures can be written, before anybody plays.

    Raises:
        UsageError: Pillow or matplotlib, which brings the letters, is missing.
    """
    _pillow("Image")
    _font()


def film(env: AgentEnv[Any], states: Sequence[Snapshot], steps: Sequence[Step]) -> bytes:
    """Draw an episode.

    Args:
        env: of the episode's suite and data; its own episode is lost.
        states: T + 1, in order.
        steps: the T between them.

    Returns:
        A GIF file that repeats for ever: a picture for each state, below it what led there.
    """
    pictures = list(_pictures(env, states, steps))
    width = max(picture.width for picture in pictures)
    height = max(picture.height for picture in pictures)
    pages = []
    for picture in pictures:
        page = _pillow("Image").new("RGB", (width, height), _PAPER)
        page.paste(picture, (0, 0))
        pages.append(page.quantize(128))
    times = [FRAME_MILLISECONDS] * len(steps) + [END_MILLISECONDS]
    file = io.BytesIO()
    pages[0].save(file, "GIF", save_all=True, append_images=pages[1:], duration=times, loop=0, disposal=1)
    return file.getvalue()


def _pictures(env: AgentEnv[Any], states: Sequence[Snapshot], steps: Sequence[Step]) -> Iterator[Any]:
    """Yield each state as a picture with its caption."""
    drawn = "rgb_array" in env.metadata["render_modes"]
    mode: Literal["rgb_array"] | None = "rgb_array" if drawn else None
    env.render_mode = mode
    captions = ["the beginning", *(_caption(number, step) for number, step in enumerate(steps, start=1))]
    for state, caption in zip(states, captions, strict=True):
        observation, _ = env.restore(state)
        board = _enlarged(env.render()) if drawn else _page(_lines(observation), _INK)
        columns = int((board.width - 2 * _MARGIN) / _font().getlength("0"))
        words = _page(_wrapped(caption, max(columns, _FEWEST_COLUMNS)), _FAINT)
        picture = _pillow("Image").new(
            "RGB", (max(board.width, words.width), board.height + words.height), _PAPER
        )
        picture.paste(board, (0, 0))
        picture.paste(words, (0, board.height))
        yield picture


def _caption(number: int, step: Step) -> str:
    rejected = "" if step.valid else ", rejected"
    return f"{number}: {printable(step.action)}, reward {step.reward:g}{rejected}"


def _enlarged(pixels: Any) -> Any:
    times = max(1, -(-_SMALLEST // pixels.shape[0]))
    return _pillow("Image").fromarray(np.asarray(pixels).repeat(times, axis=0).repeat(times, axis=1))


def _lines(observation: Observation) -> list[str]:
    return [part for line in printable(text_of(observation)).split("\n") for part in _wrapped(line, _COLUMNS)]


def _wrapped(line: str, columns: int) -> list[str]:
    """Break a line between words; one that fits stays as it is, with the blanks it is drawn with."""
    return [line] if len(line) <= columns else textwrap.wrap(line, columns)


def _page(lines: Sequence[str], ink: str) -> Any:
    """Write lines below each other."""
    font = _font()
    tall = round(1.3 * _FONT_SIZE)
    wide = math.ceil(max(map(font.getlength, lines)))
    page = _pillow("Image").new("RGB", (2 * _MARGIN + wide, 2 * _MARGIN + tall * len(lines)), _PAPER)
    pen = _pillow("ImageDraw").Draw(page)
    for number, line in enumerate(lines):
        pen.text((_MARGIN, _MARGIN + number * tall), line, fill=ink, font=font)
    return page


def _font() -> Any:
    """Return matplotlib's typewriter font: the same on every machine."""
    folder = Path(load("matplotlib", "plot", "--gif").get_data_path())
    letters = str(folder / "fonts" / "ttf" / "DejaVuSansMono.ttf")
    # not Raqm, which Pillow takes where it finds it: it refuses some lines, and places letters by its version
    basic = _pillow("ImageFont").Layout.BASIC
    return _pillow("ImageFont").truetype(letters, _FONT_SIZE, layout_engine=basic)


def _pillow(module: str) -> Any:
    load("PIL", "plot", "--gif", "pillow")
    return load(f"PIL.{module}", "plot", "--gif")
