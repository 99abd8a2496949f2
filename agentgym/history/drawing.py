"""Learning curves as pictures: equal runs give equal bytes, whatever matplotlib is set to elsewhere."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.algos.table import ALGORITHMS
from agentgym.history.curves import EVALUATION, Curve, RunGroup, X, has_metric, is_fraction, make_curve
from agentgym.history.style import FAINT, INK, PALETTE, check_format, drawing_style, picture_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1, 1.2)), (0, (6, 1.6, 1, 1.6)))
"""Dashes of successive groups of lines: the colours repeat, with the next dash."""

_MANY = 100
"""Number of evaluations from which on marks would hide their line."""

_TITLES = {
    "success": "Episodes won in training",
    "score": "Mean score in training",
    "mean_return": "Mean return in training",
    "evaluation/success": "Episodes won in evaluation",
    "evaluation/score": "Mean score in evaluation",
    "usable_fraction": "Groups whose returns differ",
    "valid_fraction": "Actions accepted",
    "clip_fraction": "Terms clipped",
    "kl": "KL divergence from the sampling policy",
    "ref_kl": "KL divergence from the reference",
    "logp_diff": "Largest engine-learner log-prob gap",
    "tokens_per_second": "Tokens sampled per second",
}

_EVALUATION_TEXT = "evaluation"


def draw_curves(
    groups: Sequence[RunGroup],
    metrics: Sequence[str],
    *,
    suffix: str,
    x: X = "iteration",
    smooth: float = 1,
    title: str | None = None,
) -> bytes:
    """Draw a panel for each metric, with a line for each group; return the file's content.

    Panels of success and score in training also mark those of evaluations, where runs have them and no other
    panel shows them. ``metrics``: flat names; ``suffix``: one of `FORMATS`; ``title`` None names what the
    groups have in common.
    """
    check_format(suffix)
    labels, shared = _labels(groups)
    with drawing_style():
        figure, panels = _layout(len(metrics))
        legend: dict[str, Any] = {}
        for axes, metric in zip(panels, metrics, strict=True):
            evaluation = EVALUATION + metric
            marked = evaluation if metric in ("success", "score") and evaluation not in metrics else None
            legend |= _draw_panel(axes, groups, labels, metric, x, smooth, marked)
        for axes in panels:
            _draw_x_axis(axes, x)
        averaged = smooth != 1 and not all(metric.startswith(EVALUATION) for metric in metrics)
        remark = _smoothing(smooth) if averaged else ""
        _draw_head(figure, shared if title is None else title, remark, legend)
        return picture_of(figure, suffix)


def _smoothing(smooth: float) -> str:
    if smooth < 1:
        return f"Training values are exponential moving averages of decay {smooth:g}."
    return f"Training values are means of the last {smooth:g} iterations."


# ---- parts of a picture --------------------------------------------------------------------------


def _layout(count: int) -> tuple[Figure, list[Axes]]:
    from matplotlib.figure import Figure

    columns = 1 if count == 1 else 2 if count <= 4 else 3
    rows = -(-count // columns)
    size = (6.4, 3.5) if columns == 1 else (4.5 * columns, 2.9 * rows)
    figure = Figure(figsize=size)
    return figure, [figure.add_subplot(rows, columns, number) for number in range(1, count + 1)]


def _draw_panel(
    axes: Axes,
    groups: Sequence[RunGroup],
    labels: Sequence[str],
    metric: str,
    x: X,
    smooth: float,
    evaluation: str | None,
) -> dict[str, Any]:
    """Draw one metric of all groups, with dots where ``evaluation``, a second one, has values.

    Returns the legend's entries by their text.
    """
    legend: dict[str, Any] = {}
    for number, (group, label) in enumerate(zip(groups, labels, strict=True)):
        colour = PALETTE[number % len(PALETTE)]
        dashes = _DASHES[number // len(PALETTE) % len(_DASHES)]
        curve = make_curve(group, metric, x, smooth)
        if curve.runs == 1 and smooth != 1 and not metric.startswith(EVALUATION):
            raw = make_curve(group, metric, x)
            axes.plot(raw.x, raw.mean, color=colour, linewidth=0.8, alpha=0.3)
        if curve.band != "none":
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.17, linewidth=0)
        width = 1.7 if smooth != 1 or len(curve.x) <= 300 else 1.0
        (line,) = axes.plot(curve.x, curve.mean, color=colour, linestyle=dashes, linewidth=width, zorder=3)
        legend[_describe(group, label, curve)] = line
        if metric.startswith(EVALUATION) and len(curve.x) <= _MANY:
            _mark(axes, curve, colour)
        elif evaluation and all(has_metric(run, evaluation) for run in group.runs):
            _mark(axes, make_curve(group, evaluation, x), colour)
            legend[_EVALUATION_TEXT] = _dot(colour if len(groups) == 1 else None)
    _draw_y_axis(axes, metric)
    return legend


def _dot(colour: str | None) -> Line2D:
    """Return the legend's mark of evaluations: an empty one where each group's has its own colour."""
    from matplotlib.lines import Line2D

    fill = "white" if colour is None else colour
    edge = FAINT if colour is None else "white"
    return Line2D([], [], linestyle="", marker="o", color=fill, markeredgecolor=edge, markersize=6)


def _mark(axes: Axes, curve: Curve, colour: str) -> None:
    """Mark evaluations: large where they are few."""
    size = 6.0 if len(curve.x) <= 30 else 4.0 if len(curve.x) <= _MANY else 2.5
    axes.plot(
        curve.x,
        curve.mean,
        linestyle="",
        marker="o",
        markersize=size,
        color=colour,
        markeredgecolor="white",
        markeredgewidth=size / 7,
        clip_on=False,
        zorder=4,
    )


def _draw_y_axis(axes: Axes, metric: str) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator, PercentFormatter

    text = _title(metric)
    axes.margins(x=0.0, y=0.06)
    low, high = axes.get_ylim()
    size = max(abs(low), abs(high))
    if high - low < 1e-6 * size:  # constant except for rounding
        axes.set_ylim(low - 0.1 * size, high + 0.1 * size)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    if metric == "success" or (metric.startswith(EVALUATION) and is_fraction(metric)):
        axes.set_ylim(0.0, 1.0)
    if is_fraction(metric):
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    elif size >= 10_000:
        axes.yaxis.set_major_formatter(EngFormatter(sep=""))
    else:
        power = math.floor(math.log10(size)) if 0 < size < 0.01 else 0
        text += rf" ($\times 10^{{{power}}}$)" if power else ""
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / 10**power:.4g}"))
    axes.set_title(text[0].upper() + text[1:], color=INK)


def _title(metric: str) -> str:
    """Return a panel's title: of a split's or type's evaluation, that of the whole with their names."""
    first, *names = metric.split("/")
    whole = f"{first}/{names[-1]}" if names else metric
    if whole in _TITLES:
        return ": ".join(filter(None, (_TITLES[whole], ", ".join(names[1:-1:2]))))
    return metric.replace("/", ": ").replace("_", " ")


