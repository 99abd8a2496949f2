"""``agentgym leaderboard build``: rank runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.parser import Commands, Parser, add_command, add_groups
from agentgym.cli.terminal import open_console

if TYPE_CHECKING:
    from rich.console import Console

ABOUT = "Rank runs."


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands."""
    group = add_command(
        commands,
        "leaderboard",
        None,
        about=ABOUT,
        example="agentgym leaderboard build benchmarks/results --out benchmarks/LEADERBOARD.md",
    )
    parser = add_command(
        add_groups(group),
        "build",
        run,
        about="Write the leaderboard of a folder of runs, as Markdown and beside it JSON, CSV and LaTeX.",
        example="agentgym leaderboard build benchmarks/results --out benchmarks/LEADERBOARD.md",
    )
    parser.add_argument("results", type=Path, metavar="RESULTS", help="folder that holds runs")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.md")


def run(arguments: argparse.Namespace) -> int:
    """Build."""
    build(arguments.results, arguments.out, open_console())
    return 0


def build(results: Path, out: Path, console: Console) -> None:
    """Write the leaderboard and print its table."""
    from agentgym.evaluation.leaderboard import build_leaderboard

    build_leaderboard(results, out)
    console.print(out.read_text(encoding="utf-8"), markup=False, soft_wrap=True)
