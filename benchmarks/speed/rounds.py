"""Measure contestants in turn, round by round, so that whatever else the machine does hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.speed.report import Row

Run = Callable[[float], float]
"""Plays for about so many seconds; returns how many times a second it did its thing."""


@dataclass(frozen=True, slots=True)
class Discipline:
    """What is measured: the project's contestant first, then those it is compared with."""

    name: str
    unit: str
    contestants: Mapping[str, Callable[[], Run]]


def timed(once: Callable[[], int], clock: Callable[[], float] = time.perf_counter) -> Run:
    """Make a run of ``once``, which returns how many steps it played; ``clock`` may be the processor's."""

    def run(seconds: float) -> float:
        done = 0
        began = clock()
        while (took := clock() - began) < seconds:
            done += once()
        return done / took

    return run


def measure(discipline: Discipline, rounds: int, seconds: float) -> list[Row]:
    """Run all contestants in turn, round by round."""
    runs = {name: make() for name, make in discipline.contestants.items()}
    figures: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(seconds / 4)  # warm caches
    for _ in range(rounds):
        for name, run in runs.items():
            figures[name].append(run(seconds))
    ours = np.array(figures["agentgym"])
    rows = []
    for name, values in figures.items():
        ratios = None if name == "agentgym" else ours / values
        rows.append(
            Row(
                discipline.name,
                name,
                discipline.unit,
                float(np.median(values)),
                _quartiles(values),
                None if ratios is None else float(np.median(ratios)),
                None if ratios is None else _quartiles(ratios),
            )
        )
    return rows


def _quartiles(values: Any) -> tuple[float, float]:
    low, high = np.quantile(values, [0.25, 0.75]).tolist()
    return low, high
