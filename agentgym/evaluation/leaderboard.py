"""The leaderboard's files, made from the result files and what papers report."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from agentgym.errors import UsageError
from agentgym.evaluation.boards import Board, load_boards
from agentgym.evaluation.published import Published
from agentgym.evaluation.tables import as_csv, as_json, latex, markdown
from agentgym.files import make_folder, replace_file
from agentgym.records import read_toml

CURVES = "curves"
"""Folder of pictures beside the page."""


def build_leaderboard(results_dir: Path, out_path: Path) -> list[Board]:
    """Score all runs and write the tables.

    Args:
        results_dir: a folder with runs anywhere below it.
        out_path: the Markdown page; the same with ``.json``, ``.csv`` and ``.tex`` go beside it. A
            ``published.toml`` beside it, results of papers, gets a section of its own; a picture
            ``curves/RUN.png`` beside it is shown with the policy of that training run.

    Returns:
        The boards written.

    Raises:
        UsageError: the page does not end in ``.md``, there is no run, a file cannot be read, or a table
            cannot be written.
    """
    if out_path.suffix != ".md":
        raise UsageError(f"the leaderboard is a Markdown page: name a file that ends in .md, not {out_path}")
    boards = load_boards(results_dir)
    papers = out_path.with_name("published.toml")
    published = read_toml(Published, papers) if papers.exists() else Published()
    make_folder(out_path.parent)
    pictures = sorted(out_path.with_name(CURVES).glob("*.png"))
    curves = {picture.stem: f"{CURVES}/{quote(picture.name)}" for picture in pictures}
    replace_file(out_path, markdown(boards, published, curves))
    replace_file(out_path.with_suffix(".json"), as_json(boards, published))
    replace_file(out_path.with_suffix(".csv"), as_csv(boards))
    replace_file(out_path.with_suffix(".tex"), latex(boards))
    return boards
