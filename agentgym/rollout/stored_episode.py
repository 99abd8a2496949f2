"""Finished episodes as JSON lines: in data pools, in their exports, and kept of training runs.

Fields with their defaults are left out; token ids and log-probabilities are packed: ten times as fast as
digits.
"""

from __future__ import annotations

import json
import math
import os
import struct
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from agentgym.core.types import Completion, Observation, Trajectory
from agentgym.errors import UsageError
from agentgym.io.files import draft_of, writing
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json, read_lines

SCHEMA = 3
"""Version of a line's form."""
PACKED = {"prompt_ids": ("i", 4), "response_ids": ("i", 4), "logprobs": ("d", 8), "versions": ("i", 4)}
"""Type code and bytes of the members of a completion's tuples, stored as base64, little-endian."""
NOT_KEPT = ("extra", "messages")
"""Fields that are not written."""


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """One episode of a group."""

    group: str
    """Name of its group."""
    size: int
    """Number of episodes of the complete group."""
    labels: tuple[str, ...]
    """Labels of the group."""
    trainable: bool
    """Whether the group may be trained on."""
    trajectory: Trajectory
    """Trajectory without ``extra`` and messages."""


@dataclass(frozen=True, slots=True)
class StepCredit:
    """A step's share of the credit."""

    advantage: float
    """Advantage of the step; where the algorithm credits tokens, the mean over the response's."""
    token_advantages: tuple[float, ...] = ()
    """Advantage of each response token, where the algorithm credits tokens; else empty."""
    value: float | None = None
    """Critic's value of the state before the action and the update; None without a critic."""
    process_reward: float | None = None
    """Reward model's reward of the step; None without one."""


@dataclass(frozen=True, slots=True)
class KeptEpisode(StoredEpisode):
    """One episode that an update was trained on; its group is named by its index in the iteration, from 0.

    The trajectory has no observations, prompts, log-probabilities and times.
    """

    iteration: int
    """Iteration of the run, from 1."""
    version: int
    """Version of the weights before the iteration's update."""
    credit: tuple[StepCredit, ...]
    """Values of each step."""
    notes: Mapping[str, float] = field(default_factory=dict)
    """Further numbers by name, where the collector has any: a state that 3SPO samples has its depth, visits
    and score."""

    def __post_init__(self) -> None:
        """Refuse values of other steps."""
        if len(self.credit) != len(self.trajectory.steps):
            raise ValueError(f"{len(self.trajectory.steps)} steps have {len(self.credit)} values")

    @property
    def returns_to_go(self) -> tuple[float, ...]:
        """Sum of the rewards from each step on, not discounted."""
        return tuple(accumulate(step.reward for step in reversed(self.trajectory.steps)))[::-1]


EpisodeT = TypeVar("EpisodeT", bound=StoredEpisode)


def read_episodes(path: Path) -> Iterator[StoredEpisode]:
    """Read a file that ``agentgym data pool export`` wrote.

    Args:
        path: the file.

    Yields:
        The episodes, group by group.

    Raises:
        UsageError: a line is damaged or malformed; the message has its number.
    """
    return read_records(StoredEpisode, path, "name an exported file")


def read_records(
    record: type[EpisodeT], path: Path, remedy: str, *, largest: float = math.inf
) -> Iterator[EpisodeT]:
    """Yield the episodes of a file, as `read_episodes`.

    Args:
        record: type of the episodes.
        path: the file.
        remedy: what helps where it cannot be read.
        largest: bytes that are read at most.
    """
    room = largest
    for number, line in enumerate(read_lines(path, remedy), start=1):
        where = f"{path}, line {number}"
        room -= len(line)
        if room < 0:
            raise UsageError(f"{path} is larger than the {largest:,} bytes that are read; {remedy}")
        table = loads_json(line, where)
        _unpack(table, where)
        episode = parse(record, table, where)
        if f"{pack(episode)}\n".encode() != line:
            raise UsageError(f"{where} is not written as episodes are: get it again")
        yield episode


def write_records(path: Path, episodes: Iterable[StoredEpisode]) -> int:
    """Write a file of episodes, which appears whole or not at all; return how many.

    Raises:
        UsageError: the file cannot be written.
    """
    draft, written = draft_of(path), 0
    try:
        with writing(path), draft.open("w", encoding="utf-8") as file:
            for episode in episodes:
                file.write(f"{pack(episode)}\n")
                written += 1
            file.flush()
            os.fsync(file.fileno())
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return written


def timeless(trajectory: Trajectory) -> Trajectory:
    """Return an episode without its times, which differ where it is played again."""
    steps = [replace(each, completion=replace(each.completion, seconds=0.0)) for each in trajectory.steps]
    return replace(trajectory, steps=tuple(steps), env_seconds=0.0, model_seconds=0.0)


def read_trajectory(text: Any, where: str) -> Trajectory:
    """Read what `pack` wrote of a trajectory; UsageError, which begins with ``where``, for anything else."""
    if not isinstance(text, str):
        raise UsageError(f"{where} is not text: put back a copy of it")
    table = {"trajectory": loads_json(text, where)}
    _unpack(table, where)
    return parse(Trajectory, table["trajectory"], where)


def _unpack(table: Any, where: str) -> None:
    """Put the pictures and the arrays of an episode in their places."""
    try:
        episode = table["trajectory"]
        episode["final_observation"] = _unpack_observation(episode["final_observation"])
        for step in episode["steps"]:
            step["observation"] = _unpack_observation(step["observation"])
            _unpack_arrays(step["completion"])
        if "unplayed" in episode:
            _unpack_arrays(episode["unplayed"])
    except (AttributeError, KeyError, TypeError, ValueError, struct.error) as error:
        raise UsageError(f"{where} is not an episode: {error!r:.80}; get it again") from error


def pack_completion(completion: Completion) -> dict[str, Any]:
    """Return a completion's fields but its messages, for JSON; defaults are left out."""
    table = _given(completion)
    for name in PACKED.keys() & table.keys():
        values, (kind, _) = table[name], PACKED[name]
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
    """Return a dataclass's stored fields that differ from their defaults."""
    stored = [(field.name, field.default) for field in fields(record) if field.name not in NOT_KEPT]
    return {name: value for name, default in stored if (value := getattr(record, name)) != default}


def _packed(value: Any) -> dict[str, Any]:
    """Return a value without a JSON form as a table."""
    if isinstance(value, Completion):
        return pack_completion(value)
    if isinstance(value, np.ndarray):  # a picture, uint8
        return {"shape": value.shape, "data": b64encode(value.tobytes()).decode()}
    if isinstance(value, Mapping):
        return dict(value)
    return _given(value)


_ENCODER = json.JSONEncoder(default=_packed, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _unpack_arrays(completion: dict[str, Any]) -> None:
    for name, (kind, size) in PACKED.items():
        if name in completion:
            data = a2b_base64(completion[name], strict_mode=True)
            completion[name] = struct.unpack(f"<{len(data) // size}{kind}", data)


def _unpack_observation(packed: Any) -> Observation:
    if isinstance(packed, str):
        return packed
    image = packed["image"]
    pixels = np.frombuffer(a2b_base64(image["data"], strict_mode=True), np.uint8)
    return {"text": packed["text"], "image": pixels.reshape(image["shape"]).copy()}
