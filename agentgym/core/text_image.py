"""Text as pixels, and pictures as files: frames and films without a browser."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from agentgym.io.optional import load

FONT_SIZE: Final = 14
_TALL: Final = round(1.3 * FONT_SIZE)
MARGIN: Final = 8
PAPER, INK, FAINT, GOOD, BAD = "#FFFFFF", "#1F2328", "#6E7781", "#1A7F4B", "#B42F2F"

FRAME_WIDTH: Final = 800
FRAME_LINES: Final = 40
"""Width in pixels and height in lines of a text drawn as a frame of a video."""

HEAD: Final = 5
"""Lines from the beginning of a text that is cut; the others are from its end."""


def check_packages(purpose: str = "--gif", extra: str = "plot") -> None:
    """Check that pictures can be written, before anything is played; `MissingPackageError` if not.

    ``purpose`` and ``extra``, the subject and the extra to install, are for the message.
    """
    load("PIL", extra, purpose, "pillow")
    load("matplotlib", extra, purpose)


def text_frame(text: str) -> npt.NDArray[np.uint8]:
    """Return a text as uint8[H, W, 3], of one size whatever it says: of a long one beginning and end."""
    columns = columns_of(FRAME_WIDTH)
    lines = [part for line in text.split("\n") for part in (wrapped(line, columns) or [""])]
    made = blank(FRAME_WIDTH, 2 * MARGIN + FRAME_LINES * _TALL)
    made.paste(page(cut(lines, FRAME_LINES)), (0, 0))
    return np.array(made)


def cut(lines: Sequence[str], most: int) -> list[str]:
    """Return lines, of more than ``most`` the first `HEAD` and the last."""
    return list(lines) if len(lines) <= most else [*lines[:HEAD], "...", *lines[HEAD + 1 - most :]]


def page(lines: Sequence[str], ink: str = INK) -> Any:
    """Write lines below each other, on a page as large as they need."""
    letters = font()
    wide = math.ceil(max(map(letters.getlength, lines), default=0))
    made = blank(2 * MARGIN + wide, 2 * MARGIN + _TALL * len(lines))
    pen = pillow("ImageDraw").Draw(made)
    for number, line in enumerate(lines):
        pen.text((MARGIN, MARGIN + number * _TALL), line, fill=ink, font=letters)
    return made


def blank(width: int, height: int) -> Any:
    """Return an empty page."""
    return pillow("Image").new("RGB", (width, height), PAPER)


def enlarged(pixels: Any, smallest: int) -> Any:
    """Return pixels as a picture of about that height, enlarged by a whole number."""
    times = max(1, -(-smallest // pixels.shape[0]))
    return pillow("Image").fromarray(np.asarray(pixels).repeat(times, axis=0).repeat(times, axis=1))


def wrapped(line: str, columns: int) -> list[str]:
    """Break a line between words; one that fits stays as it is, with the blanks it is drawn with."""
    return [line] if len(line) <= columns else textwrap.wrap(line, columns)


def columns_of(width: int) -> int:
    """Return the number of letters in a line of a page of some width."""
    return int((width - 2 * MARGIN) / font().getlength("0"))


def gif(pictures: Sequence[Any], milliseconds: Sequence[int], *, colours: int = 128) -> bytes:
    """Return pictures as an animated one that repeats for ever, each in the top left of the largest."""
    width = max(picture.width for picture in pictures)
    height = max(picture.height for picture in pictures)
    pages = []
    for picture in pictures:
        whole = blank(width, height)
        whole.paste(picture, (0, 0))
        pages.append(whole.quantize(colours))
    file = io.BytesIO()
    pages[0].save(
        file, "GIF", save_all=True, append_images=pages[1:], duration=list(milliseconds), loop=0, disposal=1
    )
    return file.getvalue()


def font() -> Any:
    """Return matplotlib's typewriter font: the same on every machine."""
    folder = Path(import_module("matplotlib").get_data_path())
    letters = folder / "fonts" / "ttf" / "DejaVuSansMono.ttf"
    # not Raqm, Pillow's default where installed: it rejects some lines, and its layout differs by version
    basic = pillow("ImageFont").Layout.BASIC
    return pillow("ImageFont").truetype(str(letters), FONT_SIZE, layout_engine=basic)


def pillow(module: str) -> Any:
    """Return a module of Pillow; see `check_packages`."""
    return import_module(f"PIL.{module}")
