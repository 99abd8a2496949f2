"""The leaderboard's files, made from the result files and nothing else."""

from __future__ import annotations

from pathlib import Path

from agentgym.evaluation.boards import Board, load_boards
from agentgym.evaluation.durable import make_folder, replace_file
from agentgym.evaluation.tables import as_csv, as_json, latex, markdown


def build_leaderboard(results_dir: Path, out_path: Path) -> list[Board]:
    """Score all runs and write the tables.

    Args:
        results_dir: a folder with runs anywhere below it.
        out_path: the Markdown page; ``leaderboard.json``, ``.csv`` and ``.tex`` go beside it.

    Returns:
        The boards written.

    Raises:
        UsageError: there is no run, a run's files cannot be read, or a table cannot be written.
    """
    boards = load_boards(results_dir)
    make_folder(out_path.parent)
    replace_file(out_path, markdown(boards))
    replace_file(out_path.with_name("leaderboard.json"), as_json(boards))
    replace_file(out_path.with_name("leaderboard.csv"), as_csv(boards))
    replace_file(out_path.with_name("leaderboard.tex"), latex(boards))
    return boards
