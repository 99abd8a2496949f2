"""Iterations as a person follows them: a line for each, and in a terminal a bar with the time left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, TypeAlias

from agentgym.history.metrics import Evaluated, IterationMetrics, SplitOutcomes
from agentgym.history.trend import Trend

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

WIDTH_OF_FILES = 100
"""Width of the table in files and pipes, in columns."""

LINES_PER_HEADING = 25

_PARTS_INDENT = 7
"""Indent of an evaluation's parts, which stand below its line."""

_SPEED_SECONDS = 1800.0
"""Seconds of the latest iterations, with evaluations, from which the time left is estimated."""

_Column: TypeAlias = tuple[str, int, Callable[[IterationMetrics], str]]


def _percent(value: float) -> str:
    return f"{100 * value:.1f}%"


def _won(evaluated: Evaluated | None) -> str:
    return "" if evaluated is None else _percent(evaluated.success)


def _parts(evaluated: Evaluated) -> Iterator[str]:
    """Yield the success of each split and type of task, a line for each split, where there are several."""
    splits: dict[str, SplitOutcomes] = {**evaluated.splits} or {"": evaluated}
    for name, split in splits.items():
        types = ", ".join(f"{kind} {_percent(each.success)}" for kind, each in split.types.items())
        head = f"{name} {_percent(split.success)}" if name else ""
        if head or types:
            yield ": ".join(filter(None, (head, types)))


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value < 99_999.5 else f"{value / 1000:,.0f}k"


_COLUMNS: tuple[_Column, ...] = (
    ("iter", 5, lambda m: str(m.iteration)),
    ("success", 8, lambda m: _percent(m.success)),
    ("eval", 7, lambda m: _won(m.evaluation)),
    ("usable", 7, lambda m: _percent(m.usable_fraction)),
    ("logp diff", 10, lambda m: f"{m.logp_diff:.1e}"),
    ("kl", 9, lambda m: f"{m.kl:.1e}"),
    ("clip", 6, lambda m: _percent(m.clip_fraction)),
    ("tok/s", 7, lambda m: _rate(m.tokens_per_second)),
    ("secs", 6, lambda m: _seconds(m.seconds.total)),
    ("model", 6, lambda m: _seconds(m.seconds.model)),
    ("update", 7, lambda m: _seconds(m.seconds.update)),
    ("credit", 7, lambda m: _seconds(m.seconds.credit)),
    ("env", 5, lambda m: _seconds(m.seconds.env)),
    ("eval", 5, lambda m: _seconds(m.seconds.evaluate)),
    ("sync", 5, lambda m: _seconds(m.seconds.sync)),
)
"""Heading, width and text of each column: 100 characters in all. A narrower terminal shows the first ones.
The columns after ``secs`` are its parts, the longest ones first."""


_LEGEND = {
    "success": "episodes won in training",
    "eval": "episodes won in evaluation",
    "usable": "groups whose returns differ",
    "logp diff": "largest gap between the engine's and the learner's log-probabilities",
    "kl": "divergence from the sampling policy",
    "clip": "terms clipped",
    "tok/s": "tokens sampled a second",
    "secs": "seconds of the iteration; then its parts: sampling, update, credit, environment, evaluation, "
    "weights to the engine",
}
"""Meaning of each heading; the legend lists the columns that fit."""


class ConsoleLog:
    """A legend and a line per iteration on a console; on a terminal above a bar with the time left."""

    def __init__(self, iterations: int, *, start: int = 0, console: Console | None = None):
        """Show the bar of a run, ``start`` iterations behind, on ``console`` (default: standard error)."""
        from rich.console import Console

        self._console = console or Console(stderr=True, highlight=False)
        self._width = self._console.width if self._console.is_terminal else WIDTH_OF_FILES
        self._columns = _fitting(self._width)
        self._lines = 0
        self._trend = Trend()
        self._bar: Progress | None = None
        if self._console.is_terminal:
            self._bar = _bar(self._console)
            self._bar.add_task("training", total=iterations, completed=start)
            self._bar.start()

    def write(self, metrics: IterationMetrics) -> None:
        """Print a line."""
        if not self._lines:  # only now, so that a run that cannot begin shows its error alone
            self._print_legend()
        if self._lines % LINES_PER_HEADING == 0:
            self._print("".join(f"{heading:>{width}}" for heading, width, _ in self._columns), "dim")
        self._lines += 1
        if metrics.evaluation_before is not None:
            self._print(f"{0:>5}{'':>8}{_won(metrics.evaluation_before):>7}", "bold")
            self._print_parts(metrics.evaluation_before)
        line = "".join(f"{text(metrics):>{width}}" for _, width, text in self._columns)
        self._print(line, "bold" if metrics.evaluation else "")
        if metrics.evaluation is not None:
            self._print_parts(metrics.evaluation)
        if line := self._trend.follow(metrics):
            self._print(line, "yellow")
        if self._bar is not None:
            self._bar.update(self._bar.task_ids[0], completed=metrics.iteration)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.stop()

    def _print_parts(self, evaluated: Evaluated) -> None:
        indent = " " * _PARTS_INDENT
        for part in _parts(evaluated):
            lines = wrap(
                part, max(self._width, 2 * _PARTS_INDENT), initial_indent=indent, subsequent_indent=indent
            )
            self._print("\n".join(lines), "dim")

    def _print_legend(self) -> None:
        shown = {heading for heading, _, _ in self._columns}
        legend = "  ".join(f"{name}: {meaning}." for name, meaning in _LEGEND.items() if name in shown)
        self._print("\n".join(wrap(legend, self._width)), "dim")

    def _print(self, line: str, style: str) -> None:
        from rich.text import Text

        # a style of print would colour the progress bar, too
        self._console.print(Text(line, style), soft_wrap=True)


def print_resources(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values of a run's resources, a line each, on standard error."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False)
    for name, value in rows:
        console.print(Text(f"{name:>8}  {value}", "dim"), soft_wrap=True)


def _fitting(width: int) -> tuple[_Column, ...]:
    """Return as many columns as fit."""
    used = [sum(column[1] for column in _COLUMNS[: count + 1]) for count in range(len(_COLUMNS))]
    return tuple(column for column, end in zip(_COLUMNS, used, strict=True) if end <= width)


def _bar(console: Console) -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left", style="dim"),
        TimeRemainingColumn(),
        console=console,
        speed_estimate_period=_SPEED_SECONDS,
        refresh_per_second=2,
    )
