"""Picture of the board of credit: how near each estimator comes to the truth, suite by suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentgym.credit.board import TRUE, CreditRow
from agentgym.credit.standings import Contestant, by_contestant
from agentgym.evaluation.board.statistics import Estimate, t_interval
from agentgym.history.style import FAINT, PALETTE, open_figure, picture_of
from agentgym.io.files import replace_file
from benchmarks.credit.page import ALIKE, name_of

MARKERS = "osD^v"


def draw(rows: Sequence[CreditRow], path: Path) -> None:
    """Write the picture of the first cells.

    Args:
        rows: of the table's seeds, one cell a suite.
        path: of the PNG file.
    """
    suites = list(dict.fromkeys(row.cell.suite for row in rows))
    values = {suite: estimates([row for row in rows if row.cell.suite == suite]) for suite in suites}
    names = [name for name in values[suites[0]] if name[0] != TRUE and name[0] not in ALIKE]
    names.sort(key=lambda name: sum(values[suite][name].value for suite in suites))
    with open_figure((6.8, 0.27 * len(names) + 1.1)) as figure:
        axes = figure.subplots()
        axes.grid(axis="x")
        for number, suite in enumerate(suites):
            found = [values[suite][name] for name in names]
            middle = [each.value for each in found]
            axes.hlines(
                range(len(names)),
                [each.low for each in found],
                [each.high for each in found],
                color=PALETTE[number],
                linewidth=1.2,
            )
            axes.plot(
                middle, range(len(names)), MARKERS[number], color=PALETTE[number], markersize=5, label=suite
            )
        axes.axvline(1.0, color=FAINT, linewidth=1.0)
        axes.set_yticks(range(len(names)), [name_of(name) for name in names])
        axes.set_xlim(0.0, 1.02)
        axes.set_xlabel("correlation with the true advantage, 95 % interval over ten seeds; 1 is the truth")
        figure.legend(loc="outside upper center", ncols=len(suites))
        replace_file(path, picture_of(figure, ".png"))


def estimates(rows: Sequence[CreditRow]) -> dict[Contestant, Estimate]:
    """Return the mean correlation of each estimator, with Student's interval over seeds."""
    return {name: t_interval(values) for name, values in by_contestant(rows, "correlation").items()}
