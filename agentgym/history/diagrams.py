"""Diagrams as data: panels of series, written as JSON beside the picture that is drawn from them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agentgym.history.style import FAINT, INK, PALETTE, check_format, open_figure, picture_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DiagramKind: TypeAlias = Literal["lines", "bars", "areas"]
"""Lines over numbers; bars side by side, or areas and bars on top of each other, over numbers or names."""

_COLUMNS = 3
_CROWDED = 32
"""Letters of all names below an axis from which on the names are turned."""

_MARKED = 30
"""Most points of a line with a mark at each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line, or the bars of one colour."""

    label: str
    y: tuple[float | None, ...]
    """Values of the series; None where it has none."""
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    """Upper ends of a band or of error bars, and ``low`` the lower ones; empty for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes."""

    title: str
    x_label: str
    x: tuple[float | str, ...]
    """Positions, the same for all series: numbers, or names in their order."""
    series: tuple[Series, ...]
    kind: DiagramKind = "lines"
    percent: bool = False
    """Whether the y-axis shows percentages."""
    joined: bool = False
    """Whether lines connect points across positions at which only other series have a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagram:
    """Diagram of one diagnostic of a run."""

    name: str
    title: str
    panels: tuple[Panel, ...]
    remark: str = ""
    """Explanation of the diagram, in a sentence."""

    def to_json(self) -> str:
        """Return all of it as JSON; numbers that JSON lacks are null."""
        return json.dumps(_finite(asdict(self)), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def draw_diagram(diagram: Diagram, suffix: str) -> bytes:
    """Draw a diagram of at least one panel as ``.png`` or ``.svg``; return the file's content."""
    check_format(suffix)
    count = len(diagram.panels)
    columns = 2 if count == 4 else min(count, _COLUMNS)
    rows = -(-count // columns)
    size = (6.6 if columns == 1 else 4.1 * columns, 3.0 * rows + 0.75)
    labels = {tuple(series.label for series in panel.series) for panel in diagram.panels}
    shared = count > 1 and len(labels) == 1 and len(diagram.panels[0].series) > 1
    with open_figure(size) as figure:
        heading: dict[str, Any] = {"fontsize": 12, "fontweight": "bold"}
        if not shared:
            figure.suptitle(diagram.title, x=0.012, ha="left", **heading)
        for number, panel in enumerate(diagram.panels, start=1):
            axes = figure.add_subplot(rows, columns, number)
            _draw_panel(axes, panel, legend=not shared)
        if shared:
            parts = axes.get_legend_handles_labels()
            legend = figure.legend(*parts, loc="outside upper left", title=diagram.title, alignment="left")
            legend.get_title().set(**heading)
        if diagram.remark:
            figure.supxlabel(diagram.remark, x=0.012, ha="left", fontsize=8, color=FAINT, wrap=True)
        return picture_of(figure, suffix)


def _draw_panel(axes: Axes, panel: Panel, *, legend: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    named = any(isinstance(place, str) for place in panel.x)
    places = list(range(len(panel.x))) if named else [float(place) for place in panel.x]
    {"lines": _lines, "bars": _bars, "areas": _areas}[panel.kind](axes, panel, places)
    if named:
        crowded = sum(len(str(place)) for place in panel.x) > _CROWDED
        turned: dict[str, Any] = {"rotation": 30, "ha": "right"} if crowded else {}
        axes.set_xticks(places, [str(place) for place in panel.x], **turned)
    elif all(float(place).is_integer() for place in places):
        axes.xaxis.set_major_locator(MaxNLocator(nbins=7, steps=[1, 2, 5, 10], integer=True))
    axes.set_title(panel.title, color=INK)
    axes.set_xlabel(panel.x_label)
    low, high = axes.get_ylim()
    if panel.kind != "lines" or low > 0:
        axes.set_ylim(min(low, 0.0), high)
    if panel.percent:
        axes.set_ylim(0.0, min(1.0, axes.get_ylim()[1]) if panel.kind != "lines" else 1.0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    if legend and len(panel.series) > 1:
        _draw_legend(axes, panel)


def _draw_legend(axes: Axes, panel: Panel) -> None:
    """Draw it where nothing is: areas get room above them."""
    columns = 1 if len(panel.series) <= 4 else 2
    if panel.kind == "areas":
        lines = -(-len(panel.series) // columns)
        axes.set_ylim(0.0, axes.get_ylim()[1] * (1 + 0.1 * lines))
    axes.legend(
        fontsize=8, ncols=columns, handlelength=1.3, loc="upper left" if panel.kind == "areas" else "best"
    )


def _lines(axes: Axes, panel: Panel, places: Sequence[float]) -> None:
    for colour, series in zip(_colours(panel), panel.series, strict=True):
        if series.low:
            axes.fill_between(
                places, _array(series.low), _array(series.high), color=colour, alpha=0.15, linewidth=0
            )
        points = [
            pair for pair in zip(places, series.y, strict=True) if pair[1] is not None or not panel.joined
        ]
        mark: dict[str, Any] = {"marker": "o", "markersize": 3.5} if len(points) <= _MARKED else {}
        own = _array([y for _, y in points])
        whole = {"clip_on": not panel.percent, **mark}  # marks at 100 % are seen whole
        axes.plot([x for x, _ in points], own, color=colour, linewidth=1.6, label=series.label, **whole)


def _bars(axes: Axes, panel: Panel, places: Sequence[float]) -> None:
    width = 0.8 / len(panel.series)
    for number, (colour, series) in enumerate(zip(_colours(panel), panel.series, strict=True)):
        shifted = [place + (number - (len(panel.series) - 1) / 2) * width for place in places]
        axes.bar(shifted, _array(series.y), width * 0.94, color=colour, label=series.label)
        if series.low:
            for place, low, high in zip(shifted, series.low, series.high, strict=True):
                if low is not None and high is not None:
                    axes.plot([place, place], [low, high], color=INK, linewidth=1.0)


def _areas(axes: Axes, panel: Panel, places: Sequence[float]) -> None:
    heights = [[value or 0.0 for value in series.y] for series in panel.series]
    labels = [series.label for series in panel.series]
    if len(places) > 1:
        axes.stackplot(places, heights, colors=_colours(panel), labels=labels, alpha=0.9)
        axes.margins(x=0.0)
        return
    bottom = 0.0
    for colour, label, (height,) in zip(_colours(panel), labels, heights, strict=True):
        axes.bar(places, height, 0.5, bottom=bottom, color=colour, label=label)
        bottom += height


def _colours(panel: Panel) -> list[str]:
    return [PALETTE[number % len(PALETTE)] for number in range(len(panel.series))]


def _array(values: Sequence[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
