"""Finished episodes as JSON: what data pools store and export, and journals of completions.

Token ids and log-probabilities are packed: ten times as fast as digits.
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core.types import Completion, Observation, Trajectory
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json, read_lines

_ARRAYS = {"prompt_ids": ("i", 4), "response_ids": ("i", 4), "logprobs": ("d", 8), "versions": ("i", 4)}
"""Tuples of a completion, with type and bytes of a member: base64 of little-endian int32 or float64."""
_NOT_KEPT = ("extra", "messages")


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """An episode of a group, as a line of an exported file has it."""

    group: str
    """Name of its group."""
    size: int
    """Episodes of the group when it is complete."""
    labels: tuple[str, ...]
    """Of the group."""
    trainable: bool
    """Whether the group may be trained on."""
    trajectory: Trajectory
    """Without ``extra`` and messages."""


def read_episodes(path: Path) -> Iterator[StoredEpisode]:
    """Read a file that ``agentgym data pool export`` wrote.

    Args:
        path: the file.

    Yields:
        The episodes, group by group.

    Raises:
        UsageError: a line is damaged or malformed; the message has its number.
    """
    for number, line in enumerate(read_lines(path, "name an exported file"), start=1):
        where = f"{path}, line {number}"
        table = loads_json(line, where)
        _unpack(table, "trajectory", where)
        yield parse(StoredEpisode, table, where)


def read_trajectory(text: Any, where: str) -> Trajectory:
    """Read what `pack` wrote of a trajectory; UsageError, which begins with ``where``, for anything else."""
    if not isinstance(text, str):
        raise UsageError(f"{where} is no text: put back a copy of it")
    table = {"trajectory": loads_json(text, where)}
    _unpack(table, "trajectory", where)
    return parse(Trajectory, table["trajectory"], where)


def _unpack(table: Any, name: str, where: str) -> None:
    try:
        _unpack_parts(table[name])
    except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise UsageError(f"{where} is no episode: {error!r:.80}; get it again") from error


def pack_completion(completion: Completion) -> dict[str, Any]:
    """Return a completion's fields but its messages, for JSON; defaults are left out."""
    table = _given(completion)
    for name in _ARRAYS.keys() & table.keys():
        values, (kind, _) = table[name], _ARRAYS[name]
        table[name] = b64encode(struct.pack(f"<{len(values)}{kind}", *values)).decode()
    return table


def unpack_completion(table: dict[str, Any]) -> Completion:
    """Return the completion of a table from `pack_completion`, which is changed."""
    _unpack_arrays(table)
    return Completion(**table)


def pack(episode: Trajectory | StoredEpisode) -> str:
    """Return an episode as JSON; ValueError or TypeError where JSON has no such value."""
    return _ENCODER.encode(episode)


def _given(record: Any) -> dict[str, Any]:
    """Return the fields that are kept of a dataclass and differ from their defaults."""
    kept = [(field.name, field.default) for field in fields(record) if field.name not in _NOT_KEPT]
    return {name: value for name, default in kept if (value := getattr(record, name)) != default}


def _packed(value: Any) -> dict[str, Any]:
    """Return what is not of JSON as a table."""
    if isinstance(value, Completion):
        return pack_completion(value)
    if isinstance(value, np.ndarray):  # a picture, uint8
        return {"shape": value.shape, "data": b64encode(value.tobytes()).decode()}
    if isinstance(value, Mapping):
        return dict(value)
    return _given(value)


_ENCODER = json.JSONEncoder(default=_packed, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _unpack_parts(table: dict[str, Any]) -> None:
    """Put the pictures and the arrays of an episode in their places."""
    table["final_observation"] = _unpack_observation(table["final_observation"])
    for step in table["steps"]:
        step["observation"] = _unpack_observation(step["observation"])
        _unpack_arrays(step["completion"])
    if "unplayed" in table:
        _unpack_arrays(table["unplayed"])


def _unpack_arrays(completion: dict[str, Any]) -> None:
    for name, (kind, size) in _ARRAYS.items():
        if name in completion:
            data = a2b_base64(completion[name], strict_mode=True)
            completion[name] = struct.unpack(f"<{len(data) // size}{kind}", data)


def _unpack_observation(packed: Any) -> Observation:
    if isinstance(packed, str):
        return packed
    image = packed["image"]
    pixels = np.frombuffer(a2b_base64(image["data"], strict_mode=True), np.uint8)
    return {"text": packed["text"], "image": pixels.reshape(image["shape"]).copy()}
