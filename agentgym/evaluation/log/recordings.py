"""Recordings: unplanned episodes, written as a run of a suite made for them.

A person plays the tasks they choose. Each episode that ends is written as those of a benchmark are, with a
suite that names just these tasks, in order. So ``agentgym verify`` plays it again, and ``agentgym bench``
lets agents play the same tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from agentgym.core.types import Trajectory
from agentgym.evaluation.log.recorded_answers import (
    ANSWERS_FILE,
    AnswerPin,
    RecordedAnswers,
    RecordingAnswers,
)
from agentgym.evaluation.log.results import (
    EPISODES_FILE,
    EvalSample,
    RunEnv,
    chained,
    closed,
    episode_lines,
    new_run,
    record_of,
)
from agentgym.evaluation.log.runfiles import file_sha256, write_run
from agentgym.evaluation.suites.suite import SCALE, Suite, SuiteAgent, SuiteEnv
from agentgym.evaluation.suites.suite_text import write_suite
from agentgym.io.files import make_folder, replace_file
from agentgym.io.provenance import Provenance, here_and_now
from agentgym.registration import class_of


class Recording:
    """One player's episodes: ``FOLDER/suites/NAME.toml`` and the run ``FOLDER/NAME/PLAYER``.

    The files are there from the first episode on, and whole after each.
    """

    def __init__(self, folder: Path, name: str, player: SuiteAgent, *, seed: int):
        """Prepare to record; the seeds of episodes follow from the suite's ``seed``."""
        self.run_folder = folder / name / player.display_name
        self._folder = folder
        self._suite = Suite(name, "1", seed, agent=SCALE)
        self._player = player
        self._provenance = here_and_now()
        self._found: dict[str, tuple[str, tuple[AnswerPin, ...]]] = {}
        self._book = RecordedAnswers()
        self._answers: list[str] = []
        self._episodes: list[EvalSample] = []

    def seed(self, env: SuiteEnv) -> int:
        """Return the seed to reset the next episode of an environment with."""
        return self._suite.episode_seed(env.label, len(self._tasks(env)), 0)

    def holds(self, env: SuiteEnv, task_id: str) -> bool:
        """Return whether there is an episode of a task: it is recorded once."""
        return task_id in self._tasks(env)

    def answers(self, env: SuiteEnv) -> RecordingAnswers:
        """Return the answer source of the next episode's environment, which records the answers."""
        return RecordingAnswers(self._book, env.label, self._answers.append)

    def add(
        self,
        trajectory: Trajectory,
        env: SuiteEnv,
        manifest_sha256: str,
        answers: tuple[AnswerPin, ...] = (),
    ) -> None:
        """Write an ended episode, reset with `seed`, of a task that the recording does not hold yet.

        ``env``'s tasks do not matter; ``answers`` are those that ``answers`` recorded.
        """
        tasks = (*self._tasks(env), trajectory.task_id)
        if env.label not in self._found:
            self._found[env.label] = manifest_sha256, answers
            self._suite = replace(self._suite, env=(*self._suite.env, env))
        grown = tuple(replace(e, tasks=tasks) if e.label == env.label else e for e in self._suite.env)
        self._suite = replace(self._suite, env=grown)
        self._episodes.append(record_of(trajectory, env))
        self._write()

    def _tasks(self, env: SuiteEnv) -> tuple[str, ...]:
        return tuple(episode.task_id for episode in self._episodes if episode.env == env.label)

    def _write(self) -> None:
        write_suite(self._folder / "suites", self._suite)
        write_recorded(
            self._folder,
            self._suite,
            self._player,
            [RunEnv.of(env, *self._found[env.label]) for env in self._suite.env],
            self._episodes,
            self._provenance,
            answers=self._answers,
        )


def write_recorded(
    folder: Path,
    suite: Suite,
    player: SuiteAgent,
    found: Sequence[RunEnv],
    episodes: Sequence[EvalSample],
    provenance: Provenance,
    *,
    answers: Sequence[str] = (),
) -> Path:
    """Write episodes as a complete run, ``SUITE/PLAYER``; return its folder."""
    schemas = {env.env.label: class_of(env.env.id).state_schema for env in found}
    run = new_run(suite, player, found, provenance=(provenance,), schemas=schemas)
    run_folder = folder / suite.name / player.display_name
    make_folder(run_folder)
    # a recording's request grows with its tasks, and the chain begins with the request
    lines = chained(run.request_id, episodes)
    replace_file(run_folder / EPISODES_FILE, episode_lines(lines))
    sha256 = None
    if answers:
        path = run_folder / ANSWERS_FILE
        replace_file(path, "".join(f"{line}\n" for line in answers))
        sha256 = file_sha256(path)
    write_run(run_folder, closed(run, lines, None, sha256))
    return run_folder