def _draw_x_axis(axes: Axes, x: X) -> None:
    from matplotlib.ticker import EngFormatter, FuncFormatter, MaxNLocator

    names = {
        "iteration": "iteration",
        "episodes": "training episodes",
        "env_steps": "environment steps",
        "tokens": "tokens sampled",
    }
    end = axes.get_xlim()[1]
    axes.set_xlim(0.0, end)
    if x == "seconds":
        units = ((3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
        unit, name = next((unit for unit in units if end >= 2 * unit[0]), units[-1])
        ticks = MaxNLocator(nbins=7, steps=[1, 2, 5, 10]).tick_values(0.0, end / unit)
        axes.set_xticks([tick * unit for tick in ticks if tick * unit <= end])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit:g}"))
        axes.set_xlabel(name)
        return
    axes.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10], integer=True))
    if end >= 10_000:
        axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlabel(names[x])


def _draw_head(figure: Figure, title: str, remark: str, legend: dict[str, Any]) -> None:
    """Write title, legend and remark above the panels, at their left, in a strip added to the figure."""
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    dots = legend.pop(_EVALUATION_TEXT, None)
    if dots is not None:
        legend[_EVALUATION_TEXT] = dots  # last
    columns = 1 if figure.get_figwidth() < 7 else 2
    lines = -(-len(legend) // columns)
    heights = (0.38 if title else 0.1, 0.185 * lines + 0.1, 0.2 if remark else 0.0)  # inches
    head = sum(heights)
    width, body = figure.get_size_inches()
    figure.set_size_inches(width, body + head)
    left, total = 0.13 / width, body + head
    figure.text(left, 1 - 0.12 / total, title, va="top", fontsize=12, fontweight="bold")
    figure.legend(
        legend.values(),
        legend.keys(),
        loc="upper left",
        bbox_to_anchor=(left, 1 - heights[0] / total),
        borderaxespad=0.0,
        borderpad=0.25,
        ncols=columns,
    )
    figure.text(left, 1 - (heights[0] + heights[1]) / total, remark, va="top", color=FAINT, fontsize=9)
    engine = ConstrainedLayoutEngine(w_pad=0.1, h_pad=0.08, wspace=0.05, hspace=0.05)
    engine.set(rect=(0.0, 0.0, 1.0, body / total))
    figure.set_layout_engine(engine)


# ---- words ----------------------------------------------------------------------------------------


def _labels(groups: Sequence[RunGroup]) -> tuple[list[str], str]:
    """Return the labels that distinguish groups, and their common part."""
    named = [group.first.algorithm for group in groups]
    columns = [
        [ALGORITHMS[name].title if name in ALGORITHMS else name for name in named],
        _shortened([group.first.env_id for group in groups]),
        _shortened([group.first.model for group in groups]),
    ]
    algorithm, env, model = (column[0] if len(set(column)) == 1 else "" for column in columns)
    start = f"starting from model {model}" if model else ""
    shared = ", ".join(filter(None, (" on ".join(filter(None, (algorithm, env))), start)))
    differing = [column for column in columns if len(set(column)) > 1]
    labels = [", ".join(parts) for parts in zip(*differing, strict=True)] or [""] * len(groups)
    if len(set(labels)) < len(groups):  # runs drawn one by one
        labels = _shortened([str(group.first.folder) for group in groups])
    return labels, shared


def _shortened(names: Sequence[str]) -> list[str]:
    """Cut names to what follows their last slash, unless that makes different ones equal."""
    short = [Path(name).name or name for name in names]
    return short if len(set(short)) == len(set(names)) else list(names)


def _describe(group: RunGroup, label: str, curve: Curve) -> str:
    if curve.band == "none":
        text = f"seed {group.first.seed}"
    else:
        band = "95% interval" if curve.band == "interval" else "min to max"
        text = f"mean of {curve.runs} seeds, {band}"
    return f"{label} ({text})" if label else text
