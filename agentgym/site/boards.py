"""The page of a board: its tables, with intervals drawn, and its comparisons as colours."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.evaluation.board.boards import Board, Comparison, Row, make_boards
from agentgym.evaluation.board.endpoint_tables import endpoint_cells
from agentgym.evaluation.board.scoring import EnvResult
from agentgym.evaluation.board.statistics import Estimate
from agentgym.evaluation.board.tables import (
    aggregate_cell,
    environment_cells,
    has_iqm,
    measure_cells,
    measure_notes,
    notes,
    rank_cell,
    result_cells,
    score_cell,
    type_cells,
    unit,
)
from agentgym.evaluation.log.results import RunEnv
from agentgym.evaluation.verify.submissions import Submission
from agentgym.site.rendering import cut
from agentgym.site.scatter import spending_panels

WIDTH = 72
"""Width of a drawn interval, in pixels."""

P_VALUES = (0.001, 0.01, 0.05, 0.2)
"""Thresholds of the colours of adjusted p values."""

BUDGETS = (0, 1_000, 10_000, 100_000, 1_000_000)
"""Ends of the classes of training episodes in the filter of rows."""


@dataclass(frozen=True, slots=True)
class TableCell:
    """A number in a table."""

    text: str
    range: str = ""
    """Interval of the number, in brackets."""
    sort: str = ""
    """Sort key of the cell; empty for its text."""
    drawn: Mapping[str, str] | None = None
    """Positions of the interval's ends and of its middle, in pixels."""


def board_page(board: Board, title: str, number: int, pages: Mapping[str, str]) -> dict[str, Any]:
    """Return a board's data for the template; ``pages`` are by request id and by result id."""
    rows = [board_row(row, board, pages) for row in board.rows]
    return {
        "number": number,
        "file": f"board-{number}.html",
        "files": [(kind, f"board-{number}.{kind}") for kind in ("json", "csv", "tex")],
        "title": title,
        "board": board,
        "head": [f"{env.env.label} ({unit(env)})" for env in board.envs],
        "iqm": has_iqm(board),
        "rows": rows,
        "filters": filters(rows),
        "notes": notes(board),
        "environments": environment_cells(board),
        "results": results_of(board),
        "types": type_cells(board, _name),
        "measures": measure_cells(board, _name),
        "measure_notes": measure_notes(board),
        "endpoints": endpoint_cells(board, _name),
        "pairs": heat_table(board),
        "spending": [panel.about for panel in spending_panels(board)],
        "unranked": [{"run": run, "page": pages.get(run.run, "")} for run in board.unranked],
        "best": _best(board),
        "runs": [
            {"row": row, "pages": [(result[:12], pages.get(result, "")) for result in row.results]}
            for row in board.rows
        ],
    }


def _best(board: Board) -> list[str]:
    """Return the names of the agents of the best rank, floor and oracle left out."""
    ranked = [row for row in board.rows if row.role == "agent" and row.rank is not None]
    first = min((row.rank for row in ranked if row.rank is not None), default=None)
    return [row.name for row in ranked if row.rank == first]


def scores_of(found: Submission) -> dict[str, Any]:
    """Return one run's results in each environment, as `results_of`, with episodes instead of its name."""
    (board,), _ = make_boards([found])
    results = results_of(board)
    (row,) = board.rows
    results["head"][1] = "Episodes"
    for line in results["rows"]:
        line["cells"][1] = f"{sum(row.envs[line['cells'][0]].ends.values()):,}"
    return results


def board_row(row: Row, board: Board, pages: Mapping[str, str]) -> dict[str, Any]:
    """Return a row's data in the main table."""
    model = row.agent.model
    return {
        "name": row.name,
        "role": row.role,
        "page": pages.get(row.results[0], ""),
        "rank": TableCell(rank_cell(row, board.rows), sort="" if row.rank is None else str(row.rank)),
        "scores": [_score(row, env) for env in board.envs],
        **{name: _normalised(row, board, name) for name in ("mean", "iqm", "optimality_gap")},
        "badge": row.earned,
        "algorithm": model.algorithm or "-",
        "base_model": model.base_model or "-",
        "budget": budget(model.training_episodes),
        "episodes": model.training_episodes,
        "seeds": str(row.seeds or "-"),
    }


def filters(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str, list[str]]]:
    """Return the columns that rows can be filtered by: key, name and values, where there are several."""
    names = {
        "suite": "Suite",
        "base_model": "Base model",
        "algorithm": "Algorithm",
        "budget": "Training budget",
        "badge": "Badge",
    }
    found = []
    for key, name in names.items():
        values = sorted({row[key] for row in rows if key in row}, key=lambda text: (text != "-", text))
        if len(values) > 1:
            found.append((key, name, values))
    return found


