"""Write the numbers of lines into docs/training_walk.md: ``python -m tools.walk``, or ``make pages``.

The page lists the functions between sampling and the update. A row has a function's file below
``agentgym/``, its name in that file, and the row of its caller.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "training_walk.md"
ROW = re.compile(
    r"^\| (\d+) \| `([\w/]+\.py)` \| `([\w.]+)` \| (\d+|none) \| (\d+) \| (.+) \|$", re.MULTILINE
)
TOTAL = re.compile(r"^Total: .*$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Row:
    """A function of the walk."""

    number: int
    file: str
    """Path below ``agentgym/``."""
    function: str
    """Name in the file, with its class."""
    caller: int | None
    """Row of the function that calls it; None for the first."""
    lines: int
    """Number of lines that the page states."""
    purpose: str

    @property
    def node(self) -> ast.FunctionDef:
        """Syntax tree of the function; `LookupError` where the file has none of that name."""
        body: list[ast.stmt] = ast.parse((ROOT / "agentgym" / self.file).read_text(encoding="utf-8")).body
        for name in self.function.split("."):
            nodes = [each for each in body if isinstance(each, ast.ClassDef | ast.FunctionDef)]
            found = next((each for each in nodes if each.name == name), None)
            if found is None:
                raise LookupError(f"{self.file} has no {self.function}")
            body = found.body
        if not isinstance(found, ast.FunctionDef):
            raise LookupError(f"{self.function} of {self.file} is no function")
        return found

    @property
    def length(self) -> int:
        """Number of lines of the function, decorators and docstring included."""
        node = self.node
        first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        return (node.end_lineno or node.lineno) - first + 1

    @property
    def name(self) -> str:
        """Name by which callers name the function: its class's where a module or a kernel is called."""
        owner, _, name = self.function.rpartition(".")
        return owner if name == "forward" else name

    def names(self, other: Row) -> bool:
        """Return whether the function's body names another row's function, or a variable of its class."""
        found = {each.id for each in ast.walk(self.node) if isinstance(each, ast.Name)}
        found |= {each.attr for each in ast.walk(self.node) if isinstance(each, ast.Attribute)}
        return bool({other.name, other.name.lower()} & found)


def rows(text: str) -> list[Row]:
    """Return the rows of a page."""
    return [
        Row(int(number), file, function, None if caller == "none" else int(caller), int(lines), purpose)
        for number, file, function, caller, lines, purpose in ROW.findall(text)
    ]


def written(text: str) -> str:
    """Return a page with the present numbers of lines."""
    found = rows(text)
    lengths = {row.number: row.length for row in found}
    text = ROW.sub(
        lambda row: f"| {row[1]} | `{row[2]}` | `{row[3]}` | {row[4]} | {lengths[int(row[1])]} | {row[6]} |",
        text,
    )
    files = len({row.file for row in found})
    return TOTAL.sub(f"Total: {sum(lengths.values())} lines in {files} files.", text)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
