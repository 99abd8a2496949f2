"""Training pages: curves over the seeds of an algorithm on an environment, and diagnostics of its runs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agentgym.algos import ALGORITHMS
from agentgym.errors import UsageError
from agentgym.history.curves import RunGroup, group_runs, has_metric, make_curve
from agentgym.history.diagnostics.table import DIAGNOSTICS, describe_diagnostics, diagnose
from agentgym.history.diagrams import Diagram, Panel, Series
from agentgym.history.metrics import IterationMetrics
from agentgym.history.run import METRICS_FILE, RunHistory, read_history
from agentgym.site.rendering import slug

CURVES = (
    ("success", "Success in training"),
    ("evaluation/success", "Success on held-out tasks"),
    ("evaluation/score", "Score on held-out tasks"),
    ("mean_return", "Mean return"),
    ("steps_per_episode", "Steps of an episode"),
    ("usable_fraction", "Groups whose returns differ (usable share)"),
    ("logp_diff", "Largest difference of log-probabilities, engine and learner"),
    ("staleness", "Staleness: age of the steps trained on, in versions"),
    ("kl", "Divergence from the policy that sampled"),
    ("entropy", "Entropy"),
    ("grad_norm", "Gradient norm"),
    ("valid_fraction", "Accepted actions"),
)
"""Metrics drawn over iterations, where runs have them."""

SHARES = frozenset({"success", "evaluation/success", "usable_fraction", "valid_fraction"})

TENTH = 10
"""Visit of a state that the table shows beside the first one, as in 3SPO's Figure 5."""


@dataclass(frozen=True, slots=True)
class TrainingPage:
    """The runs of one algorithm, environment and model."""

    group: RunGroup
    title: str
    slug: str
    parts: dict[str, list[dict[str, Any]]]
    """Charts as data, by section."""
    abouts: dict[str, str]
    """Explanations of a section's charts."""
    missing: list[tuple[str, str]]
    """Diagnostics that cannot be drawn, each with the reason."""
    visits: list[dict[str, str]]
    """One state's S, K and reward at its first and tenth visit."""

    @property
    def file(self) -> str:
        """Name of its page."""
        return f"training-{self.slug}.html"

    @property
    def lines(self) -> list[list[str]]:
        """The table of visits, without its head."""
        return [list(row.values()) for row in self.visits]

    @property
    def link(self) -> dict[str, str]:
        """Data for other pages that show its charts."""
        return {"file": self.file, "key": f"training/{self.slug}", "src": f"data/training-{self.slug}.js"}


def find_histories(folder: Path) -> tuple[list[RunHistory], list[tuple[str, str]]]:
    """Read the training runs anywhere below a folder, by path; and path and reason of unreadable ones."""
    found, refused = [], []
    for path in sorted(folder.rglob(METRICS_FILE)):
        try:
            found.append(read_history(path.parent))
        except UsageError as error:
            name = path.parent.relative_to(folder).as_posix()
            refused.append((name, str(error).replace(str(path.parent), name)))
    return found, refused


def training_pages(histories: Sequence[RunHistory]) -> list[TrainingPage]:
    """Return a page for each group of runs that are samples of the same curve."""
    try:
        groups = group_runs(histories)
    except UsageError:  # two runs with one seed get a page each
        groups = group_runs(histories, each=True)
    runs = [group.first for group in groups]
    names = [[run.algorithm, run.env_id.rpartition("/")[2], Path(run.model).name] for run in runs]
    return [
        _page(group, slug(*own, *([group.first.folder.name] if names.count(own) > 1 else [])))
        for group, own in zip(groups, names, strict=True)
    ]