def budget(episodes: int) -> str:
    """Return the class of a number of training episodes."""
    for most in BUDGETS:
        if episodes <= most:
            return "-" if most == 0 else f"up to {most:,} episodes"
    return f"more than {BUDGETS[-1]:,} episodes"


def heat_table(board: Board) -> dict[str, Any]:
    """Return the table of adjusted p values: a cell for each ordered pair, None on the diagonal."""
    ranked = [row for row in board.rows if not row.left_out]
    places = {row.name: place for place, row in enumerate(ranked)}
    cells: list[list[dict[str, str] | None]] = [[None] * len(ranked) for _ in ranked]
    for pair in board.comparisons:
        first, second = places[pair.first], places[pair.second]
        cells[first][second] = _pair_cell(pair, pair.difference)
        cells[second][first] = _pair_cell(pair, -pair.difference)
    return {"rows": list(zip(ranked, cells, strict=True)) if board.comparisons else []}


def _pair_cell(pair: Comparison, difference: float) -> dict[str, str]:
    level = sum(pair.p_holm <= edge for edge in P_VALUES)
    side = "better" if difference > 0 else "worse" if difference < 0 else "equal"
    return {
        "p": "<.001" if pair.p_holm < 0.0005 else f"{pair.p_holm:.3f}".lstrip("0"),
        "difference": f"{difference:+.3f}",
        "error": f"{pair.standard_error:.3f}",
        "style": f"{side} p{level}",
    }


def results_of(board: Board) -> dict[str, Any]:
    """Return each row's results in each environment, with the reasons of ends as bars."""
    head, lines = result_cells(board, _name)
    found = [
        (row.role, ends_bar(row.envs[env.env.label]))
        for env in board.envs
        for row in board.rows
        if env.env.label in row.envs
    ]
    rows = [{"role": role, "cells": line, "bar": bar} for (role, bar), line in zip(found, lines, strict=True)]
    return {"head": head, "rows": rows}


def ends_bar(result: EnvResult) -> list[tuple[str, str, str]]:
    """Return the parts of a bar of reasons of ends: class, left end and width, in hundredths."""
    total = sum(result.ends.values())
    parts, left = [], 0.0
    for reason, count in result.ends.items():
        width = 100.0 * count / total
        parts.append((f"end-{reason.replace('_', '-')}", f"{left:.2f}", f"{width:.2f}"))
        left += width
    return parts


def _score(row: Row, env: RunEnv) -> TableCell:
    result = row.envs.get(env.env.label)
    bounds = (0.0, 1.0) if env.env.metric == "success" else env.env.bounds
    estimate = None if result is None else result.score
    return _cell(score_cell(row, env), estimate, None if estimate is None else _drawn(estimate, *bounds))


def _normalised(row: Row, board: Board, name: str) -> TableCell:
    estimate = _aggregate(row, name)
    drawn = None if estimate is None else _drawn(estimate, *_span(board, name))
    return _cell(aggregate_cell(estimate), estimate, drawn)


def _aggregate(row: Row, name: str) -> Estimate | None:
    found: Estimate | None = getattr(row.aggregate, name, None)
    return found


def _cell(text: str, estimate: Estimate | None, drawn: Mapping[str, str] | None) -> TableCell:
    value, bracket, rest = text.partition(" [")
    return TableCell(value, bracket[1:] + rest, "" if estimate is None else repr(estimate.value), drawn)


def _span(board: Board, name: str) -> tuple[float, float]:
    """Return the ends of the axis that a normalised number is drawn on, the same for all rows."""
    found = [_aggregate(row, name) for row in board.rows]
    ends = [end for estimate in found if estimate is not None for end in (estimate.low, estimate.high)]
    finite = [end for end in ends if math.isfinite(end)]
    return min([0.0, *finite]), max([1.0, *finite])


def _drawn(estimate: Estimate, low: float, high: float) -> dict[str, str]:
    def place(value: float) -> str:
        share = (min(max(value, low), high) - low) / (high - low)
        return f"{3 + share * (WIDTH - 6):.1f}"

    return {"low": place(estimate.low), "high": place(estimate.high), "value": place(estimate.value)}


def _name(row: Row) -> str:
    return row.name


def board_rows(boards: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of all boards, each with its suite, for the first page."""
    return [
        {**row, "suite": cut(page["board"].suite.name, 80), "board": page["title"], "file": page["file"]}
        for page in boards
        for row in page["rows"]
    ]
