"""Learning curves as numbers: runs grouped, the mean of a group, and a band around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias, get_args

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.core.options import check_choice
from agentgym.errors import UsageError, nearest
from agentgym.evaluation.board.statistics import CONFIDENCE, t_quantile
from agentgym.history.metrics import IterationMetrics, Outcomes, StageSeconds
from agentgym.history.run import RunHistory

X: TypeAlias = Literal["iteration", "episodes", "env_steps", "tokens", "seconds"]
"""Quantity on a curve's x-axis; ``tokens`` counts sampled ones."""

XS: tuple[X, ...] = get_args(X)

Band: TypeAlias = Literal["none", "min-max", "interval"]
"""Band around the mean: none for one run, their range for 2 to 4, a confidence interval for 5 and more."""

SEEDS_FOR_INTERVAL = 5

EVALUATION = "evaluation/"
"""Prefix of the metrics that only iterations with an evaluation have."""

SHORT_NAMES = {"eval": "evaluation/success", "eval_score": "evaluation/score"}

FRACTIONS = frozenset({"success", "valid_fraction", "usable_fraction", "clip_fraction"})

_PART = re.compile(r"evaluation/(splits/[^/]+/(types/[^/]+/)?|types/[^/]+/)(episodes|success|score)")
"""Pattern of the metrics of a split or a type of task, whose names differ from run to run."""

STEP_GROUPS = ("1", "2", "3-4", "5-8", "9-16", "17+")


