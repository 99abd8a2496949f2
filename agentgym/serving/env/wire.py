"""Observations and spaces as JSON, between an environment's server and its client.

The observations of n sessions are an object whose members are lists of n: ``text``, and for pictures
``image_base64``, PNG files in base64, as OpenEnv's clients know them. Other arrays are nested lists.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from agentgym.core.elements import png, png_pixels
from agentgym.core.spaces import UnicodeText

TEXT = "text"
"""Name of an observation that is a text alone."""
PICTURE = "_base64"
"""Ends the names of pictures."""


def write_observations(batch: Any) -> dict[str, list[Any]]:
    """Return a batch of observations as columns."""
    columns: dict[str, list[Any]] = {}
    for name, part in (batch if isinstance(batch, Mapping) else {TEXT: batch}).items():
        if isinstance(part, np.ndarray) and part.dtype == np.uint8 and part.shape[3:] == (3,):
            columns[name + PICTURE] = [b64encode(png(pixels)).decode() for pixels in part]
        else:
            columns[name] = part.tolist() if isinstance(part, np.ndarray) else list(part)
    return columns


def read_observations(columns: Mapping[str, list[Any]], space: gymnasium.Space[Any]) -> Any:
    """Return the batch of observations of a space that `write_observations` made columns of."""
    if not isinstance(space, spaces.Dict):
        return _read_column(columns[TEXT], space)
    batch: dict[str, Any] = {}
    for name, values in columns.items():
        part = name.removesuffix(PICTURE)
        if part != name:
            batch[part] = np.stack([png_pixels(b64decode(file)) for file in values])
        else:
            batch[part] = _read_column(values, space[part])
    return batch


def _read_column(values: list[Any], space: gymnasium.Space[Any]) -> Any:
    return tuple(values) if isinstance(space, UnicodeText) else np.array(values, space.dtype)


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
    """Return the space that `write_space` wrote."""
    if table["kind"] == "text":
        return UnicodeText(table["max_length"])
    if table["kind"] == "dict":
        return spaces.Dict({name: read_space(part) for name, part in table["spaces"].items()})
    return spaces.Box(table["low"], table["high"], tuple(table["shape"]), np.dtype(table["dtype"]).type)


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
