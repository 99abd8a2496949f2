"""Observations and spaces as JSON, between an environment's server and its client.

The observations of n sessions are an object whose members are lists of n: ``text``, and for pictures
``image_base64``, PNG files in base64, as OpenEnv's clients know them. Other arrays are nested lists.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from math import prod
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from agentgym.core.markup import png, png_pixels
from agentgym.core.spaces import UnicodeText

TEXT = "text"
"""Name of an observation that is text alone."""
PICTURE = "_base64"
"""Suffix of the names of pictures."""
MAX_CELLS = 1 << 23
"""Most numbers of an observation that a client accepts: pictures of 1,600 x 1,600 pixels."""


def write_observations(batch: Any) -> dict[str, list[Any]]:
    """Return a batch of observations as columns."""
    columns: dict[str, list[Any]] = {}
    for name, part in (batch if isinstance(batch, Mapping) else {TEXT: batch}).items():
        if isinstance(part, np.ndarray) and part.dtype == np.uint8 and part.shape[3:] == (3,):
            columns[name + PICTURE] = [b64encode(png(pixels)).decode() for pixels in part]
        else:
            columns[name] = part.tolist() if isinstance(part, np.ndarray) else list(part)
    return columns


def read_observations(columns: Mapping[str, Any], space: gymnasium.Space[Any], count: int) -> Any:
    """Return a batch of ``count`` observations of a space from the columns of `write_observations`.

    ValueError where they are not of the space, before any larger array is made from them.
    """
    parts = {
        name.removesuffix(PICTURE): (name, typed(values, None, count)) for name, values in columns.items()
    }
    if parts.keys() != (space.keys() if isinstance(space, spaces.Dict) else {TEXT}):
        raise ValueError(f"observations of {', '.join(columns):.60}")
    if not isinstance(space, spaces.Dict):
        return _read_column(*parts[TEXT], space)
    return {part: _read_column(*named, space[part]) for part, named in parts.items()}


def _read_column(name: str, values: list[Any], space: gymnasium.Space[Any]) -> Any:
    shape = (len(values), *(space.shape or ()))
    if name.endswith(PICTURE):
        return np.stack([png_pixels(b64decode(file), space.shape) for file in values])
    if isinstance(space, UnicodeText):
        if not all(text in space for text in values):
            raise ValueError("a text that is none, or too long")
        return tuple(values)
    read = np.array(values)
    column = read.astype(space.dtype) if read.dtype.kind in "biuf" else None
    if column is None or column.shape != shape or not np.array_equal(read, column):
        raise ValueError(f"{name} has other numbers than {space}")
    return column


def typed(values: Any, kind: type | None, count: int) -> list[Any]:
    """Return a list of this many values of a type, of any type for None; ValueError for another value."""
    kinds = {int, float} if kind is float else {kind}
    if (
        type(values) is not list
        or len(values) != count
        or not (kind is None or {*map(type, values)} <= kinds)
    ):
        raise ValueError(f"not {count} of {kind.__name__ if kind else 'anything'}: {values!a:.60}")
    return [float(value) for value in values] if kind is float else values


def write_space(space: gymnasium.Space[Any]) -> dict[str, Any]:
    """Return a space of observations as JSON; a TypeError for one of another kind."""
    if isinstance(space, UnicodeText):
        return {"kind": "text", "max_length": space.max_length}
    if isinstance(space, spaces.Dict):
        return {"kind": "dict", "spaces": {name: write_space(part) for name, part in space.items()}}
    if isinstance(space, spaces.Box):
        ends = {"low": space.low.min().item(), "high": space.high.max().item()}
        return {"kind": "box", "shape": list(space.shape), "dtype": str(space.dtype), **ends}
    raise TypeError(f"a {type(space).__name__} has no form on the wire")


def read_space(table: Mapping[str, Any]) -> gymnasium.Space[Any]:
    """Return the space that `write_space` wrote; ValueError for one too large, before it is made."""
    if _cells(table) > MAX_CELLS:
        raise ValueError(f"observations of more than {MAX_CELLS:,} numbers")
    if table["kind"] == "text":
        return UnicodeText(table["max_length"])
    if table["kind"] == "dict":
        return spaces.Dict({name: read_space(part) for name, part in table["spaces"].items()})
    dtype = np.dtype(table["dtype"])
    if dtype.kind not in "biuf":
        raise ValueError(f"numbers of the type {dtype}")
    return spaces.Box(table["low"], table["high"], tuple(table["shape"]), dtype.type)


def _cells(table: Mapping[str, Any]) -> int:
    """Return how many numbers a space has, parts of it counted as 1,024 each."""
    parts = table["spaces"].values() if table["kind"] == "dict" else ()
    shape = typed(table.get("shape", []), int, len(table.get("shape", [])))
    if min(shape, default=1) < 1:
        raise ValueError(f"a shape of {shape}")
    return 1_024 + (prod(shape) if shape else 0) + sum(map(_cells, parts))


def frozen(value: Any) -> Any:
    """Return a value of JSON as infos have it: tuples for lists."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def row_schema(space: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of the members of an observation, given what `write_space` wrote."""
    if space["kind"] == "dict":
        found: dict[str, Any] = {}
        for name, part in space["spaces"].items():
            picture = part["kind"] == "box" and part["dtype"] == "uint8" and part["shape"][2:] == [3]
            found |= {name + PICTURE: {"type": "string"}} if picture else {name: row_schema(part)[TEXT]}
        return found
    return {TEXT: {"type": "string"} if space["kind"] == "text" else {}}
