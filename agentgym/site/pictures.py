"""A recorded episode as pictures: an animated one to watch, one step, or a sheet of the steps that matter."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence
from typing import Any, Final

from agentgym.agents.screen import printable
from agentgym.core.markup import pixels_of
from agentgym.core.suite_spec import SuiteDrawing
from agentgym.core.text_image import (
    BAD,
    FAINT,
    GOOD,
    INK,
    MARGIN,
    blank,
    columns_of,
    cut,
    enlarged,
    gif,
    page,
    pillow,
    wrapped,
)
from agentgym.core.types import Observation, Step
from agentgym.env import AgentEnv
from agentgym.evaluation.log.frames import EpisodeFrame
from agentgym.io.optional import load_reference

FRAME_MILLISECONDS: Final = 700
END_MILLISECONDS: Final = 2500

WIDTH: Final = 640
HEIGHT: Final = 336
"""Height of the picture of a state, in pixels."""

SHEET: Final = 12
"""Most pictures on a sheet."""

_LINES: Final = 17
"""Most lines of an observation in a picture."""

_COLOURS: Final = 64

RULE: Final = "#DCDFE3"


class EpisodePictures:
    """The states of an episode as pictures, added one by one while it is played again."""

    def __init__(self, game: AgentEnv[Any], title: str, length: int):
        """Begin; ``game`` plays the episode of ``length`` steps, and is in the state that is added."""
        self._game, self._title, self._length = game, title, length
        named = game.suite_spec.drawing
        self._drawing: SuiteDrawing | None = None if named is None else load_reference(named, trusted=True)
        self._steps: list[Step] = []
        self._total = 0.0
        self._parts: list[tuple[Any, Any, list[Any]]] = []

    @property
    def count(self) -> int:
        """Number of states."""
        return len(self._parts)

    def add(self, frame: EpisodeFrame, action: str | None) -> None:
        """Add a state; ``action`` is played in it, None at the end."""
        if frame.step is not None:
            self._steps.append(frame.step)
            self._total += frame.step.reward
        head = _line(f"{self._title}    step {len(self._steps)} of {self._length}", FAINT)
        self._parts.append((head, self._seen(frame.observation), self._told(frame, action)))

    def _pictures(self) -> list[Any]:
        """Return the pictures of the states, with the drawing in a field of the same size in all of them."""
        tall = max(seen.height for _, seen, _ in self._parts)
        found = []
        for head, seen, told in self._parts:
            parts = [head, _framed(seen, tall), *told]
            whole = blank(WIDTH, sum(part.height for part in parts))
            top = 0
            for part in parts:
                whole.paste(part, (0, top))
                top += part.height
            found.append(whole)
        return found

    def _seen(self, observation: Observation) -> Any:
        """Return a suite's drawing as pixels, enlarged; or else the text."""
        pixels = None
        if self._drawing is not None:
            pixels = pixels_of(self._drawing.draw(self._game, self._steps))
        if pixels is None and not isinstance(observation, str):
            pixels = observation["image"]
        if pixels is not None:
            times = max(1, HEIGHT // pixels.shape[0])
            shown = enlarged(pixels, times * pixels.shape[0])
            shown.info["left"] = max(0, (WIDTH - shown.width) // 2)
            return shown
        columns = columns_of(WIDTH)
        text = printable(self._game.shown_text())
        lines = [part for line in text.split("\n") for part in (wrapped(line, columns) or [""])]
        return page(cut(lines, _LINES))

    def _told(self, frame: EpisodeFrame, action: str | None) -> list[Any]:
        """Return the last step's result, and the current action."""
        paid = "" if frame.step is None else f"reward {frame.step.reward:g}, return {self._total:g}"
        refused = frame.step is not None and not frame.step.valid
        lines = [_line(f"{paid}{', the action was rejected' if refused else ''}", BAD if refused else FAINT)]
        if action is not None:
            lines.append(_line(f"> {printable(action)}", INK))
        else:
            ended = "won" if frame.won else "not won"
            lines.append(_line(f"the end: {ended}, score {frame.score:g}", GOOD if frame.won else BAD))
        return lines

    def film(self) -> bytes:
        """Return an animated GIF of all states."""
        times = [FRAME_MILLISECONDS] * (self.count - 1) + [END_MILLISECONDS]
        return gif(self._pictures(), times, colours=_COLOURS)

    def sheet(self) -> bytes:
        """Return a PNG of up to `SHEET` states, the first and the last among them, side by side."""
        pictures, count = self._pictures(), min(SHEET, self.count)
        chosen = [pictures[round(n * (self.count - 1) / max(1, count - 1))] for n in range(count)]
        across = min(3, count)
        tall = max(picture.height for picture in chosen)
        whole = blank(across * WIDTH, math.ceil(count / across) * tall)
        for number, picture in enumerate(chosen):
            whole.paste(picture, (number % across * WIDTH, number // across * tall))
        return _png(whole)

    def one(self, step: int) -> bytes:
        """Return a PNG of one state."""
        return _png(self._pictures()[step])


def _line(text: str, ink: str) -> Any:
    """Return one line across a picture, cut where it is too long."""
    columns = columns_of(WIDTH)
    text = " ".join(text.split("\n"))
    written = page([text if len(text) <= columns else f"{text[: columns - 3]}..."], ink)
    whole = blank(WIDTH, written.height - MARGIN)
    whole.paste(written, (0, -MARGIN // 2))
    return whole


def _framed(seen: Any, tall: int) -> Any:
    """Return a view between two lines of text; narrow pictures in the middle."""
    height = tall + 2 * MARGIN
    whole = blank(WIDTH, height)
    pen = pillow("ImageDraw").Draw(whole)
    for y in (0, height - 1):
        pen.line(((0, y), (WIDTH, y)), fill=RULE)
    whole.paste(seen, (seen.info.get("left", 0), MARGIN))
    return whole


def _png(picture: Any) -> bytes:
    file = io.BytesIO()
    picture.quantize(_COLOURS).save(file, "PNG", optimize=True)
    return file.getvalue()


def suffixes(names: Sequence[str]) -> str:
    """Return endings as a sentence lists them.

    Example:
        >>> suffixes([".html", ".gif", ".png"])
        '.html, .gif or .png'
    """
    return f"{', '.join(names[:-1])} or {names[-1]}"
