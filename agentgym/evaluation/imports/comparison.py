"""A logged episode played in an environment of this package, compared step by step."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

from agentgym.agents.screen import text_of
from agentgym.core.types import Completion, Step, Trajectory
from agentgym.env import AgentEnv
from agentgym.errors import UsageError
from agentgym.evaluation.imports.logs import LogDialect, LoggedEpisode, one_line
from agentgym.evaluation.log.replay import Replay
from agentgym.evaluation.suites.suite import PlayedEnv

if TYPE_CHECKING:
    from rich.console import Console

Quantity: TypeAlias = Literal["observation", "reward", "end", "validity", "state hash", "score", "success"]

TOLERANCE = 1e-6
"""Tolerance of rewards and scores, relative and absolute: logs hold single precision."""

_SHOWN = 100
"""Most characters of a differing text in a mismatch."""


@dataclass(frozen=True, slots=True)
class LogMismatch:
    """A difference between a log and its replay."""

    where: str
    """Place of the episode in the log."""
    task: str
    step: int
    """Step, from 1; 0 compares the first observation, and the last step also the episode's end."""
    quantity: Quantity
    theirs: str
    ours: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.where}, step {self.step}: {self.quantity}: {self.theirs} in the log, {self.ours} here"


@dataclass(slots=True)
class Agreement:
    """Agreement of an episode with its log."""

    where: str
    task: str
    dialect: LogDialect
    compared: Counter[Quantity] = field(default_factory=Counter)
    """Number of values compared, by quantity."""
    mismatches: list[LogMismatch] = field(default_factory=list)

    def add(self, step: int, quantity: Quantity, theirs: Any, ours: Any) -> None:
        """Compare one value; None is missing from the log."""
        if theirs is None:
            return
        self.compared[quantity] += 1
        if quantity == "observation":
            equal = self.dialect.agrees(theirs, ours)
        elif isinstance(theirs, float):
            equal = math.isclose(theirs, ours, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
        else:
            equal = theirs == ours
        if not equal:
            shown = _differing(theirs, ours) if isinstance(theirs, str) else (f"{theirs}", f"{ours}")
            self.mismatches.append(LogMismatch(self.where, self.task, step, quantity, *shown))


def _differing(theirs: str, ours: str) -> tuple[str, str]:
    """Return two texts from shortly before where they differ."""
    one, other = one_line(theirs), one_line(ours)
    place = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), 0)
    start = max(0, place - 20)
    return repr(one[start : start + _SHOWN]), repr(other[start : start + _SHOWN])


class TaskFinder:
    """Finder of logged episodes' tasks, by name or first observation."""

    def __init__(self, game: AgentEnv[Any], dialect: LogDialect, console: Console | None = None):
        """Take an environment, which is reset to look at its tasks, and where progress is shown."""
        self._game, self._dialect, self._console = game, dialect, console
        self._first: list[tuple[str, str]] | None = None
        self._found: dict[str, tuple[str, ...]] = {}

    def find(self, episode: LoggedEpisode) -> tuple[str, ...]:
        """Return the ids of the tasks that an episode may be of: several look the same at first."""
        tasks, seen = self._game.tasks, episode.observation
        missing = f"{episode.where}: no task of {self._game.suite}'s split {tasks.split!r}"
        if episode.task:
            # also the path of an ALFWorld game, or its last two folders
            parts = re.sub(r"/game\.tw-pddl$", "", episode.task).split("/")
            for name in (episode.task, "/".join(parts[-3:]), "/".join([tasks.split, *parts[-2:]])):
                if name in cast(Any, tasks):
                    return (tasks.find(name).id,)
            raise UsageError(f"{missing} is called {episode.task!r:.80}")
        if seen is None:
            raise UsageError(f"{episode.where}: it says neither the task nor what was seen first: add either")
        if self._first is None:
            self._first = list(self._look())
        if seen not in self._found:
            self._found[seen] = tuple(key for key, ours in self._first if self._dialect.agrees(seen, ours))
        if not self._found[seen]:
            raise UsageError(f"{missing} begins with {one_line(seen)!r:.80}")
        return self._found[seen]

    def _look(self) -> Iterator[tuple[str, str]]:
        """Yield each task with its first observation, for logs that do not name tasks."""
        from rich.progress import track

        hidden = self._console is None
        for task in track(self._game.tasks, "looking at tasks", console=self._console, disable=hidden):
            yield task.id, text_of(self._game.reset(seed=0, options={"task": task.id})[0])


def compare_episode(
    episode: LoggedEpisode,
    game: AgentEnv[Any],
    env: PlayedEnv,
    dialect: LogDialect,
    *,
    task: str,
    seed: int = 0,
    rollout: int = 0,
) -> tuple[Trajectory, Agreement]:
    """Play a logged episode's actions and compare what follows from each."""
    replay = Replay.begin(game, env, task, seed, rollout)
    found = Agreement(episode.where, task, dialect)
    found.add(0, "observation", episode.observation, text_of(replay.observation))
    steps: list[Step] = []
    for number, logged in enumerate(episode.steps, start=1):
        if replay.over:
            found.add(number - 1, "end", f"{len(episode.steps)} actions", f"over after {number - 1}")
            break
        steps.append(replay.play(Completion(logged.action)))
        found.add(number, "observation", logged.observation, text_of(replay.observation))
        found.add(number, "reward", logged.reward, steps[-1].reward)
        found.add(number, "end", logged.done, replay.over)
        found.add(number, "validity", logged.valid, steps[-1].valid)
        found.add(number, "state hash", logged.state_hash, replay.info["state_hash"])
    trajectory = _trajectory(replay, env, tuple(steps), seed, rollout)
    found.add(len(steps), "score", episode.score, trajectory.score if replay.over else 0.0)
    found.add(len(steps), "success", episode.success, bool(trajectory.won and replay.over))
    return trajectory, found


def _trajectory(
    replay: Replay, env: PlayedEnv, steps: tuple[Step, ...], seed: int, rollout: int
) -> Trajectory:
    """Return the played episode; a log that stops before the end is an agent that gave up."""
    return Trajectory(
        env_id=env.id,
        task_id=replay.info["task_id"],
        task_type=replay.info["task_type"],
        seed=seed,
        rollout=rollout,
        initial_hash=replay.initial_hash,
        steps=steps,
        final_observation=replay.observation,
        won=replay.info["won"],
        score=replay.info["score"],
        progress=replay.info["progress"],
        end_reason=replay.end_reason or "agent_error",
        measures=replay.game.suite_spec.counted(replay.game.measures(), aborted=not replay.over),
    )
