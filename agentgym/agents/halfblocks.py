"""Pictures in a terminal: two pixels to a character, the upper half of its cell and the lower."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_COLOURFUL = ("truecolor", "256")
"""Names that rich gives to terminals with enough colours; to those with 256 it gives the nearest."""

_MAX_SCALE = 8
"""Largest factor by which a small picture is enlarged."""


def shows_pictures(console: Console) -> bool:
    """Return whether a console is a terminal with colours enough for pictures."""
    return console.is_terminal and console.color_system in _COLOURFUL


def half_blocks(image: npt.NDArray[np.uint8], columns: int, rows: int) -> list[Text]:
    """Draw a picture, uint8[height, width, 3], as lines of text of at most columns x rows characters.

    Each character holds two pixels; pixels are averaged in squares, or repeated, so that the picture fits.
    """
    from rich.color import Color
    from rich.style import Style
    from rich.text import Text

    pixels = _fitted(image, max(columns, 1), max(2 * rows, 2))
    if len(pixels) % 2:
        pixels = np.concatenate([pixels, np.zeros_like(pixels[:1])])
    lines = []
    for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        line = Text(no_wrap=True)
        for above, below in zip(upper, lower, strict=True):
            line.append("▀", Style(color=Color.from_rgb(*above), bgcolor=Color.from_rgb(*below)))
        lines.append(line)
    return lines


def _fitted(image: npt.NDArray[np.uint8], width: int, height: int) -> npt.NDArray[np.uint8]:
    """Shrink or enlarge a picture by a whole number so that it fits."""
    tall, wide = image.shape[:2]
    shrink = max(-(-tall // height), -(-wide // width))
    if shrink == 1:
        times = max(1, min(height // tall, width // wide, _MAX_SCALE))
        return image.repeat(times, axis=0).repeat(times, axis=1)
    padded = np.pad(image, ((0, -tall % shrink), (0, -wide % shrink), (0, 0)), mode="edge").astype(np.float64)
    rows, columns = padded.shape[0] // shrink, padded.shape[1] // shrink
    squares = padded.reshape(rows, shrink, columns, shrink, 3)
    shrunk: npt.NDArray[np.uint8] = squares.mean(axis=(1, 3)).round().astype(np.uint8)
    return shrunk
