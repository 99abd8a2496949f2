"""The Boxoban levels: the files of a copy, and their format."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from agentgym.data.importing import Importer
from agentgym.envs.sokoban.suite import BOXOBAN
from agentgym.errors import UsageError

SIDE = 10
"""Boards are 10 x 10."""

BOXES = 4
"""Boxes on each board."""


def find_files(root: Path) -> Iterator[Path]:
    """Yield the level files under a copy of the upstream repository, sorted."""
    for name, splits in BOXOBAN.sets.items():
        for split in splits or ("",):
            yield from sorted((root / name / split).glob("*.txt"))


def check_file(path: Path) -> int:
    """Check a level file and return its number of levels.

    A level is a line ``; NUMBER``, ten lines of ten symbols of ``#``, ``.``, ``$``, ``*``, ``@``, ``+`` and
    space, and a blank line, which may be missing at the end. Errors name the line.
    """
    count = 0
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        numbered = enumerate((line.rstrip("\r\n") for line in file), start=1)
        for number, line in numbered:
            if not line:
                continue
            if not line.startswith(";"):
                raise UsageError(f"{path}, line {number}: expected '; NUMBER', got {line[:20]!r}")
            _check_board([row for _, row in islice(numbered, SIDE)], f"{path}, line {number + 1}")
            count += 1
    if not count:
        raise UsageError(f"{path} holds no level")
    return count


def _check_board(rows: list[str], where: str) -> None:
    board = "".join(rows)
    if [len(row) for row in rows] != [SIDE] * SIDE or set(board) - set("#.$*@+ "):
        raise UsageError(f"{where}: a level is {SIDE} lines of {SIDE} symbols of #.$*@+ and space")
    boxes = board.count("$") + board.count("*")
    goals = board.count(".") + board.count("*") + board.count("+")
    players = board.count("@") + board.count("+")
    if (boxes, goals, players) != (BOXES, BOXES, 1):
        found = f"{boxes} boxes, {goals} targets and {players} players"
        raise UsageError(f"{where}: expected {BOXES} boxes, {BOXES} targets and 1 player, got {found}")


IMPORTER = Importer(find_files, check_file)
