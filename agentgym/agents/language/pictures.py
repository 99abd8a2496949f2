"""Pictures of observations, as vision models are sent them and as transcripts name them."""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import Any

import numpy as np

from agentgym.core.types import Observation
from agentgym.endpoint.chat import ImagePart

MIN_SIDE = 224
"""Pixels of the shorter side at least, once enlarged: the input size of many vision models."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_EIGHT_BIT_RGB = bytes([8, 2, 0, 0, 0])


def picture_of(observation: Observation) -> ImagePart | None:
    """Return the picture of an observation, enlarged by a whole factor; None where it has none."""
    if isinstance(observation, str) or "image" not in observation:
        return None
    pixels = np.asarray(observation["image"])
    factor = -(-MIN_SIDE // min(pixels.shape[:2]))
    return ImagePart(encode_png(np.repeat(np.repeat(pixels, factor, axis=0), factor, axis=1)))


def encode_png(pixels: Any) -> bytes:
    r"""Return a picture, uint8[H, W, 3], as PNG: the same bytes for the same pixels and the same zlib.

    Example:
        >>> png = encode_png(np.zeros((2, 3, 3), np.uint8))
        >>> png[:8], describe(ImagePart(png))[:11]
        (b'\x89PNG\r\n\x1a\n', '[image 3x2 ')
    """
    height, width, _ = pixels.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # each row begins with its filter, 0 for none
    rows[:, 1:] = pixels.reshape(height, -1)
    header = struct.pack(">II", width, height) + _EIGHT_BIT_RGB
    body = zlib.compress(rows.tobytes(), 9)
    return _SIGNATURE + _chunk(b"IHDR", header) + _chunk(b"IDAT", body) + _chunk(b"IEND", b"")


def describe(image: ImagePart) -> str:
    """Return the line that stands for a picture in transcripts: its size and the sha256 of its file."""
    width, height = struct.unpack(">II", image.png[16:24])
    return f"[image {width}x{height} sha256 {hashlib.sha256(image.png).hexdigest()}]"


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
