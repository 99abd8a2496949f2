"""``agentgym leaderboard build`` and ``pack``: verify and rank runs, and pack them to be published."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.agents.screen import printable
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import (
    Commands,
    Parser,
    add_allow,
    add_command,
    add_groups,
    add_limits,
    add_suites,
    chosen_limits,
    chosen_suites,
)
from agentgym.cli.terminal import open_console, open_progress_console

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym.evaluation.board.boards import Board
    from agentgym.evaluation.verify.box import Limits
    from agentgym.evaluation.verify.submissions import Unranked


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands."""
    group = add_groups(
        add_command(
            commands,
            "leaderboard",
            None,
            about=COMMANDS["leaderboard"],
            example="agentgym leaderboard build benchmarks/runs --out benchmarks/LEADERBOARD.md",
        )
    )
    parser = add_command(
        group,
        "build",
        run,
        about="Verify every run in a folder, and write the leaderboard as Markdown, JSON, CSV and "
        "LaTeX. The verdicts of this machine are cached; verdicts that come with runs are ignored.",
        example="agentgym leaderboard build benchmarks/runs --out benchmarks/LEADERBOARD.md",
    )
    parser.add_argument(
        "results", type=Path, metavar="RESULTS", help="folder with runs anywhere below it, packed or not"
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE.md",
        help="the page; FILE.json, FILE.csv and FILE.tex go beside it (default: RESULTS/LEADERBOARD.md)",
    )
    add_suites(parser)
    parser.add_argument(
        "--strict", action="store_true", help="write nothing unless every run can be verified and is good"
    )
    add_allow(parser)
    add_limits(parser)
    pack = add_command(
        group,
        "pack",
        run_pack,
        about="Pack each run into one small file to publish, without the texts of its data set. "
        "Transcripts are included only if all tasks ship with this package.",
        example="agentgym leaderboard pack results/quick/oracle-1a2b3c4d5e6f --out runs",
    )
    pack.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a complete run")
    pack.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="files go to FOLDER/SUITE/")
    add_allow(pack)


def run(arguments: argparse.Namespace) -> int:
    """Build."""
    build(
        arguments.results,
        arguments.out or arguments.results / "LEADERBOARD.md",
        open_console(),
        suites=chosen_suites(arguments),
        allow=arguments.allow,
        limits=chosen_limits(arguments),
        strict=arguments.strict,
    )
    return 0


def run_pack(arguments: argparse.Namespace) -> int:
    """Pack."""
    from agentgym.evaluation.log.stored_run import read_stored_run
    from agentgym.evaluation.verify.packed import pack_run

    console = open_console()
    for folder in arguments.runs:
        path = pack_run(read_stored_run(folder), arguments.out, allow=arguments.allow)
        console.print(
            f"{path} ({path.stat().st_size:,} bytes)", markup=False, highlight=False, soft_wrap=True
        )
    return 0


def build(
    results: Path,
    out: Path,
    console: Console,
    *,
    suites: Mapping[str, Path],
    allow: Collection[str] = (),
    limits: Limits | None = None,
    strict: bool = False,
) -> None:
    """Write the leaderboard; print its main tables and why runs are not on them."""
    from agentgym.evaluation.board.leaderboard import build_leaderboard

    box: Any = {"allow": allow, "limits": limits, "console": open_progress_console()}
    built = build_leaderboard(results, out, suites=suites, strict=strict, **box)
    print_boards(built.boards, built.unranked, console)
    beside = ", ".join(out.with_suffix(suffix).name for suffix in (".json", ".csv", ".tex"))
    console.print(printable(f"written to {out}, and {beside} beside it"), markup=False, soft_wrap=True)


def print_boards(boards: Sequence[Board], unranked: Sequence[Unranked], console: Console) -> None:
    """Print the main tables of boards with their notes, and the reasons why runs are not on them."""
    from rich.table import Table
    from rich.text import Text

    from agentgym.evaluation.board.tables import main_cells, notes, titles

    for board, title in zip(boards, titles(boards), strict=True):
        head, lines = main_cells(board, unread=True)
        table = Table(title=Text(printable(title)), title_justify="left")
        # transposed, one column per agent: terminals are narrow, and there are fewer agents than environments
        for cell in (head[1], *(line[1] for line in lines)):
            table.add_column(Text(printable(cell.strip("*"))))
        for number, name in enumerate(head):
            if name != head[1]:
                table.add_row(*(Text(printable(cell)) for cell in (name, *(line[number] for line in lines))))
        console.print(table)
        ranks = [row.rank for row in board.rows if row.rank is not None]
        if len(set(ranks)) < len(ranks):
            tasks = sum(env.env.count for env in board.envs)
            tied = f"A rank with = is a tie: {tasks:,} tasks cannot show a difference between these agents."
            console.print(tied, style="yellow", markup=False, soft_wrap=True)
        for note in notes(board):
            words = printable("".join(piece for _, piece in note))
            console.print(Text(words, style="yellow"), soft_wrap=True)
    for run in (*(run for board in boards for run in board.unranked), *unranked):
        which = f"{run.name} ({run.run[:12]})" if run.run else run.name
        remark = printable(f"not ranked: {which}: {run.reason}")
        console.print(remark, style="yellow", markup=False, soft_wrap=True)