@dataclass(frozen=True, slots=True)
class RunGroup:
    """Runs of one algorithm, environment and model: samples of the same curve."""

    runs: tuple[RunHistory, ...]
    """Runs of the group by seed, at least one."""

    @property
    def first(self) -> RunHistory:
        """A run with the algorithm, environment and model of all."""
        return self.runs[0]

    @property
    def differing(self) -> list[str]:
        """Names of settings, besides the seed, that are not the same in all runs."""
        names = dict.fromkeys(name for run in self.runs for name in run.settings if name != "seed")
        return [
            name
            for name in names
            if any(run.settings.get(name) != self.first.settings.get(name) for run in self.runs)
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """A metric of a group of runs at P iterations.

    Runs are aligned by iteration: a point is the mean of the runs' values and, where x is something
    else, of how far each had come in x by then. Iterations that some run lacks are left out, so a curve
    ends with its shortest run.
    """

    x: Floats
    """(P,) positions on the x-axis, increasing."""
    mean: Floats
    """(P,) means over the runs."""
    low: Floats
    high: Floats
    """(P,) upper ends of the band, and ``low`` its lower ones."""
    band: Band
    runs: int


def group_runs(runs: Sequence[RunHistory], *, each: bool = False) -> list[RunGroup]:
    """Group runs by algorithm, environment and model, in order of their first runs.

    ``each`` makes every run a group of its own. Two runs of a group with one seed are a `UsageError`: they
    are no independent samples.
    """
    groups: dict[tuple[str, ...], list[RunHistory]] = {}
    for run in runs:
        alone = (str(run.folder),) if each else ()
        members = groups.setdefault((run.algorithm, run.env_id, run.model, *alone), [])
        for other in members:
            if other.seed == run.seed:
                raise UsageError(
                    f"{other.folder} and {run.folder} are of the same algorithm, environment, model and "
                    "seed: leave one out, or draw every run as a line of its own (--each)"
                )
        members.append(run)
    return [RunGroup(tuple(sorted(members, key=lambda run: run.seed))) for members in groups.values()]


def metric_names() -> list[str]:
    """Return every name that `full_name` knows, but the short ones and those of splits and types of tasks."""
    parts = {"seconds": StageSeconds, "evaluation": Outcomes}
    names = [f"step_groups/{size}" for size in STEP_GROUPS]
    for field in fields(IterationMetrics):
        if field.name in parts:
            names += [f"{field.name}/{part.name}" for part in fields(parts[field.name])]
        elif field.name not in ("iteration", "step_groups", "evaluation_before"):
            names.append(field.name)
    return names


def full_name(metric: str) -> str:
    """Return the flat name of a metric, as in `IterationMetrics.scalars`, given it or a short one."""
    if _PART.fullmatch(metric):
        return metric
    known = [*SHORT_NAMES, *metric_names()]
    check_choice("metric", metric, known)
    return SHORT_NAMES.get(metric, metric)


def is_fraction(metric: str) -> bool:
    """Return whether a metric is between 0 and 1 by definition."""
    return metric in FRACTIONS or (metric.startswith(EVALUATION) and metric.endswith("/success"))


def has_metric(run: RunHistory, metric: str) -> bool:
    """Return whether some iteration of a run has a metric, by its flat name."""
    return any(np.isfinite(metrics.number(metric)) for metrics in run.iterations)


def make_curve(group: RunGroup, metric: str, x: X, smooth: float = 1) -> Curve:
    """Compute a curve.

    A run's values are averaged over the last ``smooth`` iterations first, or below 1 exponentially, each
    weighing ``smooth`` times as much as the next; evaluations are drawn as they are. Every run needs the
    metric.
    """
    for run in group.runs:
        if not has_metric(run, metric):
            raise _missing(run, metric)
    rows = [_points(run, metric, x, smooth) for run in group.runs]
    shared = sorted(set(rows[0]).intersection(*rows[1:]))
    if not shared:
        raise UsageError(
            f"the runs of {group.first.algorithm} on {group.first.env_id} have {metric!r} at no iteration in "
            "common: draw every run as a line of its own (--each)"
        )
    table = np.array([[row[iteration] for iteration in shared] for row in rows])
    values = table[:, :, 1]
    low, high, band = _band(values)
    if is_fraction(metric):
        low, high = np.maximum(low, 0.0), np.minimum(high, 1.0)
    return Curve(table[:, :, 0].mean(axis=0), values.mean(axis=0), low, high, band, len(rows))


def reached(curve: Curve, threshold: float) -> float | None:
    """Return the place on the x axis where a curve's mean first is a threshold or more; None if nowhere."""
    places = np.flatnonzero(curve.mean >= threshold)
    return float(curve.x[places[0]]) if len(places) else None


def _points(run: RunHistory, metric: str, x: X, smooth: float) -> dict[int, tuple[float, float]]:
    """Return x and value by iteration, without values that are not finite."""
    values = np.array([metrics.number(metric) for metrics in run.iterations])
    places = _places(run.iterations, x)
    found: dict[int, tuple[float, float]] = {}
    if metric.startswith(EVALUATION):
        found[0] = (0.0, run.iterations[0].number(metric.replace("evaluation", "evaluation_before", 1)))
    else:
        values = smoothed(values, smooth)
    found.update(enumerate(zip(places.tolist(), values.tolist(), strict=True), start=1))
    return {iteration: point for iteration, point in found.items() if np.isfinite(point[1])}


def _places(iterations: Sequence[IterationMetrics], x: X) -> Floats:
    if x == "tokens":
        return np.cumsum([float(metrics.tokens_out) for metrics in iterations])
    if x == "seconds":
        return np.cumsum([metrics.seconds.total for metrics in iterations])
    return np.array([metrics.number(x) for metrics in iterations])


def smoothed(values: Floats, smooth: float) -> Floats:
    """Average each value with those before it, leaving out what is not finite."""
    finite = np.isfinite(values)
    if smooth < 1:
        averages, total, weight = np.zeros(len(values)), 0.0, 0.0
        for place in np.flatnonzero(finite):
            total, weight = smooth * total + values[place], smooth * weight + 1.0
            averages[place] = total / weight
        return np.where(finite, averages, np.nan)
    last = int(smooth)
    sums, counts = np.cumsum(np.where(finite, values, 0.0)), np.cumsum(finite, dtype=np.float64)
    sums[last:], counts[last:] = sums[last:] - sums[:-last], counts[last:] - counts[:-last]
    return np.where(finite, sums / np.maximum(counts, 1.0), np.nan)


def _band(values: Floats) -> tuple[Floats, Floats, Band]:
    """Return the lower and upper ends of the band around the mean of (runs, P), and its kind."""
    runs = len(values)
    if runs >= SEEDS_FOR_INTERVAL:
        mean = values.mean(axis=0)
        half = t_quantile((1 + CONFIDENCE) / 2, runs - 1) * values.std(axis=0, ddof=1) / np.sqrt(runs)
        return mean - half, mean + half, "interval"
    return values.min(axis=0), values.max(axis=0), "none" if runs == 1 else "min-max"


def _missing(run: RunHistory, metric: str) -> UsageError:
    if metric.startswith(EVALUATION):
        known = sorted({name for each in run.iterations for name in each.scalars() if _PART.fullmatch(name)})
        if has_metric(run, EVALUATION + "success") and known:
            near = nearest(metric, known) or f"; its first is {known[0]}"
            return UsageError(f"the evaluations of {run.folder} have no {metric!r}{near}")
        return UsageError(f"{run.folder} was never evaluated: leave it out, or draw another metric")
    return UsageError(
        f"{run.folder} has no {metric!r}, which not every algorithm logs: leave it out, or draw "
        "another metric"
    )
