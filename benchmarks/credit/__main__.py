"""The board of credit: ``python -m benchmarks.credit`` measures the first cell, ``--all`` the grid.

A seed of a suite is one file under ``runs/credit``, so a sweep can be killed at any point and goes on. Tables
are of `SEEDS`; every comparison that they tell apart is tested again on `HELD_BACK`, with other tasks.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from agentgym.credit.board import DRAWS, ITERATIONS, SUITES, TASKS, CreditCell, CreditRow, measure
from agentgym.credit.measures import CreditAgreement
from agentgym.io.files import make_folder, replace_file
from benchmarks.credit.page import page
from benchmarks.harness.report import parser, publish

OUT = Path(__file__).parent / "board.json"
RUNS = Path("runs/credit")

SEEDS, HELD_BACK = range(10), range(10, 20)
"""Seeds of the tables, and of the second test."""

SUCCESS, SIZES = (0.1, 0.3, 0.6, 0.9), (4, 8, 16)


def cells_of(suite: str, *, whole: bool) -> list[CreditCell]:
    """Return the first cell of a suite, or the grid: success by group size, then penalty, then text."""
    first = CreditCell(suite=suite)
    if not whole:
        return [first]
    grid = [CreditCell(suite=suite, success=p, group_size=n) for p in SUCCESS for n in SIZES]
    punished = [CreditCell(suite=suite, success=p, penalty=True) for p in SUCCESS]
    by_text = [CreditCell(suite=suite, success=p, match="text") for p in SUCCESS]
    return [first, *(cell for cell in (*grid, *punished, *by_text) if cell != first)]


def measured(suite: str, seed: int, whole: bool) -> tuple[str, int]:
    """Measure a seed of a suite, unless its file is there."""
    path = file_of(suite, seed, whole)
    if not path.exists():
        rows = measure(suite, cells_of(suite, whole=whole), seed, skip=True)
        make_folder(path.parent)
        replace_file(path, "".join(json.dumps(row.record()) + "\n" for row in rows))
    return suite, seed


def file_of(suite: str, seed: int, whole: bool) -> Path:
    """Return where a seed of a suite is kept."""
    return RUNS / f"{suite}-{'all' if whole else 'first'}-{seed}.jsonl"


def read(suites: Sequence[str], seeds: Sequence[int], whole: bool) -> Iterator[CreditRow]:
    """Yield the rows of finished seeds."""
    for suite in suites:
        for seed in seeds:
            for line in file_of(suite, seed, whole).read_text().splitlines():
                yield row_of(json.loads(line))


def row_of(record: dict[str, Any]) -> CreditRow:
    """Return the row of a record."""
    parts = [
        {field.name: record[field.name] for field in fields(kind)} for kind in (CreditCell, CreditAgreement)
    ]
    return CreditRow(
        cell=CreditCell(**parts[0]),
        seed=record["seed"],
        algorithm=record["algorithm"],
        iterations=record["iterations"],
        agreement=CreditAgreement(**parts[1]),
    )


def main() -> int:
    """Measure what is missing, and write the page."""
    arguments = parser("benchmarks.credit", __doc__, OUT)
    arguments.add_argument("--all", action="store_true", help="the whole grid, hours")
    arguments.add_argument("--suites", nargs="+", default=list(SUITES), choices=list(SUITES))
    arguments.add_argument("--workers", type=int, default=2)
    given: argparse.Namespace = arguments.parse_args()
    seeds = (*SEEDS, *HELD_BACK)
    with ProcessPoolExecutor(given.workers, mp_context=get_context("spawn")) as pool:
        pending = [pool.submit(measured, suite, seed, given.all) for seed in seeds for suite in given.suites]
        for number, done in enumerate(as_completed(pending), 1):
            suite, seed = done.result()
            print(f"[{number}/{len(pending)}] {suite} seed {seed}", flush=True)
    rows = list(read(given.suites, SEEDS, given.all))
    held = list(read(given.suites, HELD_BACK, given.all))
    settings = {
        "tasks": TASKS,
        "draws": DRAWS,
        "iterations": ITERATIONS,
        "suites": {suite: asdict(SUITES[suite]) for suite in given.suites},
    }
    publish(given.out, {**settings, "rows": [row.record() for row in (*rows, *held)]}, page(rows, held))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
