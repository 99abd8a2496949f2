"""Measure contestants in turn, round by round, so that whatever else the machine does hits all of them."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness.report import Row, Texts, machine, markdown, publish

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


def measure_all(disciplines: Iterable[Discipline], given: argparse.Namespace) -> list[Row]:
    """Run the contestants of each discipline, for the rounds and seconds of the command line."""
    from rich.console import Console
    from rich.progress import track

    console, found = Console(stderr=True), list(disciplines)
    rows: list[Row] = []
    for discipline in track(found, "measuring", console=console, disable=not console.is_terminal):
        rows += measure(discipline, given.rounds, given.seconds)
    return rows


def publish_rows(
    command: str,
    given: argparse.Namespace,
    rows: list[Row],
    texts: Texts,
    *,
    peers: tuple[str, ...] = (),
    memory: Mapping[str, float] | None = None,
    notes: str = "",
    **more: Any,
) -> int:
    """Write the report of measured rows; return 0.

    Args:
        command: that was run, without rounds and seconds.
        given: its command line.
        rows: what was measured.
        texts: around the tables.
        peers: packages that were compared with.
        memory: bytes by contestant.
        notes: below the tables.
        **more: what else the record holds.
    """
    command = f"{command} --rounds {given.rounds} --seconds {given.seconds:g}"
    about, sizes = machine(*peers), dict(memory or {})
    record = {"command": command, "machine": about, "rows": rows, **more}
    if sizes:
        record["memory_bytes"] = sizes
    publish(given.out, record, markdown(rows, sizes, about, command, texts) + notes)
    return 0
