"""The board of credit: ``python -m benchmarks.credit`` measures the first cells, ``--all`` the grid.

The grid has the seeds of the tables; differences are tested again, on seeds held back, in the first cells.
"""

from __future__ import annotations

import argparse
import gc
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from agentgym.credit.board import DRAWS, ITERATIONS, SUITES, TASKS
from benchmarks.credit.grid import HELD_BACK, SEEDS, measured, read, table_of
from benchmarks.credit.page import page
from benchmarks.credit.picture import draw
from benchmarks.harness.report import parser, publish

OUT = Path(__file__).parent / "board.json"


def main() -> int:
    """Measure what is missing, and write the page."""
    arguments = parser("benchmarks.credit", __doc__, OUT)
    arguments.add_argument("--all", action="store_true", help="the whole grid, hours")
    arguments.add_argument("--suites", nargs="+", default=list(SUITES), choices=list(SUITES))
    arguments.add_argument("--workers", type=int, default=2)
    given: argparse.Namespace = arguments.parse_args()
    again = () if given.all else HELD_BACK
    # worker processes collect cycles between seeds only: states of a task are many objects that stay
    with ProcessPoolExecutor(given.workers, get_context("spawn"), gc.disable) as pool:
        wanted = [(suite, seed) for seed in (*SEEDS, *again) for suite in given.suites]
        pending = [pool.submit(measured, *each, given.all) for each in wanted]
        for number, done in enumerate(as_completed(pending), 1):
            suite, seed = done.result()
            print(f"[{number}/{len(pending)}] {suite} seed {seed}", flush=True)
    rows = list(read(given.suites, SEEDS, given.all))
    held = list(read(given.suites, again, given.all))
    settings = {
        "tasks": TASKS,
        "draws": DRAWS,
        "iterations": ITERATIONS,
        "suites": {suite: asdict(SUITES[suite]) for suite in given.suites},
    }
    record = {**settings, "cells": table_of([*rows, *held])}
    publish(given.out, record, page(rows, held))
    if not given.all:
        listed = [suite for suite in given.suites if not SUITES[suite].continuations]
        draw([row for row in rows if row.cell.suite in listed], given.out.with_suffix(".png"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
