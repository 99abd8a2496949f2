"""Journals of a run in progress: episodes, transcripts, and recorded answers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from agentgym.core.types import Trajectory
from agentgym.errors import UsageError
from agentgym.evaluation.log.recorded_answers import ANSWERS_FILE, RecordingAnswers, answer_pins, read_answers
from agentgym.evaluation.log.results import EpisodeKey, EvalLog, EvalSample, record_of
from agentgym.evaluation.log.runfiles import file_sha256
from agentgym.evaluation.log.transcripts import TranscriptJournal
from agentgym.evaluation.suites.suite import SuiteEnv
from agentgym.io.files import Journal
from agentgym.vector.core import AgentVectorEnv


class AnswersJournal:
    """The file of a run's recorded answers, which is made when there is one to record."""

    def __init__(self, folder: Path, run: EvalLog):
        """Read what is there."""
        self._path = folder / ANSWERS_FILE
        self._journal: Journal | None = None
        if self._path.exists():
            if run.answers_sha256 not in (None, file_sha256(self._path)):
                raise UsageError(
                    f"{self._path} was changed after the run was complete; put it back, or remove the folder "
                    "and run again"
                )
            with Journal(self._path):
                pass  # opening it cut off half a line
        self.book = read_answers(self._path)
        """What was answered so far."""

    def keep(self, label: str, slots: AgentVectorEnv) -> None:
        """Record what an environment is answered from now on, where the package itself does not answer."""
        if answer_pins(slots.prototype.query_backends):
            slots.answer_from(RecordingAnswers(self.book, label, self._append))

    @property
    def sha256(self) -> str | None:
        """Of the file; None without one."""
        return file_sha256(self._path) if self._path.exists() else None

    def close(self) -> None:
        """Release the file."""
        if self._journal is not None:
            self._journal.close()

    def _append(self, line: str) -> None:
        if self._journal is None:
            self._journal = Journal(self._path)
        self._journal.append(line)


class EpisodeLines:
    """The lines of ``episodes.jsonl``, and how the next one follows on them."""

    def __init__(self, request_id: str, episodes: list[EvalSample]):
        """Go on after the lines that there are."""
        self.episodes = episodes
        """Every line, in order."""
        self._previous = episodes[-1].line_sha256 if episodes else request_id
        self._attempts = Counter(episode.key for episode in episodes)

    def attempt(self, key: EpisodeKey) -> int:
        """Return the number of the attempt of an episode's next line."""
        return self._attempts[key] + 1

    def append(self, played: EvalSample) -> EvalSample:
        """Return an episode as the next line."""
        self._attempts[played.key] += 1
        line = replace(played, attempt=self._attempts[played.key], previous=self._previous)
        self._previous = line.line_sha256
        self.episodes.append(line)
        return line


@dataclass(frozen=True, slots=True)
class RunJournals:
    """The files of a run that is being played."""

    lines: EpisodeLines
    episodes: Journal
    transcripts: TranscriptJournal

    def add(self, trajectory: Trajectory, env: SuiteEnv) -> EvalSample:
        """Write an episode, its transcript first: the line of the episode names it."""
        played = record_of(trajectory, env)
        sha256 = self.transcripts.append(trajectory, env.label, self.lines.attempt(played.key))
        line = self.lines.append(replace(played, transcript=sha256))
        self.episodes.append(line.line)
        return line
