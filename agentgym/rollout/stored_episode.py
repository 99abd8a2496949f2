"""Episodes as lines of JSON with checksums, tokens included: what a data pool stores and exports."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from agentgym.core.hashing import DIGEST_BYTES, canonical_json
from agentgym.core.types import Completion, EndReason, Observation, Step, Trajectory
from agentgym.errors import UsageError
from agentgym.io.records import RecordT, parse
from agentgym.io.untrusted import check_regular, loads_json

MAX_LINE = 64 << 20
"""Bytes of a line at most, the line break included."""

LineKind: TypeAlias = Literal["change", "episode"]

_LINE = re.compile(rb'\{"(change|episode)":(\{.*\}),"id":"([0-9a-f]{32})"\}')
_ARRAYS = {"prompt_ids": "<i4", "response_ids": "<i4", "logprobs": "<f8", "versions": "<i4"}
"""Tuples of a completion, which are written as bytes: ten times as fast as digits."""


# ---- the records --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredImage:
    """The picture of an observation."""

    shape: tuple[int, ...]
    """Height, width and channels."""
    data: str
    """Base64 of uint8, row by row."""


@dataclass(frozen=True, slots=True)
class StoredCompletion:
    """An answer: `agentgym.core.types.Completion` without its messages."""

    action: str
    text: str
    """The raw response."""
    prompt_ids: str
    """Token ids of the prompt: base64 of little-endian int32."""
    response_ids: str
    """Token ids that were sampled, likewise."""
    logprobs: str
    """Of each response token: base64 of little-endian float64."""
    version: int
    """Of the weights that sampled it, at the first token."""
    versions: str
    """Of each response token, as int32, where the weights changed within the response; else empty."""
    prompt_tokens: int
    completion_tokens: int
    seconds: float
    """Model time."""
    cost: float
    """Price, in US dollars."""
    error: EndReason | None
    """Why no action could be had; null where one could."""
    format_error: str
    """Why no action could be read; empty where one could."""


@dataclass(frozen=True, slots=True)
class StoredStep:
    """One step."""

    observation: str
    """Text seen before acting."""
    image: StoredImage | None
    """Picture seen beside it."""
    state_hash: str
    """Of the state acted in."""
    admissible: int
    """Index into `StoredEpisode.admissible_actions`."""
    completion: StoredCompletion
    """The answer."""
    reward: float
    next_state_hash: str
    """Of the state that followed."""
    valid: bool
    """Whether the environment accepted the action."""
    terminated: bool
    """The game ended at this step."""
    truncated: bool
    """The step limit ended the episode at this step."""
    progress: float
    """By how much the step changed the environment's own progress."""
    cost: float
    """What the step cost, as the environment says."""
    side: int | None
    """Who took it, where a policy plays several sides."""


@dataclass(frozen=True, slots=True)
class StoredEpisode:
    """One episode of a group, as it was added to a pool."""

    group: str
    """Name of its group."""
    size: int
    """Episodes of the group when it is complete."""
    labels: tuple[str, ...]
    """Added to those of the group."""
    trainable: bool
    """Whether its group may be trained on."""
    added: float
    """When, in seconds since 1970."""
    env_id: str
    task_id: str
    task_type: str
    seed: int
    rollout: int
    """Which member of the group."""
    initial_hash: str
    """Of the first state."""
    admissible_actions: tuple[tuple[str, ...], ...]
    """Each different list of actions once."""
    steps: tuple[StoredStep, ...]
    final_observation: str
    """Text after the last step."""
    final_image: StoredImage | None
    """Picture beside it."""
    won: bool
    score: float
    progress: float
    end_reason: EndReason
    env_seconds: float
    model_seconds: float
    unplayed: StoredCompletion | None
    """The answer that reported an error and ended the episode."""
    measures: Mapping[str, float]
    """The suite's measures, by name."""


def _common(stored: type, played: type) -> tuple[str, ...]:
    """Return the names of the fields that two dataclasses share."""
    names = {field.name for field in fields(played)}
    return tuple(field.name for field in fields(stored) if field.name in names)


_COMPLETION = _common(StoredCompletion, Completion)
_STEP = _common(StoredStep, Step)
_EPISODE = _common(StoredEpisode, Trajectory)


# ---- packing ------------------------------------------------------------------------------------


def pack_completion(completion: Completion) -> dict[str, Any]:
    """Return the fields of a `StoredCompletion`."""
    table = {name: getattr(completion, name) for name in _COMPLETION}
    for name, kind in _ARRAYS.items():
        table[name] = b64encode(np.array(table[name], kind).tobytes()).decode()
    return table


def unpack_completion(table: Mapping[str, Any]) -> Completion:
    """Return what `pack_completion` packed."""
    return Completion(**{**table, **{name: unpack_array(name, table[name]) for name in _ARRAYS}})


def unpack_array(name: str, text: str) -> tuple[Any, ...]:
    """Return an array of a packed completion by its name."""
    return tuple(np.frombuffer(a2b_base64(text, strict_mode=True), _ARRAYS[name]).tolist()) if text else ()


