"""Stored runs: a run on disk, opened once and handed on with its suite, samples and answers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE, RecordedAnswers, read_answers
from agentgym.evaluation.log.results import EPISODES_FILE, RUN_FILE, EvalLog, EvalSample, latest
from agentgym.evaluation.log.runfiles import (
    RUN_FILES,
    SampleLines,
    file_sha256,
    find_episode,
    parse_run,
    read_lines,
)
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, TranscriptRecord, read_transcripts
from agentgym.evaluation.suites import suite_file_of_run
from agentgym.evaluation.suites.suite import PlayedEnv, Suite, load_suite
from agentgym.io.untrusted import loads_json, read_file


class MalformedRunError(UsageError):
    """A ``run.json`` that is there, and is none."""


@dataclass(frozen=True)
class StoredRun:
    """A run: its ``run.json``, and its other files, each read when first needed."""

    path: Path
    """As it was named: the run's folder, a packed run, or an archive."""
    folder: Path
    """Of its files; in the cache, where `path` is one file."""
    log: EvalLog
    """``run.json``."""
    run_sha256: str
    """Of ``run.json``, of the bytes that `log` was parsed from."""
    load_suite: Callable[[], Suite]
    """Reads its suite."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was read: another process reads it again where it needs it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def suite(self) -> Suite:
        """The suite that it is verified against; UsageError where there is none."""
        return self.load_suite()

    @cached_property
    def lines(self) -> SampleLines:
        """``episodes.jsonl``, the malformed lines apart."""
        return read_lines(self.folder)

    @property
    def samples(self) -> list[EvalSample]:
        """Every attempt at every episode, in the order in which they ended; UsageError as `read_episodes`."""
        return self.lines.checked(self.folder)

    @property
    def results(self) -> list[EvalSample]:
        """What counts: of every episode the last attempt."""
        return latest(self.samples)

    @cached_property
    def answers(self) -> RecordedAnswers:
        """``answers.jsonl``; without the file no answers."""
        return read_answers(self.folder / ANSWERS_FILE)

    @property
    def has_transcripts(self) -> bool:
        """Whether it was published with its transcripts."""
        return (self.folder / TRANSCRIPTS_FILE).exists()

    def transcripts(self) -> dict[str, TranscriptRecord]:
        """Read the transcripts, by their sha256; none where it was published without them."""
        records = read_transcripts(self.folder) if self.has_transcripts else []
        return {record.sha256: record for record in records}

    @cached_property
    def digests(self) -> Mapping[str, str]:
        """Sha256 of each of its files that a verdict depends on, by name."""
        known = {RUN_FILE: self.run_sha256, EPISODES_FILE: self.lines.sha256}
        others = [name for name, verified in RUN_FILES.items() if verified and name not in known]
        found = [name for name in others if (self.folder / name).exists()]
        return known | {name: file_sha256(self.folder / name) for name in found}

    def sample(self, key: str) -> tuple[PlayedEnv, EvalSample]:
        """Return an episode, named as `find_episode` takes it, and the environment it was played in."""
        sample = find_episode(self.samples, key)
        for found in self.log.envs:
            if found.env.label == sample.env:
                return found.env, sample
        where = self.folder / RUN_FILE
        raise UsageError(f"episode {sample.id} is of an environment that {where} does not name")

    def against(self, suite: Suite) -> StoredRun:
        """Return the run with another suite than the one that it names."""
        return replace(self, load_suite=partial(_given, suite))


def read_stored_run(folder: Path, suites: Mapping[str, Path] | None = None) -> StoredRun:
    """Open the run of a folder; ``suites`` as `suite_loader`.

    `UsageError` where there is no ``run.json``, of which `MalformedRunError` where it cannot be parsed.
    """
    path = folder / RUN_FILE
    data = read_file(path, remedy="name the folder of a run")
    try:
        log = parse_run(loads_json(data, str(path)), str(path))
    except UsageError as error:
        raise MalformedRunError(str(error)) from error
    return StoredRun(folder, folder, log, hashlib.sha256(data).hexdigest(), suite_loader(folder, log, suites))


def suite_loader(path: Path, log: EvalLog, suites: Mapping[str, Path] | None = None) -> Callable[[], Suite]:
    """Return what reads the suite of a run at ``path``; it can be pickled.

    ``suites``: suite files by the suite's name; other names are looked up as `suite_file_of_run` does.
    """
    return partial(_load_suite, path, log.suite.name, (suites or {}).get(log.suite.name))


def _load_suite(path: Path, name: str, file: Path | None) -> Suite:
    return load_suite(file or suite_file_of_run(path, name))


def _given(suite: Suite) -> Suite:
    return suite
