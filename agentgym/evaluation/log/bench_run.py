"""Benchmark runs being made: the record of an agent's run, and the files that grow with its episodes."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Set
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agentgym.core.hashing import sha256_json
from agentgym.core.types import Trajectory
from agentgym.errors import UsageError
from agentgym.evaluation.log.endpoint_runs import RunSessions, named_endpoints
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE, RecordingAnswers, answer_pins
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    RETRIED,
    RUN_FILE,
    EpisodeKey,
    EvalLog,
    EvalSample,
    closed,
    record_of,
    reopened,
)
from agentgym.evaluation.log.runfiles import (
    check_chain,
    check_measures,
    read_bytes,
    write_run,
)
from agentgym.evaluation.log.stored_run import StoredRun, read_stored_run
from agentgym.evaluation.log.transcripts import TRANSCRIPTS_FILE, TranscriptRecorder, keep_transcripts
from agentgym.evaluation.suites.plan import PlannedEpisode
from agentgym.evaluation.suites.suite import SuiteEnv
from agentgym.io.files import Journal
from agentgym.vector.core import AgentVectorEnv


class BenchRun:
    """The run of one agent that is being made; hold `agentgym.io.files.sole_writer` of its folder.

    ``run.json`` is written by `playing` alone: when playing begins, and when the run is complete. A line of
    another file is serialised once: written, hashed for the file's digest and, of episodes, for the chain.
    """

    def __init__(
        self,
        folder: Path,
        fresh: EvalLog,
        plan: Iterable[PlannedEpisode],
        transcripts: TranscriptRecorder,
    ):
        """Go on with the run of a folder, or begin one; another request's run or a changed one is refused.

        The record ``fresh`` is adopted where the folder has none yet. ``plan`` is every episode of the
        request.
        """
        stored = StoredRun(folder, folder, fresh, run_sha256="")
        if (folder / RUN_FILE).exists():
            stored = read_stored_run(folder)
        self.folder = folder
        self.log = _adopted(stored, fresh)
        self._newest = fresh.state_schemas
        self._transcripts = transcripts
        if self.log.result_id is None:
            for path in (folder / EPISODES_FILE, folder / ANSWERS_FILE):
                if path.exists() or path.name == EPISODES_FILE:
                    with Journal(path):
                        pass  # opening it cut off half a line
        self._planned = {episode.key for episode in plan}
        _check_whole(stored, self._planned)
        self.samples = list(stored.samples)
        """Every attempt at every episode, in the order in which they ended."""
        self._attempts = Counter(sample.key for sample in self.samples)
        self._previous = (stored.lines.line_sha256s or [self.log.request_id])[-1]
        self._done = {sample.key for sample in stored.results if sample.end_reason not in RETRIED}
        self.answers = stored.answers
        """Answers from outside so far."""
        self._journals: dict[str, Journal] = {}
        self._digests: dict[str, Any] = {}
        self._closing = ExitStack()

    @contextmanager
    def playing(self, sessions: RunSessions) -> Iterator[None]:
        """Have what is missing played within the block; the run is complete where no error ends it.

        ``sessions``: of the command, which ask and probe the endpoints that the run names.
        """
        if any(self.log.state_schemas.get(label, 1) != schema for label, schema in self._newest.items()):
            raise UsageError(f"{self.folder} has other state hashes; remove the folder and run again")
        keep_transcripts(self.folder, (sample.transcript for sample in self.samples))
        named = named_endpoints(self.log.agent, [found.env for found in self.log.played])
        with sessions.opened(self.folder, named), self._closing:
            endpoints = sessions.probed(named, self.log.endpoints)
            self.log = replace(reopened(self.log), endpoints=endpoints)
            write_run(self.folder, self.log)
            for name in (EPISODES_FILE, TRANSCRIPTS_FILE, ANSWERS_FILE):
                if (self.folder / name).exists():
                    self._open(name)
            yield
        files = {name: digest.hexdigest() for name, digest in self._digests.items()}
        transcripts, answers = files.get(TRANSCRIPTS_FILE), files.get(ANSWERS_FILE)
        self.log = closed(self.log, self.samples, transcripts, answers, files[EPISODES_FILE])
        write_run(self.folder, self.log)

    @property
    def complete(self) -> bool:
        """Whether ``run.json`` says so, and each episode that it asks for has a result."""
        return self.log.result_id is not None and self._planned == self._done

    def missing(self, plan: Iterable[PlannedEpisode]) -> list[PlannedEpisode]:
        """Return those of some episodes that had no result before."""
        return [episode for episode in plan if episode.key not in self._done]

    def record_answers(self, label: str, slots: AgentVectorEnv) -> None:
        """Record what an environment is answered from now on, where the package itself does not answer."""
        if answer_pins(slots.prototype.query_backends):
            slots.answer_from(RecordingAnswers(self.answers, label, partial(self._append, ANSWERS_FILE)))

    def add(self, trajectory: Trajectory, env: SuiteEnv) -> EvalSample:
        """Write an episode, its transcript first: the line of the episode names it."""
        played = record_of(trajectory, env)
        attempt = self._attempts[played.key] + 1
        transcript = self._transcripts.line(trajectory, env.label, attempt)
        sha256 = ""
        if transcript is not None:
            sha256 = self._append(TRANSCRIPTS_FILE, transcript)
            self._journals[TRANSCRIPTS_FILE].sync()  # no episode names one that a crash took
        sample = replace(played, attempt=attempt, previous=self._previous, transcript=sha256)
        self._attempts[sample.key] = attempt
        self._previous = self._append(EPISODES_FILE, sample.line)
        self.samples.append(sample)
        return sample

    def _append(self, name: str, line: str) -> str:
        """Write a line of a file, which is made with the first one; return its sha256."""
        if name not in self._journals:
            self._open(name)
        data = line.encode()
        self._journals[name].append(line)
        self._digests[name].update(data + b"\n")
        return hashlib.sha256(data).hexdigest()

    def _open(self, name: str) -> None:
        path = self.folder / name
        self._digests[name] = hashlib.sha256(read_bytes(path) if path.exists() else b"")
        self._journals[name] = self._closing.enter_context(Journal(path))


def _check_whole(stored: StoredRun, planned: Set[EpisodeKey]) -> None:
    """Refuse files that are not those of a complete run's digests, and episodes that are not planned."""
    log, path = stored.log, stored.folder / EPISODES_FILE
    for name, sha256 in ((EPISODES_FILE, log.episodes_sha256), (ANSWERS_FILE, log.answers_sha256)):
        if sha256 not in (None, stored.digests.get(name, sha256)):
            raise UsageError(
                f"{stored.folder / name} was changed after the run was complete; put it back, or remove the "
                "folder and run again"
            )
    samples = stored.samples
    for problem in (*check_chain(log, stored.lines), *check_measures(samples)):
        raise UsageError(f"{path}, {problem}; remove the folder and run again")
    if not {sample.key for sample in samples} <= planned:
        raise UsageError(
            f"{path} holds episodes that request {log.request_id[:12]} does not ask for; "
            "remove the folder and run again"
        )


def _adopted(run: StoredRun, fresh: EvalLog) -> EvalLog:
    """Return the record to go on with: the folder's own, which has to be of this very request."""
    stored = run.log
    if not stored.request_id == sha256_json(stored.request) == fresh.request_id:
        raise UsageError(
            f"{run.folder} holds the run of another request ({stored.request_id[:12]}, "
            f"not {fresh.request_id[:12]}); remove the folder or choose another --out"
        )
    provenance = stored.provenance
    if not provenance[-1].same_place(fresh.provenance[-1]):
        provenance = (*provenance, *fresh.provenance)
    return replace(stored, provenance=provenance, left_out=fresh.left_out)
