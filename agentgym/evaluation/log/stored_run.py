"""Stored runs: a run on disk, opened once and handed on with its suite, samples and answers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
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
    """A ``run.json`` exists and is malformed."""


@dataclass(frozen=True)
class StoredRun:
    """A run: its ``run.json``, and its other files, each read when first needed."""

    path: Path
    """Path as the user gave it: the run's folder, a packed run, or an archive."""
    folder: Path
    """Folder of its files; in the cache, where `path` is one file."""
    log: EvalLog
    """Content of ``run.json``."""
    run_sha256: str
    """sha256 of the bytes of ``run.json`` that `log` was parsed from."""
    suites: Mapping[str, Path] = field(default_factory=dict)
    """Suite files by the suite's name; other names are looked up as `suite_file_of_run` does."""
    given: Suite | None = None
    """The suite that it is verified against, where that is not read from a file."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the files' content: another process reads them again where it needs them."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    @cached_property
    def suite(self) -> Suite:
        """The suite that it is verified against; UsageError where there is none."""
        if self.given is not None:
            return self.given
        name = self.log.suite.name
        return load_suite(self.suites.get(name) or suite_file_of_run(self.path, name))

    @cached_property
    def lines(self) -> SampleLines:
        """``episodes.jsonl``, the malformed lines apart."""
        return read_lines(self.folder)

    @property
    def samples(self) -> list[EvalSample]:
        """Every attempt at every episode, in the order in which they ended; UsageError as `read_episodes`."""
        return self.lines.checked(self.folder / EPISODES_FILE).samples

    @property
    def results(self) -> list[EvalSample]:
        """Last attempt of every episode, the one that counts."""
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
        return replace(self, given=suite)


def read_stored_run(folder: Path, suites: Mapping[str, Path] | None = None) -> StoredRun:
    """Open the run of a folder; ``suites`` as `StoredRun.suites`.

    `UsageError` where there is no ``run.json``, of which `MalformedRunError` where it cannot be parsed.
    """
    path = folder / RUN_FILE
    data = read_file(path, remedy="name the folder of a run")
    try:
        log = parse_run(loads_json(data, str(path)), str(path))
    except UsageError as error:
        raise MalformedRunError(str(error)) from error
    return StoredRun(folder, folder, log, hashlib.sha256(data).hexdigest(), suites or {})
