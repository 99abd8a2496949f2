"""``agentgym leaderboard build``: rank runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable
from agentgym.cli.parser import Commands, Parser, add_command, add_groups
from agentgym.cli.terminal import open_console

if TYPE_CHECKING:
    from rich.console import Console

ABOUT = "Build the leaderboard of a folder of runs."


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
    parser.add_argument("results", type=Path, metavar="RESULTS", help="folder with runs anywhere below it")
    parser.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE.md",
        help="the page; FILE.json, FILE.csv and FILE.tex go beside it",
    )


def run(arguments: argparse.Namespace) -> int:
    """Build."""
    build(arguments.results, arguments.out, open_console())
    return 0


def build(results: Path, out: Path, console: Console) -> None:
    """Write the leaderboard and print its main tables."""
    from rich.table import Table
    from rich.text import Text

    from agentgym.evaluation.leaderboard import build_leaderboard
    from agentgym.evaluation.tables import main_cells

    for board in build_leaderboard(results, out):
        head, lines = main_cells(board)
        table = Table(title=f"{board.suite.name}, version {board.suite.version}", title_justify="left")
        # turned, an agent a column: terminals are narrow, and agents fewer than environments
        for cell in (head[1], *(line[1] for line in lines)):
            table.add_column(Text(printable(cell.strip("*"))))
        for number, name in enumerate(head):
            if name != head[1]:
                table.add_row(*(Text(printable(cell)) for cell in (name, *(line[number] for line in lines))))
        console.print(table)
        for run in board.unranked:
            remark = f"not ranked: {run.name} ({run.run[:12]}): {run.reason}"
            console.print(printable(remark), style="yellow", markup=False, soft_wrap=True)
    console.print(f"written to {out}", markup=False, soft_wrap=True)
