"""The leaderboard's files, made from result files and papers' published results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from agentgym.errors import UsageError
from agentgym.evaluation.board.boards import Board, make_boards
from agentgym.evaluation.board.exports import as_csv, as_json, latex
from agentgym.evaluation.board.published import Published, check_published
from agentgym.evaluation.board.tables import markdown
from agentgym.evaluation.verify.box import Limits
from agentgym.evaluation.verify.submissions import Unranked, verify_below
from agentgym.io.files import make_folder, replace_files
from agentgym.io.records import read_toml

if TYPE_CHECKING:
    from rich.console import Console

CURVES = "curves"
"""Folder of the pictures beside the page."""

PUBLISHED = "published.toml"
"""File with the results of papers beside the page."""


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """Inputs of the leaderboard's files."""

    boards: list[Board]
    unranked: list[Unranked]
    """Runs that belong to no board."""


def check_page(path: Path) -> None:
    """Raise a UsageError unless a path may be that of a leaderboard's page."""
    if path.suffix != ".md" or path.is_dir():
        raise UsageError(f"the leaderboard is a Markdown page: name a file that ends in .md, not {path}")


def build_leaderboard(
    results_dir: Path,
    out_path: Path,
    *,
    suites: Mapping[str, Path] | None = None,
    allow: Collection[str] = (),
    limits: Limits | None = None,
    strict: bool = False,
    console: Console | None = None,
) -> Leaderboard:
    """Verify and score all runs and write the tables.

    Args:
        results_dir: a folder with runs anywhere below it.
        out_path: the Markdown page; the same with ``.json``, ``.csv`` and ``.tex`` go beside it. A
            ``published.toml`` beside it, results of papers, gets a section of its own; a picture
            ``curves/RUN.png`` beside it is shown with the policy of that training run.
        suites: suite files by the suite's name; other names are looked up as
            `agentgym.evaluation.suites.suite_file_of_run` does.
        allow: as `verify_below` takes it.
        limits: as `verify_below` takes them.
        strict: write nothing unless every run can be verified and is good.
        console: where progress is shown; None for nowhere.

    Returns:
        What was written.

    Raises:
        UsageError: the page does not end in ``.md``, there is no run, a file cannot be read, a table
            cannot be written, or, if ``strict``, a run is refused, incomplete or cannot be verified here.
    """
    check_page(out_path)
    found = []
    for run in verify_below(results_dir, suites=suites, allow=allow, limits=limits, console=console):
        if strict and isinstance(run, Unranked):
            of = f" of suite {run.suite}" if run.suite else ""
            raise UsageError(f"nothing is written: run {run.name}{of}: {run.reason}")
        found.append(run)
    boards, unranked = make_boards(found)
    if strict and unranked:
        raise UsageError(f"nothing is written: run {unranked[0].name}: {unranked[0].reason}")
    published = read_published(out_path.with_name(PUBLISHED))
    make_folder(out_path.parent)
    pictures = sorted(out_path.with_name(CURVES).glob("*.png"))
    curves = {picture.stem: f"{CURVES}/{quote(picture.name)}" for picture in pictures}
    texts = {
        ".md": markdown(boards, published, curves, unranked),
        ".json": as_json(boards, published, unranked),
        ".csv": as_csv(boards),
        ".tex": latex(boards),
    }
    replace_files({out_path.with_suffix(suffix): text for suffix, text in texts.items()})
    return Leaderboard(boards, unranked)


def read_published(path: Path) -> Published:
    """Read what papers report; nothing where there is no such file."""
    if not path.exists():
        return Published()
    published = read_toml(Published, path)
    check_published(published, str(path))
    return published
