"""Names and sizes of tiny models, without torch: a mistyped one is refused before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym.core.options import check_choice

TINY = "tiny"
VISION = "vl"
"""Family of the tiny vision-language models, which are shown pictures in the place of texts."""

DEFAULT_SIZE = "0.8m"
"""Default size of a tiny model."""

FAMILY_NAMES = ("qwen2", "qwen3", "llama3")
"""Names of `agentgym.inference.models.families.FAMILIES`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a Qwen2 model."""

    hidden: int
    layers: int
    heads: int
    key_value_heads: int
    intermediate: int


SHAPES: Mapping[str, Shape] = {
    "0.1m": Shape(hidden=64, layers=2, heads=4, key_value_heads=2, intermediate=192),
    "0.8m": Shape(hidden=128, layers=4, heads=4, key_value_heads=2, intermediate=384),
    "5m": Shape(hidden=256, layers=6, heads=8, key_value_heads=4, intermediate=768),
}
"""Shapes by number of weights, without those of the embedding, which depends on the vocabulary."""


def shape_of(size: str) -> Shape:
    """Return the sizes of a named shape."""
    check_choice("size", size, SHAPES)
    return SHAPES[size]


def tiny_size(spec: str) -> str | None:
    """Return the size of the tiny model that a spec names; None for a path."""
    named = tiny_parts(spec)
    return None if named is None else named[1]


def tiny_parts(spec: str) -> tuple[str, str] | None:
    """Return the family, empty for the plain form, and the size of the tiny model that a spec names."""
    name, colon, size = spec.partition(":")
    family = name.removeprefix(f"{TINY}-") if name.startswith(f"{TINY}-") else ""
    if name != TINY and not family:
        return None
    if family and family not in (*FAMILY_NAMES, VISION):
        if "/" in name or Path(spec).exists():
            return None
        check_choice("model", name, [f"{TINY}-{known}" for known in (*FAMILY_NAMES, VISION)])
    size = size if colon else DEFAULT_SIZE
    check_choice("model", f"{name}:{size}", [f"{name}:{known}" for known in SHAPES])
    return family, size
