"""Data source of diagnostics: a run's metrics and recorded rollouts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from agentgym.algos.table import ALGORITHMS
from agentgym.core.types import Step
from agentgym.errors import UsageError
from agentgym.evaluation.log.results import RUN_FILE
from agentgym.history.diagrams import Panel, Series
from agentgym.history.metrics import IterationMetrics
from agentgym.history.rollouts import kept_iterations, read_rollouts
from agentgym.history.run import RunHistory, read_history
from agentgym.rollout.stored_episode import KeptEpisode, StepCredit


@dataclass(frozen=True)
class RunSource:
    """A run's folder, read on demand."""

    folder: Path
    """Folder of the run; for diagnostics of evaluations also that of an evaluation, or its packed file."""
    chosen: tuple[int, ...] = ()
    """Iterations whose rollouts are read; empty for all stored ones."""

    @property
    def is_training(self) -> bool:
        """Whether it is a training run, and not one of an evaluation."""
        return not (self.folder.is_file() or (self.folder / RUN_FILE).exists())

    @cached_property
    def history(self) -> RunHistory:
        """Settings and metrics."""
        return read_history(self.folder)

    @property
    def iterations(self) -> tuple[IterationMetrics, ...]:
        """The metrics of each iteration."""
        return self.history.iterations

    @property
    def about(self) -> str:
        """Algorithm, environment and seed."""
        run = self.history
        title = ALGORITHMS[run.algorithm].title if run.algorithm in ALGORITHMS else run.algorithm
        return f"{title} on {run.env_id.rpartition('/')[2]}, seed {run.seed}"

    @cached_property
    def rollouts(self) -> dict[int, list[KeptEpisode]]:
        """The episodes of each iteration with recorded rollouts, ascending; there must be some."""
        known = kept_iterations(self.folder)
        if not known:
            raise UsageError(
                f"{self.folder} has kept no rollouts: train with --set keep_rollouts=10 to draw this"
            )
        if lost := [iteration for iteration in self.chosen if iteration not in known]:
            raise UsageError(
                f"{self.folder} has kept no rollouts of iteration {lost[0]}: choose from "
                f"{', '.join(map(str, known))}"
            )
        return {number: read_rollouts(self.folder, number) for number in sorted(self.chosen or known)}

    @property
    def episodes(self) -> list[KeptEpisode]:
        """All recorded episodes."""
        return [episode for some in self.rollouts.values() for episode in some]

    def column(self, name: str, *, missing: str) -> tuple[float | None, ...]:
        """Return a number of every iteration by its flat name; None where one lacks it.

        ``missing`` ends the message if none has it: the setting that records it.
        """
        values = [metrics.number(name) for metrics in self.iterations]
        if not any(math.isfinite(value) for value in values):
            raise UsageError(f"{self.folder} has no {name!r}: {missing}")
        return tuple(value if math.isfinite(value) else None for value in values)


def joined_panel(
    title: str, x_label: str, lines: Mapping[str, Mapping[float, float | None]], *, percent: bool = False
) -> Panel:
    """Return a panel of lines by their names, each over places of its own."""
    x = tuple(sorted({place for line in lines.values() for place in line}))
    series = tuple(
        Series(label=label, y=tuple(line.get(place) for place in x)) for label, line in lines.items()
    )
    return Panel(title=title, x_label=x_label, x=x, series=series, percent=percent, joined=True)


def mean(values: list[float]) -> float | None:
    """Return the mean; None of nothing."""
    return sum(values) / len(values) if values else None


def steps_of(episodes: list[KeptEpisode]) -> Iterator[tuple[KeptEpisode, Step, StepCredit]]:
    """Yield every step between its episode and its credit."""
    for episode in episodes:
        for step, credit in zip(episode.trajectory.steps, episode.credit, strict=True):
            yield episode, step, credit


def by_kept_iteration(
    source: RunSource, measure: Callable[[list[KeptEpisode]], float | None]
) -> tuple[float | None, ...]:
    """Return a number of each recorded iteration's episodes."""
    return tuple(measure(episodes) for episodes in source.rollouts.values())


def won_and_lost(episodes: list[KeptEpisode]) -> dict[str, list[KeptEpisode]]:
    """Return the episodes that were won, and those that were lost."""
    return {
        "won": [episode for episode in episodes if episode.trajectory.won],
        "lost": [episode for episode in episodes if not episode.trajectory.won],
    }
