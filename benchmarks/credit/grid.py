"""Cells and seeds of the board of credit.

A seed of a suite is one file under ``runs/credit``, so a sweep can be killed at any point and goes on. Tables
are of `SEEDS`; every comparison that they tell apart is tested again on `HELD_BACK`, with other tasks.
"""

from __future__ import annotations

import gc
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from agentgym.credit.board import CreditCell, CreditRow, measure
from agentgym.credit.measures import CreditAgreement
from agentgym.io.files import make_folder, replace_file
from benchmarks.credit.page import name_of

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
        gc.collect()
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
    nan = {name: math.nan for name, value in record.items() if value is None}
    record = {**record, **nan}
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


def rows_of(cells: Sequence[Mapping[str, Any]]) -> Iterator[CreditRow]:
    """Yield the rows of a table that `table_of` wrote."""
    for cell in cells:
        for name, measures in cell["estimators"].items():
            algorithm, _, iterations = name.rstrip(")").partition(" (")
            for values in zip(*measures.values(), strict=True):
                record = dict(zip(measures, values, strict=True))
                yield row_of({**cell, **record, "algorithm": algorithm, "iterations": int(iterations or 0)})


def table_of(rows: Sequence[CreditRow]) -> list[dict[str, Any]]:
    """Return each cell with its estimators, and a value a seed of each measure."""
    cells: dict[CreditCell, dict[str, dict[str, list[float | None]]]] = {}
    for row in rows:
        estimators = cells.setdefault(row.cell, {})
        measures = estimators.setdefault(name_of((row.algorithm, row.iterations)), {})
        for name, value in {"seed": row.seed, **asdict(row.agreement)}.items():
            measures.setdefault(name, []).append(None if math.isnan(value) else round(value, 4))
    return [{**asdict(cell), "estimators": estimators} for cell, estimators in cells.items()]
