"""Elements: pictures of a state as trees of tags that can hold no script and lead nowhere.

A suite's drawing returns one. Tags and attributes come from a fixed list, texts stay texts, and pages build
an element node by node: no part of it is ever parsed as markup.
"""

from __future__ import annotations

import re
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

HTML_TAGS: Final = frozenset(
    (
        *(
            "article",
            "aside",
            "b",
            "bdi",
            "blockquote",
            "br",
            "code",
            "dd",
            "del",
            "details",
            "div",
            "dl",
            "dt",
        ),
        *("em", "figcaption", "figure", "footer", "h3", "h4", "h5", "header", "i", "img", "ins", "kbd", "li"),
        *("mark", "ol", "p", "pre", "q", "s", "section", "small", "span", "strong", "sub", "summary", "sup"),
        *("table", "tbody", "td", "th", "thead", "tr", "u", "ul"),
    )
)
SVG_TAGS: Final = frozenset(
    (
        *("svg", "g", "path", "rect", "circle", "ellipse", "line", "polyline", "polygon", "text", "tspan"),
        *("title", "desc"),
    )
)
"""Tags that are made in SVG's name space."""

_NUMBER = r"-?\d+(?:\.\d+)?"
_NUMBERS = re.compile(rf"{_NUMBER}(?:[ ,]+{_NUMBER})*")
_WORDS = re.compile(r"[a-z][a-z0-9-]*(?: [a-z][a-z0-9-]*)*")
_PATH = re.compile(r"[MmLlHhVvCcSsQqTtAaZz0-9 ,.\-]+")
_COLOUR = re.compile(r"none|currentColor|#[0-9A-Fa-f]{3}|#[0-9A-Fa-f]{6}")
_TRANSFORM = re.compile(rf"(?:(?:translate|rotate|scale)\({_NUMBER}(?:[ ,]+{_NUMBER}){{0,2}}\) ?)+")
_PICTURE = re.compile(r"data:image/png;base64,[A-Za-z0-9+/]+={0,2}")

_ANY: Final = re.compile(r"(?s:.*)")

SPOKEN: Final = frozenset(("aria-label", "alt"))
"""Attributes that a screen reader reads aloud: they may hold any text."""

ATTRIBUTES: Final[Mapping[str, re.Pattern[str]]] = {
    "class": _WORDS,
    "role": _WORDS,
    **dict.fromkeys(SPOKEN, _ANY),
    "aria-hidden": re.compile("true"),
    "open": re.compile(""),
    "colspan": re.compile(r"\d{1,3}"),
    "rowspan": re.compile(r"\d{1,3}"),
    "src": _PICTURE,
    "d": _PATH,
    "points": _NUMBERS,
    "viewBox": _NUMBERS,
    "transform": _TRANSFORM,
    "fill": _COLOUR,
    "stroke": _COLOUR,
    "text-anchor": re.compile("start|middle|end"),
    **dict.fromkeys(("x", "y", "x1", "y1", "x2", "y2", "cx", "cy", "r", "rx", "ry", "dx", "dy"), _NUMBERS),
    **dict.fromkeys(("width", "height", "stroke-width", "font-size", "opacity"), _NUMBERS),
}
"""Pattern that an attribute's value matches. `SPOKEN` attributes hold any text; styles, addresses and event
handlers are not listed, so no drawing can run code or load a file."""

Child: TypeAlias = "Element | str"


class Element(NamedTuple):
    """A tag with its attributes and children.

    Example:
        >>> Element("p", {"class": "note"}, ("<b> stays text",)).text
        '<b> stays text'
    """

    tag: str
    attributes: Mapping[str, str]
    children: tuple[Child, ...]

    @property
    def text(self) -> str:
        """All that it says, tags left out."""
        return "".join(child if isinstance(child, str) else child.text for child in self.children)

    def walk(self) -> Iterator[Element]:
        """Yield it and every element in it, in the order of the page."""
        yield self
        for child in self.children:
            if not isinstance(child, str):
                yield from child.walk()


def element(tag: str, /, *children: Child | None, **attributes: str | float | None) -> Element:
    """Make an element of `HTML_TAGS` or `SVG_TAGS`.

    Children and attributes that are None are left out; ``class_`` is ``class``, and underscores are hyphens.
    `ValueError` for a tag, an attribute or a value that is not allowed.

    Example:
        >>> element("rect", x=1, y=2.5, class_="wall").attributes
        {'x': '1', 'y': '2.5', 'class': 'wall'}
    """
    if tag not in HTML_TAGS and tag not in SVG_TAGS:
        raise ValueError(f"no tag {tag!r:.40}: drawings have those of agentgym.core.markup")
    return Element(
        tag, _given(tuple(attributes.items())), tuple([child for child in children if child is not None])
    )


@lru_cache(1 << 14)
def _given(attributes: tuple[tuple[str, str | float | None], ...]) -> Mapping[str, str]:
    """Return attributes as they are written; elements have few different ones."""
    given = {}
    for key, value in attributes:
        if value is None:
            continue
        name = _SPELT.get(key) or key.rstrip("_").replace("_", "-")
        text = value if isinstance(value, str) else f"{value:g}"
        allowed = ATTRIBUTES.get(name)
        if allowed is None or not allowed.fullmatch(text):
            raise ValueError(f"no attribute {name}={text!r:.60}: drawings have those of agentgym.core.markup")
        given[name] = text
    return given


