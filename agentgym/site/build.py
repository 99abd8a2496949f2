"""Building the site: runs are verified, boards made of them, and pages written of both."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.evaluation.boards import Board, make_boards
from agentgym.evaluation.exports import as_csv, as_json, latex
from agentgym.evaluation.layout import one_line
from agentgym.evaluation.leaderboard import PUBLISHED, read_published
from agentgym.evaluation.published import Published
from agentgym.evaluation.submissions import Examined, Unranked, examine_below
from agentgym.evaluation.tables import titles
from agentgym.site.boards import board_page, board_rows, filters
from agentgym.site.folder import STATIC, new_folder
from agentgym.site.rendering import data_script, render
from agentgym.site.runs import RunPage, run_page, run_pages
from agentgym.site.scatter import spending_panels

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """What a site was made of."""

    boards: tuple[Board, ...]
    unranked: tuple[Unranked, ...]
    """Runs on no line of a table."""
    differing: tuple[str, ...]
    """Ids of the episodes whose replay departs from their record."""


def build_site(
    results: Path,
    out: Path,
    *,
    runs: Path | None = None,
    reports: Path | None = None,
    suites: Mapping[str, Path] | None = None,
    allow: Collection[str] = (),
    console: Console | None = None,
) -> BuiltSite:
    """Verify all runs, play their episodes again, and write the pages.

    Args:
        results: a folder with runs anywhere below it, packed or not.
        out: folder of the site, which is replaced as a whole at the end.
        runs: a folder with training runs anywhere below it; None for none.
        reports: a folder with ``published.toml`` and reports of benchmarks, as the checkout's
            ``benchmarks``; None for the nearest one above ``results`` that has such a file.
        suites: suite files by the suite's name, as `examine_below` takes them.
        allow: references ``module:name`` in runs and suites that may be imported.
        console: where progress is shown; None for nowhere.

    Raises:
        UsageError: there is no run, or ``out`` holds something else than a site or cannot be written.
    """
    examined = list(examine_below(results, suites=suites, allow=allow, console=console))
    boards, apart = make_boards(each.found for each in examined)
    reports = find_reports(results) if reports is None else reports
    published = Published() if reports is None else read_published(reports / PUBLISHED)
    with new_folder(out) as folder:
        _copy_static(folder / STATIC)
        pages = run_pages(folder, examined, results, suites=suites or {}, allow=allow, console=console)
        _write_boards(folder, boards, apart, published, pages)
        for page in pages:
            write_page(folder, page.file, render("run.html", "Boards", page=run_page(page, boards)))
    unranked = (*(run for board in boards for run in board.unranked), *apart)
    differing = tuple(name for page in pages for name in page.differing)
    return BuiltSite(tuple(boards), unranked, differing)


def find_reports(results: Path) -> Path | None:
    """Return the nearest folder at or above some results that has results of papers; None without one."""
    place = results.resolve()
    return next((folder for folder in (place, *place.parents) if (folder / PUBLISHED).is_file()), None)


def write_page(folder: Path, name: str, text: str) -> None:
    """Write a file of the site."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


def _write_boards(
    folder: Path,
    boards: list[Board],
    apart: list[Unranked],
    published: Published,
    pages: Collection[RunPage],
) -> None:
    """Write the page and the files of every board, and the page that lists them."""
    places = {page.request_id: page.file for page in reversed(list(pages))}
    shown = []
    for number, (board, title) in enumerate(zip(boards, titles(boards, one_line), strict=True), start=1):
        page = board_page(board, title, number, places)
        write_page(folder, f"board-{number}.html", render("board.html", "Boards", page=page))
        write_page(folder, f"board-{number}.json", as_json([board], Published()))
        write_page(folder, f"board-{number}.csv", as_csv([board]))
        write_page(folder, f"board-{number}.tex", latex([board]))
        panels = [panel.as_json for panel in spending_panels(board)]
        if panels:
            write_page(folder, f"data/board-{number}.js", data_script(f"board/{number}", panels))
        shown.append(page)
    rows = board_rows(shown)
    unranked = [{"run": run, "page": places.get(run.run, "")} for run in apart]
    first = {"boards": shown, "rows": rows, "filters": filters(rows), "unranked": unranked}
    write_page(folder, "index.html", render("index.html", "Boards", **first))


def _copy_static(folder: Path) -> None:
    folder.mkdir()
    for source in sorted(files("agentgym.site").joinpath(STATIC).iterdir(), key=lambda each: each.name):
        (folder / source.name).write_bytes(source.read_bytes())
