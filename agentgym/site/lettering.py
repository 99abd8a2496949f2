"""Text as pixels, and pictures as files: what films are drawn with where there is no browser."""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from agentgym.extras import load

FONT_SIZE: Final = 14
MARGIN: Final = 8
PAPER, INK, FAINT, GOOD, BAD = "#FFFFFF", "#1F2328", "#6E7781", "#1A7F4B", "#B42F2F"


def check_packages(purpose: str = "--gif") -> None:
    """Check that pictures can be written, before anybody plays.

    Args:
        purpose: what needs them, for the message.

    Raises:
        UsageError: Pillow or matplotlib, which brings the letters, is missing.
    """
    pillow("Image", purpose)
    font(purpose)


def page(lines: Sequence[str], ink: str = INK) -> Any:
    """Write lines below each other, on a page as large as they need."""
    letters = font()
    tall = round(1.3 * FONT_SIZE)
    wide = math.ceil(max(map(letters.getlength, lines), default=0))
    made = blank(2 * MARGIN + wide, 2 * MARGIN + tall * len(lines))
    pen = pillow("ImageDraw").Draw(made)
    for number, line in enumerate(lines):
        pen.text((MARGIN, MARGIN + number * tall), line, fill=ink, font=letters)
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
    """Return how many letters a line of a page of some width holds."""
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


def font(purpose: str = "--gif") -> Any:
    """Return matplotlib's typewriter font: the same on every machine."""
    folder = Path(load("matplotlib", "plot", purpose).get_data_path())
    letters = folder / "fonts" / "ttf" / "DejaVuSansMono.ttf"
    # not Raqm, which Pillow takes where it finds it: it refuses some lines, and places letters by its version
    basic = pillow("ImageFont", purpose).Layout.BASIC
    return pillow("ImageFont", purpose).truetype(str(letters), FONT_SIZE, layout_engine=basic)


def pillow(module: str, purpose: str = "--gif") -> Any:
    """Return a module of Pillow."""
    load("PIL", "plot", purpose, "pillow")
    return load(f"PIL.{module}", "plot", purpose)
