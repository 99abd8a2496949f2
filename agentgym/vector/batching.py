"""Columns of n values: observations, infos and spaces of several slots as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space as batch_array_space

from agentgym.core.arrays import Bools, Floats
from agentgym.core.spaces import UnicodeText

Infos: TypeAlias = dict[str, npt.NDArray[Any]]
"""Array of leading dimension n for each info key."""

Rows: TypeAlias = npt.NDArray[np.intp]
"""Indices among the n slots of a batch."""


class Starts(NamedTuple):
    """The beginnings of episodes in n slots."""

    observations: Any
    """Observations: a tuple of n strings, or a dict with such a tuple and arrays of leading dimension n."""
    infos: Infos
    """Info arrays of leading dimension n, without masks."""


class Moves(NamedTuple):
    """One step in each of n slots."""

    observations: Any
    rewards: Floats
    terminations: Bools
    truncations: Bools
    infos: Infos


def batch_space(space: gymnasium.Space[Any], n: int) -> gymnasium.Space[Any]:
    """Return the space of n observations: strings as a Tuple that shares one space, arrays stacked."""
    if isinstance(space, UnicodeText):
        return spaces.Tuple((space,) * n)
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: batch_space(part, n) for key, part in space.items()})
    return batch_array_space(space, n)


def batch_observations(observations: Sequence[Any]) -> Any:
    """Turn n single observations into one batch: strings to a tuple, arrays stacked, dicts by key."""
    first = observations[0]
    if isinstance(first, str):
        return tuple(observations)
    if isinstance(first, Mapping):
        return {key: batch_observations([each[key] for each in observations]) for key in first}
    return np.stack(observations)


def unbatch_observations(batch: Any, n: int) -> list[Any]:
    """Inverse of `batch_observations`."""
    if isinstance(batch, Mapping):
        parts = {key: unbatch_observations(part, n) for key, part in batch.items()}
        return [{key: part[i] for key, part in parts.items()} for i in range(n)]
    return list(batch)


def object_array(values: Sequence[Any]) -> npt.NDArray[np.object_]:
    """Return a 1-D object array of ``values``, whatever they are."""
    return np.fromiter(values, dtype=object, count=len(values))


_COLUMN_TYPES = {kind: np.dtype(kind) for kind in (bool, int, float)}
_OBJECT = np.dtype(object)


def info_column(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return a column of infos as Gymnasium types it: bool, int and float arrays, else objects."""
    kind = type(values[0])
    return np.fromiter(values, dtype=_COLUMN_TYPES.get(kind, _OBJECT), count=len(values))


def info_columns(rows: Sequence[Mapping[str, Any]]) -> Infos:
    """Turn n infos with the same keys into columns."""
    first, n = rows[0], len(rows)
    values = zip(*map(itemgetter(*first), rows), strict=True)
    types = _COLUMN_TYPES  # `info_column` inlined, since this runs at every step
    return {
        key: np.fromiter(column, types.get(type(column[0]), _OBJECT), n)
        for key, column in zip(first, values, strict=True)
    }


def info_rows(infos: Infos, n: int) -> list[dict[str, Any]]:
    """Inverse of `info_columns`: n fresh dicts of Python values."""
    lists = {key: column.tolist() for key, column in infos.items()}
    return [{key: values[i] for key, values in lists.items()} for i in range(n)]


def with_masks(infos: Infos, n: int) -> dict[str, Any]:
    """Add to every column of n rows the mask ``_key`` that Gymnasium keeps beside it, all True."""
    masks = np.ones((len(infos), n), dtype=np.bool_)  # one allocation, since this runs at every step
    return {**infos, **dict(zip(_mask_keys(tuple(infos)), masks, strict=True))}


@lru_cache
def _mask_keys(keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"_{key}" for key in keys)


def spread(column: npt.NDArray[Any], where: Sequence[int], n: int) -> npt.NDArray[Any]:
    """Place a column's rows at ``where`` in an array of n; the rest is zero or None."""
    shape = (n, *column.shape[1:])
    full = np.full(n, None, dtype=object) if column.dtype == object else np.zeros(shape, dtype=column.dtype)
    full[list(where)] = column
    return full


def as_objects(observations: Any, n: int) -> npt.NDArray[np.object_]:
    """Return a batch of n observations as an object array of single ones."""
    return object_array(unbatch_observations(observations, n))


def take(observations: Any, where: Rows) -> Any:
    """Return the rows ``where`` of a batch of observations, as a batch."""
    if isinstance(observations, Mapping):
        return {key: take(part, where) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(observations[k] for k in where)
    return observations[where]


def replace_rows(observations: Any, where: Rows, rows: Any) -> Any:
    """Return a batch of observations with others at ``where``; arrays are written to where they can be."""
    if isinstance(observations, Mapping):
        return {key: replace_rows(part, where, rows[key]) for key, part in observations.items()}
    if isinstance(observations, tuple):
        texts = list(observations)
        for k, text in zip(where, rows, strict=True):
            texts[k] = text
        return tuple(texts)
    full = observations if observations.flags.writeable else observations.copy()
    full[where] = rows
    return full


def merge_columns(parts: Sequence[tuple[Rows, npt.NDArray[Any]]], n: int) -> npt.NDArray[Any]:
    """Put the parts of a column, each with the rows it fills, together to one of n rows."""
    first = parts[0][1]
    full = np.empty((n, *first.shape[1:]), dtype=first.dtype)
    for where, rows in parts:
        full[where] = rows
    return full


def merge_observations(parts: Sequence[tuple[Rows, Any]], n: int) -> Any:
    """Put the parts of a batch of observations, each with the rows it fills, together to one of n."""
    first = parts[0][1]
    if isinstance(first, Mapping):
        return {key: merge_observations([(at, obs[key]) for at, obs in parts], n) for key in first}
    if isinstance(first, tuple):
        texts: list[Any] = [None] * n
        for where, values in parts:
            for k, value in zip(where, values, strict=True):
                texts[k] = value
        return tuple(texts)
    return merge_columns(parts, n)


def merge_moves(parts: Sequence[tuple[Rows, Moves]], n: int) -> Moves:
    """Put the parts of a step, each with the rows it fills, together to one of n rows."""

    def merged(name: str) -> Any:
        return merge_columns([(at, getattr(moves, name)) for at, moves in parts], n)

    infos = {
        key: merge_columns([(at, moves.infos[key]) for at, moves in parts], n) for key in parts[0][1].infos
    }
    observations = merge_observations([(at, moves.observations) for at, moves in parts], n)
    return Moves(observations, merged("rewards"), merged("terminations"), merged("truncations"), infos)
