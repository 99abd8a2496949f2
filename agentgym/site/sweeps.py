"""Pages of sweeps: the learning curves of a study's arms over their seeds, each drawn on top of all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.errors import UsageError
from agentgym.evaluation.board.statistics import Estimate, t_interval
from agentgym.history.curves import smoothed
from agentgym.io.records import RecordT, parse
from agentgym.io.untrusted import read_file, read_json

SWEEPS = "algorithms"
"""Folder of studies below that of reports: ``NAME.json`` with its runs, and ``NAME.md``, the report."""

DECAY = 0.95
"""Decay of the exponential moving average over iterations, as in the pictures of the reports."""

POINTS = 48
LEFT, RIGHT, TOP, BOTTOM = 30.0, 158.0, 8.0, 88.0
"""Edges of the axes within a drawing of 160 x 104."""


@dataclass(frozen=True, slots=True)
class _Study:
    study: str
    source: str
    environments: Mapping[str, Mapping[str, Any]]
    runs: tuple[Mapping[str, Any], ...]
    beside: tuple[Mapping[str, Any], ...] = ()
    """Runs of another study, for comparison."""


@dataclass(frozen=True, slots=True)
class _Environment:
    title: str
    about: str


@dataclass(frozen=True, slots=True)
class _Run:
    arm: str
    environment: str
    budget: int
    end: str
    env_steps: tuple[int, ...]
    success: tuple[float, ...]
    won: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if len(self.env_steps) != len(self.success) or self.budget < 1 or not (self.won and all(self.won)):
            raise ValueError("a run needs a budget, held-out tasks, and steps for each success")


@dataclass(frozen=True, slots=True)
class SweepArm:
    """One arm in one environment."""

    label: str
    runs: int
    stopped: int
    """Runs that ended before their budget."""
    success: Estimate
    """Success on held-out tasks after training, over the runs."""
    line: str
    band: str
    """Path of the 95 % interval, and ``line`` that of the mean; empty where the runs share no steps."""


@dataclass(frozen=True, slots=True)
class SweepPart:
    """All arms in one environment, the best first."""

    title: str
    about: str
    budget: int
    """Environment steps at the right end of the drawings."""
    top: float
    """Share at the top of the drawings."""
    arms: tuple[SweepArm, ...]


@dataclass(frozen=True, slots=True)
class SweepPage:
    """A study."""

    name: str
    title: str
    source: str
    parts: tuple[SweepPart, ...]
    report: str
    """Report of the study, in Markdown."""

    @property
    def arms(self) -> int:
        """Number of arms."""
        return len({arm.label for part in self.parts for arm in part.arms})

    @property
    def runs(self) -> int:
        """Number of runs that have finished."""
        return sum(arm.runs for part in self.parts for arm in part.arms)

    @property
    def file(self) -> str:
        """Name of its page."""
        return f"{self.name}.html"

    @property
    def report_file(self) -> str:
        """Name of the report beside it: browsers show plain text, and store Markdown."""
        return f"{self.name}.txt"


def sweep_pages(folder: Path) -> tuple[list[SweepPage], list[tuple[str, str]]]:
    """Read the studies of a folder, by name; and name and reason of unreadable ones."""
    found, refused = [], []
    for path in sorted(folder.glob("*.json")):
        try:
            table = read_json(path)
            if isinstance(table, dict) and "study" in table:
                page = _page(path, _parsed(_Study, table, path.name))
                found += [page] if page.runs else []
        except UsageError as error:
            refused.append((path.name, str(error).replace(str(path), path.name)))
    return found, refused


def _parsed(kind: type[RecordT], table: Mapping[str, Any], where: str) -> RecordT:
    """Make a record of those keys of a table that it has."""
    return parse(kind, {key: value for key, value in table.items() if key in kind.__annotations__}, where)


def _page(path: Path, study: _Study) -> SweepPage:
    runs = [_parsed(_Run, run, path.name) for run in (*study.runs, *study.beside)]
    text = read_file(path.with_suffix(".md")).decode("utf-8", "replace")
    parts = []
    for name, about in study.environments.items():
        played = [run for run in runs if run.environment == name]
        if played:
            parts.append(_part(_parsed(_Environment, about, path.name), played))
    return SweepPage(
        name=f"study-{path.stem.removeprefix('sweep-')}",
        title=text.partition("\n")[0].removeprefix("# "),
        source=study.source,
        parts=tuple(parts),
        report=text,
    )


def _part(about: _Environment, runs: Sequence[_Run]) -> SweepPart:
    budget = max(run.budget for run in runs)
    groups = {
        label: [run for run in runs if run.arm == label] for label in dict.fromkeys(r.arm for r in runs)
    }
    curves = {label: _curve(group, budget) for label, group in groups.items()}
    most = max((each.high for _, points in curves.values() for each in points), default=1.0)
    top = max(1, math.ceil(10 * most)) / 10
    arms = []
    for label, group in groups.items():
        won = np.array([np.mean([np.mean(task) for task in run.won]) for run in group])
        stopped = sum(run.end != "budget" for run in group)
        paths = _paths(*curves[label], top)
        arms.append(SweepArm(label, len(group), stopped, t_interval(won, (0.0, 1.0)), *paths))
    arms.sort(key=lambda arm: -arm.success.value)
    return SweepPart(about.title, f"{about.about[:1].upper()}{about.about[1:]}", budget, top, tuple(arms))


def _curve(runs: Sequence[_Run], budget: int) -> tuple[Floats, list[Estimate]]:
    """Return places from 0 to 1 of the budget that all runs came through, and the success there."""
    start = max((run.env_steps[0] if run.env_steps else budget) for run in runs)
    end = min(budget, *((run.env_steps[-1] if run.env_steps else 0) for run in runs))
    if start >= end:
        return np.empty(0), []
    grid = np.linspace(start, end, POINTS)
    rows = np.array([np.interp(grid, run.env_steps, smoothed(np.array(run.success), DECAY)) for run in runs])
    return grid / budget, [t_interval(values, (0.0, 1.0)) for values in rows.T]


def _paths(places: Floats, points: Sequence[Estimate], top: float) -> tuple[str, str]:
    x = [LEFT + (RIGHT - LEFT) * place for place in places]
    line = _path(x, [each.value / top for each in points])
    around = _path([*x, *x[::-1]], [each.high / top for each in points] + [p.low / top for p in points[::-1]])
    return line, around


def _path(x: Sequence[float], heights: Sequence[float]) -> str:
    y = [BOTTOM - (BOTTOM - TOP) * height for height in heights]
    return "M" * bool(x) + "L".join(f"{left:.1f} {top:.1f}" for left, top in zip(x, y, strict=True))
