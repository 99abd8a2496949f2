"""Building the site: runs are verified, boards made of them, and pages written of both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.evaluation.boards import Board, make_boards
from agentgym.evaluation.submissions import Examined, Unranked, examine_below
from agentgym.evaluation.tables import main_cells, titles
from agentgym.site.folder import new_folder
from agentgym.site.rendering import render

if TYPE_CHECKING:
    from rich.console import Console

STATIC = "static"


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """What a site was made of."""

    boards: tuple[Board, ...]
    unranked: tuple[Unranked, ...]
    """Runs on no line of a table."""
    examined: tuple[Examined, ...]


def build_site(
    results: Path,
    out: Path,
    *,
    suites: Mapping[str, Path] | None = None,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> BuiltSite:
    """Verify all runs and write the pages.

    Args:
        results: a folder with runs anywhere below it, packed or not.
        out: folder of the site, which is replaced as a whole at the end.
        suites: suite files by the suite's name, as `examine_below` takes them.
        allow: references ``module:name`` in runs and suites that may be imported.
        console: where progress is shown; None for nowhere.

    Raises:
        UsageError: there is no run, or ``out`` holds something else than a site or cannot be written.
    """
    examined = tuple(examine_below(results, suites=suites, allow=allow, console=console))
    boards, apart = make_boards(each.found for each in examined)
    unranked = (*(run for board in boards for run in board.unranked), *apart)
    with new_folder(out) as folder:
        _copy_static(folder / STATIC)
        pages = []
        for number, (board, title) in enumerate(zip(boards, titles(boards), strict=True), start=1):
            head, lines = main_cells(board)
            rows = [{"role": row.role, "cells": line} for row, line in zip(board.rows, lines, strict=True)]
            page = {"file": f"board-{number}.html", "title": title, "suite_sha256": board.suite_sha256}
            pages.append({**page, "head": head, "rows": rows})
            write_page(folder, f"board-{number}.html", render("board.html", "Boards", board=pages[-1]))
        write_page(folder, "index.html", render("index.html", "Boards", boards=pages))
    return BuiltSite(tuple(boards), unranked, examined)


def write_page(folder: Path, name: str, text: str) -> None:
    """Write a file of the site."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _copy_static(folder: Path) -> None:
    folder.mkdir()
    for source in sorted(files("agentgym.site").joinpath(STATIC).iterdir(), key=lambda each: each.name):
        (folder / source.name).write_bytes(source.read_bytes())