def pack_episode(trajectory: Trajectory, **stored: Any) -> dict[str, Any]:
    """Return the fields of a `StoredEpisode`; ``stored`` are those that a trajectory does not have."""
    lists: dict[tuple[str, ...], int] = {}
    steps = []
    for step in trajectory.steps:
        observation, image = _pack_observation(step.observation)
        steps.append(
            {name: getattr(step, name) for name in _STEP}
            | {
                "observation": observation,
                "image": image,
                "admissible": lists.setdefault(tuple(step.admissible_actions), len(lists)),
                "completion": pack_completion(step.completion),
            }
        )
    final, final_image = _pack_observation(trajectory.final_observation)
    unplayed = trajectory.unplayed
    return {
        **{name: getattr(trajectory, name) for name in _EPISODE},
        **stored,
        "admissible_actions": list(lists),
        "steps": steps,
        "final_observation": final,
        "final_image": final_image,
        "unplayed": None if unplayed is None else pack_completion(unplayed),
        "measures": dict(trajectory.measures),
    }


def unpack_episode(table: Mapping[str, Any]) -> Trajectory:
    """Return the trajectory that `pack_episode` packed, without ``extra`` and messages."""
    lists = [tuple(actions) for actions in table["admissible_actions"]]
    steps = tuple(
        Step(
            **{name: step[name] for name in _STEP}
            | {
                "observation": _unpack_observation(step["observation"], step["image"]),
                "completion": unpack_completion(step["completion"]),
            },
            admissible_actions=lists[step["admissible"]],
        )
        for step in table["steps"]
    )
    unplayed = table["unplayed"]
    given: dict[str, Any] = {
        **{name: table[name] for name in _EPISODE},
        "steps": steps,
        "final_observation": _unpack_observation(table["final_observation"], table["final_image"]),
        "unplayed": None if unplayed is None else unpack_completion(unplayed),
    }
    return Trajectory(**given)


def _pack_observation(observation: Observation) -> tuple[str, dict[str, Any] | None]:
    if isinstance(observation, str):
        return observation, None
    image = observation["image"]
    return observation["text"], {
        "shape": list(image.shape),
        "data": b64encode(np.ascontiguousarray(image, np.uint8).tobytes()).decode(),
    }


def _unpack_observation(text: str, image: Mapping[str, Any] | None) -> Observation:
    if image is None:
        return text
    pixels = np.frombuffer(a2b_base64(image["data"], strict_mode=True), np.uint8)
    return {"text": text, "image": pixels.reshape(image["shape"]).copy()}


# ---- lines --------------------------------------------------------------------------------------


def make_line(kind: LineKind, table: Mapping[str, Any]) -> str:
    """Return the line of a record, without a line break.

    Raises:
        ValueError: the record holds what JSON cannot, or is larger than `MAX_LINE`.
    """
    try:
        body = canonical_json(table)
        line = f'{{"{kind}":{body},"id":"{_digest(body.encode())}"}}'
    except TypeError as error:
        raise ValueError(str(error)) from error
    if len(line) * 4 >= MAX_LINE and len(line.encode()) >= MAX_LINE:
        raise ValueError(f"it has more than {MAX_LINE:,} bytes")
    return line


def split_line(line: bytes) -> tuple[str, bytes, str]:
    """Return kind, record and id of a line, whose checksum the id is; ValueError where it does not fit."""
    found = _LINE.fullmatch(line)
    if found is None:
        raise ValueError("it is not written as lines of a pool are")
    if _digest(found[2]) != found[3].decode():
        raise ValueError("its checksum does not fit")
    return found[1].decode(), found[2], found[3].decode()


def parse_body(kind: type[RecordT], body: bytes) -> RecordT:
    """Return the record of a line, every field checked; ValueError where one is not as it should be."""
    table = loads_json(body, "line")
    if canonical_json(table).encode() != body:
        raise ValueError("it is not written as records are")
    record = parse(kind, table, "line")
    if isinstance(record, StoredEpisode):
        if any(not 0 <= step.admissible < len(record.admissible_actions) for step in record.steps):
            raise ValueError("a step names a list of actions that is not there")
        unpack_episode(table)  # arrays and pictures
    return record


def read_lines(path: Path, start: int = 0) -> Iterator[tuple[int, bytes]]:
    """Yield position and bytes of each line from a position on; what has no line break at its end is torn."""
    check_regular(path, path.stat())
    with path.open("rb") as file:
        file.seek(start)
        for line in iter(partial(file.readline, MAX_LINE), b""):
            yield start, line
            start += len(line)


def read_episodes(path: Path) -> Iterator[tuple[StoredEpisode, Trajectory]]:
    """Read a file that ``agentgym data pool export`` wrote.

    Args:
        path: the file.

    Yields:
        Each episode's record, and what was played, as training takes it.

    Raises:
        UsageError: a line is torn, damaged or malformed; the message has its number.
    """
    number = 0
    try:
        for number, (_, line) in enumerate(read_lines(path), start=1):  # noqa: B007  # for the message
            kind, body, _ = split_line(line.removesuffix(b"\n"))
            if kind == "episode":
                yield parse_body(StoredEpisode, body), unpack_episode(json.loads(body))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name an exported file") from error
    except ValueError as error:
        raise UsageError(f"{path}, line {number}: {error}; export it again") from error


def _digest(body: bytes) -> str:
    return blake2b(body, digest_size=DIGEST_BYTES).hexdigest()
