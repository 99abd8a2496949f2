"""Boards as LaTeX, CSV and JSON. Nothing is computed here but roundings."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from agentgym.core.suite_spec import RESERVED_MEASURES
from agentgym.evaluation.board.boards import Board, Row
from agentgym.evaluation.board.published import Published
from agentgym.evaluation.board.statistics import Estimate
from agentgym.evaluation.board.tables import aggregate_cell, has_iqm, measure_cells, rank_cell, score_cell
from agentgym.evaluation.log.markdown import one_line
from agentgym.evaluation.verify.submissions import Unranked
from agentgym.io.records import json_schema

SCHEMA = 9
"""Version of the leaderboard's ``.json`` and ``.csv``; ``docs/schemas`` holds the JSON Schema of each."""

CSV_HEAD = (
    "suite", "version", "suite_sha256", "agent", "role", "rank", "badge", "date", "environment", "type",
    "measure", "value", "low", "high", "method",
)  # fmt: skip
"""Columns of the ``.csv``."""


def latex(boards: Iterable[Board]) -> str:
    """Return booktabs tables; they need the packages booktabs and xcolor with option ``table``."""
    return "\n".join(["% \\usepackage{booktabs}\n% \\usepackage[table]{xcolor}", *map(_board_latex, boards)])


def _board_latex(board: Board) -> str:
    iqm = has_iqm(board)
    head = ["", "Agent", *(_tex(env.env.label) for env in board.envs), "Mean", *["IQM"] * iqm]
    lines = [
        f"% {_tex(board.suite.name)}, version {_tex(board.suite.version)}, suite sha256 {board.suite_sha256}"
        + (", attested answers" if board.attested else ""),
        f"\\begin{{tabular}}{{rl{'r' * (len(head) - 2)}}}",
        "\\toprule",
        " & ".join(head) + " \\\\",
        "\\midrule",
    ]
    for row in board.rows:
        cells = [rank_cell(row, board.rows), _tex(row.name)]
        cells += [_tex_interval(score_cell(row, env)) for env in board.envs]
        names = ("mean", "iqm") if iqm else ("mean",)
        cells += [_tex_interval(aggregate_cell(getattr(row.aggregate, name, None))) for name in names]
        shade = "" if row.role == "agent" else "\\rowcolor{gray!15} "
        lines.append(shade + " & ".join(cells) + " \\\\")
    tables = [*lines, "\\bottomrule", "\\end{tabular}", ""]
    for heads, measured in measure_cells(board, lambda row: row.name):
        tables += _measures_latex(heads, measured)
    return "\n".join(tables)


def _measures_latex(head: list[str], lines: list[list[str]]) -> list[str]:
    return [
        f"\\begin{{tabular}}{{ll{'r' * (len(head) - 2)}}}",
        "\\toprule",
        " & ".join(map(_tex, head)) + " \\\\",
        "\\midrule",
        *(" & ".join([*map(_tex, line[:2]), *map(_tex_interval, line[2:])]) + " \\\\" for line in lines),
        "\\bottomrule",
        "\\end{tabular}",
        "",
    ]


def _tex(text: str) -> str:
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special.update({character: f"\\{character}" for character in "&%$#_{}"})
    return "".join(special.get(character, character) for character in one_line(text))


def _tex_interval(cell: str) -> str:
    value, bracket, interval = cell.partition(" [")
    if not bracket:
        return _tex(value)
    return f"{value} {{\\scriptsize [{interval}}}".replace("∞", "$\\infty$")


def as_csv(boards: Iterable[Board]) -> str:
    """Return one line per number: board, row, environment, measure, value, interval and method."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_HEAD)
    for board in boards:
        for row in board.rows:
            about = [board.suite.name, board.suite.version, board.suite_sha256, row.name, row.role]
            about += ["" if row.rank is None else str(row.rank), row.earned, row.date]
            for environment, kind, measure, estimate in _measures(row):
                values = [repr(x) for x in (estimate.value, estimate.low, estimate.high)]
                writer.writerow([*about, environment, kind, measure, *values, estimate.method])
            for environment, measure, value in _stated(row):
                writer.writerow([*about, environment, "", measure, repr(value), "", "", "stated"])
    return text.getvalue()


def _stated(row: Row) -> Iterable[tuple[str, str, float]]:
    """Yield environment, measure and value of every number of a row that is the submitter's word."""
    for label, result in row.envs.items():
        if result.endpoint is not None:
            for name, value in asdict(result.endpoint).items():
                yield label, f"endpoint_{name}", float(value)
        for name, deviation in row.judge_deviations(label).items():
            yield label, f"judge_sd_{name}", deviation


def _measures(row: Row) -> Iterable[tuple[str, str, str, Estimate]]:
    """Yield environment, task type, measure and estimate of every number of a row."""
    for label, result in row.envs.items():
        for measure in RESERVED_MEASURES:
            estimate = getattr(result, measure)
            if estimate is not None:
                yield label, "", measure, estimate
        for measure, estimate in result.measures.items():
            yield label, "", measure, estimate
        for kind, estimate in result.by_type.items():
            yield label, kind, "score", estimate
    if row.aggregate is not None:
        for measure in ("mean", "iqm", "optimality_gap"):
            estimate = getattr(row.aggregate, measure)
            if estimate is not None:
                yield "", "", f"normalised_{measure}", estimate


def as_json(boards: Iterable[Board], published: Published, unranked: Iterable[Unranked] = ()) -> str:
    """Return everything as JSON; infinite ends of intervals are null."""
    table = {
        "schema": SCHEMA,
        "boards": [asdict(board) for board in boards],
        "unranked": [asdict(run) for run in unranked],
        "published": asdict(published),
    }
    return json.dumps(_finite(table), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(member) for member in value]
    return None if isinstance(value, float) and math.isinf(value) else value


def schema() -> dict[str, Any]:
    """Return the JSON Schema of ``leaderboard.json``."""
    board, papers = json_schema(Board), json_schema(Published)
    properties = {
        "schema": {"const": SCHEMA},
        "boards": {"type": "array", "items": board},
        "unranked": {"type": "array", "items": json_schema(Unranked)},
        "published": papers,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"leaderboard.json of agentgym, schema {SCHEMA}",
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