def _page(group: RunGroup, name: str) -> TrainingPage:
    run = group.first
    algorithm = ALGORITHMS[run.algorithm].title if run.algorithm in ALGORITHMS else run.algorithm
    title = f"{algorithm} on {run.env_id.rpartition('/')[2]}"
    parts: dict[str, list[dict[str, Any]]] = {"curves": _curves(group)}
    abouts: dict[str, str] = {}
    missing: list[tuple[str, str]] = []
    groups = _group_sizes(run.iterations)
    if groups is not None:
        parts["step-groups-over-training"] = [chart(groups)]
        abouts["step-groups-over-training"] = (
            "Steps by how many steps of their task were taken in the same state."
        )
    cheap = {what for what, data, _ in describe_diagnostics() if "environment" not in data}
    visits: list[dict[str, str]] = []
    for what in (name for name in DIAGNOSTICS if name in cheap):
        try:
            diagram = diagnose(run.folder, what)
        except UsageError as error:
            missing.append((what, str(error).replace(str(run.folder), "this run")))
            continue
        parts[what] = [chart(panel) for panel in diagram.panels]
        abouts[what] = diagram.remark
        if what == "one-state":
            visits = one_state_visits(diagram)
    return TrainingPage(group, title, name, parts, abouts, missing, visits)


def _curves(group: RunGroup) -> list[dict[str, Any]]:
    """Return the learning curves over seeds as charts, each with its band."""
    found = []
    for metric, title in CURVES:
        if not all(has_metric(run, metric) for run in group.runs):
            continue
        try:
            curve = make_curve(group, metric, "iteration")
        except UsageError:  # no iteration has the metric in every run
            continue
        banded = curve.band != "none"
        name = "mean" if curve.runs > 1 else f"seed {group.first.seed}"
        around = {"none": "", "min-max": ", least to greatest", "interval": ", 95 % interval"}[curve.band]
        series = Series(
            label=f"{name} of {curve.runs} seeds{around}" if curve.runs > 1 else name,
            y=tuple(curve.mean.tolist()),
            low=tuple(curve.low.tolist()) if banded else (),
            high=tuple(curve.high.tolist()) if banded else (),
        )
        panel = Panel(
            title=title,
            x_label="iteration",
            x=tuple(curve.x.tolist()),
            series=(series,),
            percent=metric in SHARES,
        )
        found.append(chart(panel))
    return found


def _group_sizes(iterations: Iterable[IterationMetrics]) -> Panel | None:
    """Return the shares of steps by the size of their group, over training."""
    rows = [metrics for metrics in iterations if sum(metrics.step_groups.values())]
    sizes = list(dict.fromkeys(size for metrics in rows for size in metrics.step_groups))
    sizes.sort(key=lambda size: int(size.rstrip("+").partition("-")[0]))
    if not rows:
        return None
    series = [
        Series(
            label=f"groups of {size}",
            y=tuple(m.step_groups.get(size, 0) / sum(m.step_groups.values()) for m in rows),
        )
        for size in sizes
    ]
    return Panel(
        title="Share of steps by the size of their group",
        x_label="iteration",
        x=tuple(float(metrics.iteration) for metrics in rows),
        series=tuple(series),
        kind="areas",
        percent=True,
    )


def one_state_visits(diagram: Diagram) -> list[dict[str, str]]:
    """Return the diagnostic ``one-state`` of the first visit, and of the last up to the tenth.

    The diagram's panels share their x: the number of the visit.
    """
    visits = [float(x) for x in diagram.panels[0].x]
    tenth = max((place for place, visit in enumerate(visits) if visit <= TENTH), default=0)
    rows = []
    for place in dict.fromkeys((0, tenth)):
        row = {"Visits": f"{visits[place]:g}"}
        for panel in diagram.panels:
            for series in panel.series:
                value = series.y[place]
                row[series.label] = "-" if value is None else f"{value:.4g}"
        rows.append(row)
    return rows


def chart(panel: Panel) -> dict[str, Any]:
    """Return a panel as the page's script draws it; areas are stacked here."""
    named = any(isinstance(place, str) for place in panel.x)
    below = [0.0] * len(panel.x)
    series = []
    for one in panel.series:
        top: list[float] = []
        if panel.kind == "areas":
            top = below = [
                height + (value or 0.0) for height, value in zip(below, _finite(one.y), strict=True)
            ]
        shown = {"label": one.label, "y": _finite(one.y), "low": _finite(one.low), "high": _finite(one.high)}
        series.append({**shown, "top": top})
    return {
        **{key: value for key, value in asdict(panel).items() if key not in ("x", "series")},
        "x": list(range(len(panel.x))) if named else list(panel.x),
        "names": [str(place) for place in panel.x] if named else [],
        "series": series,
    }


def _finite(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None or not math.isfinite(value) else value for value in values]
