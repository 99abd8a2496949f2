"""Reading and writing the files of a run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.core.types import EndReason
from agentgym.errors import UsageError, nearest
from agentgym.evaluation.log.endpoint_runs import CALLS_FILE
from agentgym.evaluation.log.judge_spread import SPREAD_FILE
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    RETRIED,
    RUN_FILE,
    SCHEMA,
    VERIFY_FILE,
    EpisodeKey,
    EvalLog,
    EvalSample,
)
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE
from agentgym.evaluation.suites.suite import check_names
from agentgym.io.files import replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import MAX_LINES_SIZE, loads_json, read_file, read_json

RUN_FILES: Mapping[str, bool] = {
    RUN_FILE: True,
    EPISODES_FILE: True,
    TRANSCRIPTS_FILE: True,
    ANSWERS_FILE: True,
    SPREAD_FILE: False,
    CALLS_FILE: False,
    VERIFY_FILE: False,
}
"""Files of a run's folder, and whether verdicts depend on each. The fuzzer changes all of them."""


def read_run(folder: Path) -> EvalLog:
    """Read a run's ``run.json``.

    Raises:
        UsageError: it is missing, malformed or of another schema.
    """
    return parse_run(read_json(folder / RUN_FILE), str(folder / RUN_FILE))


def parse_run(table: Any, where: str) -> EvalLog:
    """Parse the content of a ``run.json``; ``where`` names the file in messages."""
    if isinstance(table, dict) and table.get("schema") not in (4, SCHEMA):
        raise UsageError(f"{where}: schema {table.get('schema')!r:.20} is not {SCHEMA}; run it again")
    run = parse(EvalLog, table, where)
    try:
        text = run.text.encode()
    except ValueError as error:  # an infinite number, or half a surrogate pair
        raise UsageError(f"{where} is damaged: {error}") from error
    for key in table.keys() - json.loads(text).keys():
        raise UsageError(f"{where}: schema {run.schema} has no key {key!r}; run it again")
    check_names((("suite", run.suite.name), ("agent", run.agent.name)), f"{where}: ")
    if not run.provenance:
        raise UsageError(f"{where} is damaged: provenance names no machine")
    return run


def write_run(folder: Path, run: EvalLog) -> None:
    """Write a run's ``run.json`` at once."""
    replace_file(folder / RUN_FILE, run.text)


@dataclass(frozen=True, slots=True)
class SampleLines:
    """Content of an ``episodes.jsonl``."""

    samples: list[EvalSample]
    """Samples of the well-formed lines, every attempt, in the order in which they ended."""
    malformed: Mapping[int, str]
    """Error of each other line, by number."""
    sha256: str
    """Digest of the file, sha256."""
    line_sha256s: list[str]
    """Digest of the line of each of `samples`, sha256."""

    def checked(self, path: Path) -> SampleLines:
        """Return the lines of the file at ``path``; `UsageError` names the first malformed one."""
        for number, problem in self.malformed.items():
            raise UsageError(f"{path}, line {number}: {problem}")
        return self


def read_lines(folder: Path) -> SampleLines:
    """Read a run's episodes, whatever its lines are; `UsageError` where the file is missing."""
    return parse_lines(read_bytes(folder / EPISODES_FILE))


def parse_lines(data: bytes) -> SampleLines:
    """Parse the content of an ``episodes.jsonl``, whatever its lines are."""
    *lines, rest = data.split(b"\n")
    samples, sha256s, malformed = [], [], {}
    for number, line in enumerate(lines, start=1):
        try:
            samples.append(_parse_line(line))
        except ValueError as error:
            malformed[number] = f"malformed: {error}"
        else:
            sha256s.append(hashlib.sha256(line).hexdigest())
    if rest:
        malformed[len(lines) + 1] = "the line is cut off"
    return SampleLines(samples, malformed, hashlib.sha256(data).hexdigest(), sha256s)


def read_episodes(folder: Path) -> list[EvalSample]:
    """Read a run's episodes in the order in which they ended, every attempt.

    Raises:
        UsageError: the file is missing, or a line is malformed or cut off; the message has its number.
    """
    return read_lines(folder).checked(folder / EPISODES_FILE).samples


def read_bytes(path: Path) -> bytes:
    """Read a file whole."""
    return read_file(path, largest=MAX_LINES_SIZE, remedy="name the folder of a run")


_SPENT = ("prompt_tokens", "completion_tokens", "env_seconds", "model_seconds", "cost", "format_errors")
"""Keys of an episode that no replay can check; their values must at least be possible."""

_MAX_SPENT = 1e15
"""Largest number of a cost; sums of such numbers stay exact."""


def _parse_line(line: bytes) -> EvalSample:
    record = parse(EvalSample, loads_json(line, "line"), "episode")
    for key in _SPENT:
        if not 0 <= getattr(record, key) <= _MAX_SPENT:
            raise ValueError(f"{key} must be from 0 to {_MAX_SPENT:g}")
    # repeated keys, infinite numbers, half surrogate pairs: two readers could read different values
    if record.line.encode() != line:
        raise ValueError("the line is not written as records are")
    return record


def check_chain(run: EvalLog, lines: SampleLines) -> Iterator[str]:
    """Yield the defects of the chain of a run's well-formed lines and of the numbers of its attempts."""
    ends: dict[EpisodeKey, tuple[int, EndReason | None]] = {}
    previous = run.request_id
    linked = zip(lines.samples, lines.line_sha256s, strict=True)
    for number, (episode, line_sha256) in enumerate(linked, start=1):
        if episode.previous != previous:
            yield f"line {number}: does not follow on the line before, which was changed, removed or put in"
        attempt, end = ends.get(episode.key, (0, None))
        if episode.attempt != attempt + 1:
            yield f"line {number}: attempt {episode.attempt} at {episode.id} follows on {attempt}"
        if end is not None and end not in RETRIED:
            yield f"line {number}: {episode.id} is played again, though it ended as {end}"
        ends[episode.key] = (episode.attempt, episode.end_reason)
        previous = line_sha256


def check_measures(episodes: Sequence[EvalSample]) -> Iterator[str]:
    """Yield the defects in the measures' names of a run's lines; their values are for a replay.

    The lines of an environment have the same ones, so that none can be left out where it is low.
    """
    names: dict[str, list[str]] = {}
    for number, episode in enumerate(episodes, start=1):
        ours = sorted(episode.measures)
        if ours != (theirs := names.setdefault(episode.env, ours)):
            yield f"line {number}: has the measures {ours}, earlier ones of {episode.env} have {theirs}"


def file_sha256(path: Path) -> str:
    """Return the sha256 of a file's bytes."""
    return hashlib.sha256(read_bytes(path)).hexdigest()


def find_episode(episodes: Sequence[EvalSample], key: str) -> EvalSample:
    """Return the episode that a key names.

    A key is ``LABEL/TASK/ROLLOUT``, the number of a line (from 1), or any part of the id that only one
    episode has.
    """
    by_id: Mapping[str, EvalSample] = {episode.id: episode for episode in episodes}
    if key in by_id:
        return by_id[key]  # the last of several attempts
    if key.isascii() and key.isdigit() and 1 <= int(key) <= len(episodes):
        return episodes[int(key) - 1]
    matches = [name for name in by_id if key in name]
    if len(matches) == 1:
        return by_id[matches[0]]
    if matches:
        raise UsageError(f"{len(matches)} episodes match {key!r}; name one, for example {matches[0]!r}")
    example = nearest(key, by_id) or f"; for example {next(iter(by_id), 'none has been played')!r}"
    raise UsageError(f"no episode {key!r}{example}")
