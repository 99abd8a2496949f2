"""Shapes without image files: characters as strokes, suits as areas, both antialiased at any size."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Mask: TypeAlias = npt.NDArray[np.float64]
"""Coverage of each pixel, 0 to 1."""

Area: TypeAlias = npt.NDArray[np.bool_]
"""Whether each sample is inside."""

Point: TypeAlias = tuple[float, float]

SAMPLES = 4
"""Samples a pixel in each direction, for areas."""


def arc(center: Point, radii: Point, start: float, end: float) -> list[Point]:
    """Return points on an ellipse; angles in degrees, 0 to the right, 90 down."""
    angles = np.radians(np.linspace(start, end, 1 + math.ceil(abs(end - start) / 12)))
    return [(center[0] + radii[0] * math.cos(t), center[1] + radii[1] * math.sin(t)) for t in angles]


# A box is 0.6 wide and 1 high, y downwards; a stroke is a list of points joined by lines.
CHARACTERS: dict[str, tuple[list[Point], ...]] = {
    "0": (arc((0.3, 0.5), (0.28, 0.5), 0, 360),),
    "1": ([(0.08, 0.22), (0.34, 0.0), (0.34, 1.0)],),
    "2": ([*arc((0.3, 0.28), (0.27, 0.28), 190, 390), (0.03, 1.0), (0.58, 1.0)],),
    "3": (arc((0.28, 0.25), (0.25, 0.25), 200, 450), arc((0.28, 0.75), (0.29, 0.25), 270, 520)),
    "4": ([(0.44, 1.0), (0.44, 0.0), (0.0, 0.7), (0.6, 0.7)],),
    "5": ([(0.53, 0.0), (0.1, 0.0), (0.06, 0.45), *arc((0.28, 0.67), (0.3, 0.33), 230, 510)],),
    "6": ([(0.44, 0.0), *arc((0.44, 0.67), (0.43, 0.67), 255, 180)], arc((0.3, 0.69), (0.28, 0.31), 0, 360)),
    "7": ([(0.02, 0.0), (0.58, 0.0), (0.22, 1.0)],),
    "8": (arc((0.3, 0.24), (0.23, 0.24), 0, 360), arc((0.3, 0.74), (0.28, 0.26), 0, 360)),
    "9": ([(0.16, 1.0), *arc((0.16, 0.33), (0.43, 0.67), 75, 0)], arc((0.3, 0.31), (0.28, 0.31), 0, 360)),
    "J": ([(0.22, 0.0), (0.56, 0.0)], [(0.44, 0.0), *arc((0.23, 0.77), (0.21, 0.23), 0, 170)]),
    "Q": (arc((0.3, 0.5), (0.3, 0.5), 0, 360), [(0.36, 0.72), (0.62, 1.04)]),
    "K": ([(0.06, 0.0), (0.06, 1.0)], [(0.56, 0.0), (0.06, 0.6)], [(0.22, 0.4), (0.58, 1.0)]),
    "+": ([(0.3, 0.27), (0.3, 0.83)], [(0.02, 0.55), (0.58, 0.55)]),
    "*": ([(0.09, 0.34), (0.51, 0.76)], [(0.51, 0.34), (0.09, 0.76)]),
    "=": ([(0.02, 0.42), (0.58, 0.42)], [(0.02, 0.68), (0.58, 0.68)]),
}


def write(text: str, height: int, width: int, size: float, weight: float) -> Mask:
    """Return ``text`` centred in a mask of ``height`` x ``width`` pixels.

    In pixels: ``size``, height of a digit; ``weight``, width of a stroke.
    """
    mask = np.zeros((height, width))
    advance = 0.82 * size
    left = (width - (advance * (len(text) - 1) + 0.6 * size)) / 2
    top = (height - size) / 2
    for k, character in enumerate(text):
        for stroke in CHARACTERS[character]:
            points = [(left + k * advance + x * size, top + y * size) for x, y in stroke]
            mask = np.maximum(mask, _line(points, height, width, weight))
    return mask


def _line(points: Sequence[Point], height: int, width: int, weight: float) -> Mask:
    """Return the coverage of a polyline with round ends: one where the line is, fading over a pixel."""
    y, x = np.mgrid[:height, :width] + 0.5
    nearest = np.full((height, width), np.inf)
    for (x0, y0), (x1, y1) in itertools.pairwise(points):
        dx, dy = x1 - x0, y1 - y0
        along = np.clip(((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy), 0, 1)
        nearest = np.minimum(nearest, np.hypot(x - x0 - along * dx, y - y0 - along * dy))
    coverage: Mask = np.clip(weight / 2 - nearest + 0.5, 0, 1)
    return coverage


def suit(name: str, size: int) -> Mask:
    """Return a suit's sign as a mask of ``size`` x ``size`` pixels."""
    fine = (np.arange(size * SAMPLES) + 0.5) / (size * SAMPLES) * 2 - 1
    inside = _inside(name, *np.meshgrid(fine, fine))
    coverage: Mask = inside.reshape(size, SAMPLES, size, SAMPLES).mean(axis=(1, 3))
    return coverage


def _inside(name: str, x: Mask, y: Mask) -> Area:
    """Return the points of the square from -1 to 1, y downwards, that belong to a suit's sign."""
    foot: Area = (y > 0.2) & (y < 0.95) & (np.abs(x) < 0.06 + 0.38 * np.clip((y - 0.35) / 0.6, 0, 1) ** 2)
    if name == "hearts":
        return _heart(x, y)
    if name == "spades":
        return _heart(x, -y - 0.12) | foot
    if name == "diamonds":
        diamond: Area = np.abs(x) / 0.76 + np.abs(y) / 0.98 < 1
        return diamond
    middle = np.hypot(x, y) < 0.25
    leaves = [np.hypot(x - cx, y - cy) < 0.43 for cx, cy in ((0.0, -0.48), (-0.47, 0.18), (0.47, 0.18))]
    club: Area = np.logical_or.reduce([*leaves, middle, foot])
    return club


def _heart(x: Mask, y: Mask) -> Area:
    u, v = x / 0.8, -(y - 0.08) / 0.78
    heart: Area = (u * u + v * v - 1) ** 3 - u * u * v**3 < 0
    return heart
