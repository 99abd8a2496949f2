"""What each door makes of what servers say: 43 bodies and streams, and the action or the problem behind each.

``python -m benchmarks.doors`` writes ``benchmarks/doors.md``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from agentgym.io.files import replace_file
from agentgym.io.untrusted import printable
from benchmarks.harness.report import table_text
from tests.reading import doors
from tests.reading.bodies import CASES

PAGE = Path(__file__).with_suffix(".md")
BENCH = "bench"
TITLE = """\
# What servers say, and what is played

`python -m benchmarks.doors` wrote this table. Each line is an answer of a server
(`tests/reading/bodies.py`), each column a door through which it comes in, and each cell the action that is
played or, in italics, why there is none. Of two calls that may not stand side by side the first is shown.
`-` stands where a door does not take such an answer: inspect_ai and TRL read the arguments of calls
themselves, and hand over objects.

"""


def cell(read: doors.Read | None) -> str:
    """Return what a door made of an answer, as a cell of the table."""
    if read is None:
        return "-"
    action = " + ".join(f"`{each}`" for each in read.action.split("\n") if each)
    said = action or f"*{read.problem}*"
    return printable(" ".join(said.split())).replace("|", "\\|")


def cheap() -> dict[str, dict[str, str]]:
    """Return the cells of every door but the command line's, by case and door."""
    with doors.open_doors() as opened:
        return {
            name: {door: cell(read(case)) for door, read in opened.items()} for name, case in CASES.items()
        }


def benched() -> dict[str, str]:
    """Return the cells of the command line, by case: one run for a suite's bodies and one for its streams."""
    found: dict[str, str] = {}
    groups: dict[Any, dict[str, Any]] = {}
    for name, case in CASES.items():
        groups.setdefault((case.suite, case.streamed), {})[name] = case
    with TemporaryDirectory() as folder:
        for number, ((_, streamed), cases) in enumerate(groups.items()):
            read = doors.bench(list(cases.values()), streamed, Path(folder) / str(number))
            found |= dict(zip(cases, map(cell, read), strict=True))
    return found


def page(rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return the page."""
    columns = list(next(iter(rows.values())))
    lines = ((name, *(cells[column] for column in columns)) for name, cells in rows.items())
    return TITLE + table_text(("answer", *columns), lines)


def cells_of(text: str) -> dict[str, dict[str, str]]:
    """Return the cells of a page, by case and door."""
    lines = [line.strip("| \n").split(" | ") for line in text.splitlines() if line.startswith("|")]
    head, _, *rows = lines
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def main() -> None:
    """Ask every door and write the page."""
    bench = benched()
    rows = {name: {BENCH: bench[name], **cells} for name, cells in cheap().items()}
    replace_file(PAGE, page(rows).encode())


if __name__ == "__main__":
    main()
