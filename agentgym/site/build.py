"""Building the site: runs are verified, boards made of them, and pages written of both."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.errors import MissingDataError, UsageError
from agentgym.evaluation.board.boards import Board, make_boards
from agentgym.evaluation.board.exports import as_csv, as_json, latex
from agentgym.evaluation.board.leaderboard import CURVES, PUBLISHED, read_published
from agentgym.evaluation.board.published import Published
from agentgym.evaluation.board.tables import PUBLISHED_ABOUT, titles
from agentgym.evaluation.log.markdown import one_line
from agentgym.evaluation.verify.box import Limits
from agentgym.evaluation.verify.submissions import Unranked, examine_below
from agentgym.io.files import make_folder, writing
from agentgym.site.boards import board_page, board_rows, filters
from agentgym.site.environments import environment_pages
from agentgym.site.folder import STATIC, new_folder
from agentgym.site.rendering import data_script, render, without_secrets
from agentgym.site.runs import RunPage, run_page, run_pages
from agentgym.site.scatter import spending_panels
from agentgym.site.sweeps import SWEEPS, SweepPage, sweep_pages
from agentgym.site.training import find_histories, training_pages
from agentgym.site.training_viewer_data import keeps_rollouts, write_training
from agentgym.site.viewer_data import RunViewerData, write_index

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, slots=True)
class BuiltSite:
    """Inputs of a site."""

    boards: tuple[Board, ...]
    unranked: tuple[Unranked, ...]
    """Runs outside all tables."""
    differing: tuple[str, ...]
    """Ids of the episodes whose replay differs from their record."""


def build_site(
    results: Path,
    out: Path,
    *,
    runs: Path | None = None,
    reports: Path | None = None,
    suites: Mapping[str, Path] | None = None,
    allow: Collection[str] = (),
    limits: Limits | None = None,
    regret: bool = False,
    console: Console | None = None,
) -> BuiltSite:
    """Verify all runs, play their episodes again, and write the pages.

    ``results`` and ``runs``: folders with evaluation runs, packed or not, and training runs, anywhere below
    them. ``out`` is replaced as a whole at the end. ``reports``: a folder with ``published.toml``, reports of
    benchmarks, training runs' metrics below ``curves`` and sweeps' runs in ``algorithms``; None for the
    nearest above ``results``. ``regret``: as `EpisodeView.play`. Other arguments as `examine_below`.
    """
    if runs is not None and not runs.is_dir():
        raise UsageError(f"there is no folder {runs}: name one with training runs, or leave it out")
    examined = list(examine_below(results, suites=suites, allow=allow, limits=limits, console=console))
    boards, apart = make_boards(each.found for each in examined)
    if reports is None:  # the nearest folder at or above the results that has results of papers
        place = results.resolve()
        reports = next((each for each in (place, *place.parents) if (each / PUBLISHED).is_file()), None)
    published = Published() if reports is None else read_published(reports / PUBLISHED)
    with new_folder(out) as folder:
        _copy_static(folder / STATIC)
        pages = run_pages(
            folder, examined, results, suites=suites or {}, allow=allow, limits=limits, regret=regret
        )
        _write_boards(folder, boards, apart, pages)
        curves = [] if reports is None else [reports / CURVES]
        sweeps = ([], []) if reports is None else sweep_pages(reports / SWEEPS)
        places = [*([] if runs is None else [runs]), *curves]
        training, films = _write_training(folder, places, *sweeps, regret=regret)
        for page in pages:
            shown = run_page(page, boards, training)
            write_page(folder, page.file, render("run.html", "Boards", page=shown))
        _write_environments(folder, boards, pages, reports)
        about = PUBLISHED_ABOUT.replace("above", "on the boards")
        papers = render("papers.html", "Papers", papers=published.paper, about=about)
        write_page(folder, "papers.html", papers)
        write_index(folder, [page.films for page in pages if page.films is not None] + films)
        write_page(folder, "view.html", render("view.html", "Episodes"))
    unranked = (*(run for board in boards for run in board.unranked), *apart)
    differing = tuple(name for page in pages for name in page.differing)
    return BuiltSite(tuple(boards), unranked, differing)


def write_page(folder: Path, name: str, text: str) -> None:
    """Write a file of the site."""
    path = folder / name
    make_folder(path.parent)
    with writing(path):
        # half a surrogate pair becomes an escape, which JSON reads as the same character
        path.write_bytes(text.encode("utf-8", "backslashreplace"))


def _write_boards(
    folder: Path,
    boards: list[Board],
    apart: list[Unranked],
    pages: Collection[RunPage],
) -> None:
    """Write the page and the files of every board, and the page that lists them."""
    places = {
        name: page.file
        for page in reversed(list(pages))
        for name in (page.run.request_id, page.run.result_id or "")
    }
    shown = []
    for number, (board, title) in enumerate(zip(boards, titles(boards, one_line), strict=True), start=1):
        page = board_page(board, title, number, places)
        write_page(folder, f"board-{number}.html", render("board.html", "Boards", page=page))
        for kind, text in _downloads(board).items():
            write_page(folder, f"board-{number}.{kind}", text)
        panels = [panel.as_json for panel in spending_panels(board)]
        if panels:
            write_page(
                folder, f"data/board-{number}.js", data_script(f"board/{number}", without_secrets(panels))
            )
        shown.append(page)
    rows = board_rows(shown)
    unranked = [{"run": run, "page": places.get(run.run, "")} for run in apart]
    first = {"boards": shown, "rows": rows, "filters": filters(rows), "unranked": unranked}
    write_page(folder, "index.html", render("index.html", "Boards", **first))


def _downloads(board: Board) -> dict[str, str]:
    """Return a board's files by suffix: the leaderboard's, without secrets."""
    table = without_secrets(json.loads(as_json([board], Published())))
    return {
        "json": json.dumps(table, indent=1, ensure_ascii=False) + "\n",
        "csv": without_secrets(as_csv([board])),
        "tex": without_secrets(latex([board])),
    }


def _write_training(
    folder: Path,
    places: Sequence[Path],
    sweeps: Sequence[SweepPage],
    unread: Sequence[tuple[str, str]],
    *,
    regret: bool,
) -> tuple[dict[str, dict[str, str]], list[RunViewerData]]:
    """Write the pages of training runs and of sweeps, and play the recorded rollouts.

    Returns other pages' data of a run, by the name of its folder; and the films.
    """
    found = [find_histories(place) for place in places]
    histories = list({run.folder.resolve(): run for runs, _ in found for run in runs}.values())
    refused = [*(line for _, lines in found for line in lines), *unread]
    pages = training_pages(histories)
    links, films = {}, []
    for page in pages:
        kept = [run.folder for run in page.group.runs if keeps_rollouts(run.folder)]
        own = []
        for place in kept:
            try:
                own.append(write_training(folder, place, regret=regret))
            except (MissingDataError, UsageError) as error:
                page.missing.append(("rollouts", str(error).replace(str(place), place.name)))
        films += own
        write_page(folder, f"data/training-{page.slug}.js", data_script(page.link["key"], page.parts))
        write_page(folder, page.file, render("training_group.html", "Training", page=page, films=own))
        links.update({run.folder.name: page.link for run in page.group.runs})
    for sweep in sweeps:
        write_page(folder, sweep.file, render("sweep.html", "Training", page=sweep))
        write_page(folder, sweep.report_file, sweep.report)
    listed = render("training.html", "Training", pages=pages, sweeps=sweeps, refused=refused)
    write_page(folder, "training.html", listed)
    return links, films


def _write_environments(folder: Path, boards: list[Board], runs: list[RunPage], reports: Path | None) -> None:
    pages = environment_pages(boards, runs, reports)
    for page in pages:
        write_page(folder, page.file, render("environment.html", "Environments", page=page))
    write_page(folder, "environments.html", render("environments.html", "Environments", pages=pages))


def _copy_static(folder: Path) -> None:
    folder.mkdir()
    for source in sorted(files("agentgym.site").joinpath(STATIC).iterdir(), key=lambda each: each.name):
        (folder / source.name).write_bytes(source.read_bytes())
