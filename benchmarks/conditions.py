"""How often papers say how a result came about, counted over every published number here.

``python -m benchmarks.conditions`` writes ``benchmarks/conditions.json`` and ``benchmarks/conditions.md``.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from agentgym.evaluation.board.audit import CONDITIONS_NAME
from agentgym.evaluation.board.leaderboard import PUBLISHED, read_published
from agentgym.evaluation.board.published import CONDITIONS, Conditions
from agentgym.io.records import read_toml
from benchmarks.harness.report import parser, publish, table_text

HERE = Path(__file__).parent
FILES = (PUBLISHED, "published-2026.toml")

PAGE = """\
# What papers say of how their numbers came about

`python -m benchmarks.conditions`, from [five papers' tables](published.toml), [further numbers of
2026](published-2026.toml) and [what the texts say of them](conditions.toml).
Each number of a table counts, and the one after a plus-minus sign as another. A part is stated where the text
of the paper prints it; nothing is inferred. *Panel* is the number of tasks, *rule* how a result was chosen
among checkpoints, runs or evaluations. Which tasks a panel holds, in which order, no paper prints.

## Numbers with each part

{counts}
## What is stated, and where

{stated}"""


def count() -> dict[str, Any]:
    """Count numbers with each part, by paper, and list what is stated."""
    conditions = read_toml(Conditions, HERE / CONDITIONS_NAME)
    counts: dict[str, Counter[str]] = {}
    stated: dict[tuple[str, ...], None] = {}
    for paper in (paper for name in FILES for paper in read_published(HERE / name).paper):
        for index, column in enumerate(paper.column):
            found = conditions.of(paper, column)
            numbers = sum(len(row.cells[index]) for row in paper.row)
            counts.setdefault(paper.name, Counter()).update(
                {
                    "numbers": numbers,
                    **dict.fromkeys(found, numbers),
                    "all": numbers * (len(found) == len(CONDITIONS)),
                }
            )
            for name, (value, place) in found.items():
                stated[paper.place, column.environment, name, str(value), place] = None
    counts["all"] = sum(counts.values(), Counter[str]())
    return {"counts": counts, "stated": list(stated)}


def page(record: dict[str, Any]) -> str:
    """Return the page of a record."""
    parts = ("numbers", *CONDITIONS, "all")
    lines = [[paper, *(f"{found[part]:,}" for part in parts)] for paper, found in record["counts"].items()]
    head = ("paper", "numbers", *CONDITIONS, "all four")
    stated = table_text(("table", "environment", "part", "what", "place"), record["stated"])
    return PAGE.format(counts=table_text(head, lines, len(parts)), stated=stated)


def main() -> None:
    """Count and write the page."""
    arguments = parser("benchmarks.conditions", __doc__, HERE / "conditions.json").parse_args()
    record = count()
    publish(arguments.out, record, page(record))


if __name__ == "__main__":
    main()