_SPELT = {"viewBox": "viewBox"}


def maker(tag: str) -> Callable[..., Element]:
    """Return `element` for one tag."""

    def make(*children: Child | None, **attributes: str | float | None) -> Element:
        return element(tag, *children, **attributes)

    return make


def as_json(drawn: Element) -> list[Any]:
    """Return an element as JSON: ``[tag, attributes, child, ...]``."""
    return [
        drawn.tag,
        dict(drawn.attributes),
        *(child if isinstance(child, str) else as_json(child) for child in drawn.children),
    ]


# ---- pictures --------------------------------------------------------------------------------------

PNG_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_PREFIX: Final = "data:image/png;base64,"
_PLACES: Final = np.array([1 << 16, 1 << 8, 1], np.uint32)
"""Weights of red, green and blue in the one number that encodes a colour."""


def picture(pixels: npt.NDArray[np.uint8], alt: str, *, sharp: bool = True) -> Element:
    """Return pixels, uint8[H, W, 3], as an element; ``sharp`` enlarges them without blur."""
    height, width = pixels.shape[:2]
    source = _source(pixels.astype(np.uint8, copy=False).tobytes(), height, width)
    # not by `element`: this source is long, and needs no check since it is made here
    shown = {"src": source, "alt": alt, "width": str(width), "height": str(height)}
    return Element("img", shown | ({"class": "pixelated"} if sharp else {}), ())


@lru_cache(512)
def _source(data: bytes, height: int, width: int) -> str:
    """Return pixels as an address; episodes come through few different ones."""
    return _PREFIX + b64encode(png(np.frombuffer(data, np.uint8).reshape(height, width, 3))).decode()


def pixels_of(drawn: Element) -> npt.NDArray[np.uint8] | None:
    """Return the pixels of the first picture in a drawing; None without a picture."""
    for part in drawn.walk():
        if part.tag == "img":
            return png_pixels(b64decode(part.attributes["src"][len(_PREFIX) :]))
    return None


def png(pixels: npt.NDArray[np.uint8]) -> bytes:
    """Return pixels, uint8[H, W, 3], as PNG: with a palette where there are at most 256 colours."""
    height, width = pixels.shape[:2]
    colours, index = colours_of(pixels.astype(np.uint32) @ _PLACES)
    if len(colours) <= 256:
        rows = index.reshape(height, width).astype(np.uint8)
        channels = colours[:, None] // _PLACES % 256
        kind, palette = 3, png_chunk(b"PLTE", channels.astype(np.uint8).tobytes())
    else:
        rows, kind, palette = pixels.reshape(height, width * 3), 2, b""
    filtered = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1)
    return b"".join(
        (
            PNG_SIGNATURE,
            png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)),
            palette,
            png_chunk(b"IDAT", zlib.compress(filtered.tobytes())),
            png_chunk(b"IEND", b""),
        )
    )


def colours_of(codes: npt.NDArray[np.uint32]) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.intp]]:
    """Return the colours below 2**24 of a picture in order, and each pixel's place among them.

    As `np.unique` with its inverse, without sorting pixels: pictures have the colours of those before them.
    """
    places, known = _known_colours()
    index = places[codes]
    if not index.all():
        new = np.unique(codes[index == 0])
        if len(known) + len(new) > 1 << 16:
            return np.unique(codes, return_inverse=True)
        places[new] = np.arange(len(known), len(known) + len(new))
        known.extend(new.tolist())
        index = places[codes]
    used = np.flatnonzero(np.bincount(index.ravel()))
    colours = np.array(known, np.uint32)[used]
    order = np.argsort(colours)
    renumbered = np.zeros(len(known), np.intp)
    renumbered[used[order]] = np.arange(len(used))
    return colours[order], renumbered[index]


@cache
def _known_colours() -> tuple[npt.NDArray[np.uint16], list[int]]:
    """Return the number of every colour that was seen, 0 for others, and the colours by number."""
    return np.zeros(1 << 24, np.uint16), [0]


def png_chunk(name: bytes, data: bytes) -> bytes:
    """Return a part of a PNG file: its length, name and data, and their checksum."""
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png_pixels(file: bytes, shape: tuple[int, ...] | None = None) -> npt.NDArray[np.uint8]:
    """Return the pixels, uint8[H, W, 3], of what `png` wrote.

    Raises:
        ValueError: the bytes are no PNG, or of another ``shape``, which is checked before unpacking.
    """
    chunks, at = {}, len(PNG_SIGNATURE)
    try:
        while at < len(file):
            (length,) = struct.unpack_from(">I", file, at)
            chunks[file[at + 4 : at + 8]] = file[at + 8 : at + 8 + length]
            at += length + 12
        width, height, _, kind = struct.unpack_from(">IIBB", chunks[b"IHDR"])
        if shape not in (None, (height, width, 3)):
            raise ValueError(f"a picture of {height} x {width}, not of {shape}")
        most = height * (1 + width * (3 if kind == 2 else 1))
        data = zlib.decompressobj().decompress(chunks[b"IDAT"], most)
    except (KeyError, struct.error, zlib.error) as error:
        raise ValueError(f"no PNG of pictures ({error!r:.40})") from error
    rows = np.frombuffer(data, np.uint8).reshape(height, -1)[:, 1:]
    if kind == 2:
        return rows.reshape(height, width, 3)
    return np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)[rows]
