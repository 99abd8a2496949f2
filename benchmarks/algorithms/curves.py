"""Learning curves of the sweep: a panel for each family of algorithms, GRPO in grey in all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.history.style import FAINT, PALETTE, open_figure, picture_of
from agentgym.io.files import make_folder, replace_file
from benchmarks.algorithms.comparison import ema, on_grid
from benchmarks.algorithms.plan import BASELINE, ENVIRONMENTS
from benchmarks.algorithms.runs import SweepRun

FAMILIES = (
    ("outcomes of groups", ("rloo", "dr_grpo", "dapo", "gspo")),
    ("outcomes of the batch, critics", ("ppo", "reinforce_pp", "reinforce_pp_baseline", "steppo")),
    ("states compared", ("gigpo", "hgpo", "graphgpo", "g2po", "sampo", "spo3")),
    ("process rewards", ("istar", "prime")),
)
POINTS = 60


def draw(environment: str, done: Sequence[tuple[str, SweepRun]], folder: Path, name: str) -> str:
    """Write the picture of one environment; return its path within the folder, "" without any run.

    Args:
        environment: a key of `ENVIRONMENTS`.
        done: runs of all environments, each with the label of its arm.
        folder: of the page.
        name: of the picture, without ending.
    """
    runs: dict[str, list[SweepRun]] = {}
    for label, run in done:
        if run.environment == environment:
            runs.setdefault(label, []).append(run)
    panels = [
        (title, [label for each in names for label in runs if runs[label][0].algorithm == each])
        for title, names in FAMILIES
    ]
    panels = [(title, labels) for title, labels in panels if labels]
    if not panels:
        return ""
    name = f"curves/{name}.png"
    make_folder(folder / "curves")
    replace_file(folder / name, _picture(environment, panels, runs))
    return name


def _picture(
    environment: str, panels: Sequence[tuple[str, list[str]]], runs: dict[str, list[SweepRun]]
) -> bytes:
    with open_figure((3.1 * len(panels) + 0.6, 3.3)) as figure:
        shared: Any = None
        for number, (title, labels) in enumerate(panels, start=1):
            axes = figure.add_subplot(1, len(panels), number, sharey=shared)
            shared = shared or axes
            for label, compared in runs.items():
                if compared[0].algorithm == BASELINE:
                    _line(axes, compared, FAINT, label)
            for colour, label in zip(PALETTE, labels, strict=False):
                _line(axes, runs[label], colour, label)
            axes.set_title(title)
            axes.set_xlabel("environment steps")
            axes.legend(loc="upper left", fontsize=7.5, handlelength=1.2)
            axes.set_ylim(0.0, 1.0)
            axes.margins(x=0.0)
            axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        first = ENVIRONMENTS[environment]
        text = (
            f"{first.title}: episodes won in training (EMA .95, mean over seeds, band from least to greatest)"
        )
        wrapped = fill(text, 38 * len(panels))
        figure.suptitle(wrapped, x=0.01, ha="left", fontsize=11, fontweight="bold")
        return picture_of(figure, ".png")


def _line(axes: Any, runs: Sequence[SweepRun], colour: str, label: str) -> None:
    end = min(run.env_steps[-1] for run in runs if run.env_steps)
    start = max(run.env_steps[0] for run in runs if run.env_steps)
    grid: Floats = np.linspace(start, end, POINTS)
    rows = np.array([on_grid(run.env_steps, ema(run.success), grid) for run in runs if run.env_steps])
    if len(rows) > 1:
        axes.fill_between(grid, rows.min(axis=0), rows.max(axis=0), color=colour, alpha=0.12, linewidth=0)
    axes.plot(grid, rows.mean(axis=0), color=colour, linewidth=1.6, label=label)
