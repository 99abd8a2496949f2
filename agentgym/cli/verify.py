"""``agentgym verify RUN``: play a run's actions again."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.agents.screen import printable
from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console, open_progress_console

if TYPE_CHECKING:
    from rich.console import Console

    from agentgym.evaluation.verify import Verdict

ABOUT = "Verify runs by playing every recorded action again."
PROBLEMS_SHOWN = 20


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "verify",
        run,
        about=ABOUT,
        example="agentgym verify results/quick/random-1a2b3c4d5e6f",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a run")
    parser.add_argument(
        "--suite",
        metavar="SUITE",
        help="the suite the runs claim to be of: a shipped one's name, or a TOML file (default: by its name)",
    )
    parser.add_argument("--rerun", action="store_true", help="also let the agent play everything again")


def run(arguments: argparse.Namespace) -> int:
    """Verify each run; 1 when one does not verify."""
    from agentgym.evaluation.suites import suite_file
    from agentgym.evaluation.verify import verify_run

    suite = None if arguments.suite is None else suite_file(arguments.suite)
    console, progress = open_console(), open_progress_console()
    sound = True
    for folder in arguments.runs:
        verdict = verify_run(folder, suite=suite, rerun=arguments.rerun, console=progress)
        sound &= report(folder, verdict, console)
    return 0 if sound else 1


def report(folder: Path, verdict: Verdict, console: Console) -> bool:
    """Print a verdict; return whether it is good."""
    checked = f"{verdict.episodes:,} episodes, {verdict.steps:,} steps"
    if verdict.ok:
        console.print(f"{verdict.badge}: {folder} ({checked})", style="green", markup=False, soft_wrap=True)
        return True
    count = len(verdict.problems)
    console.print(f"not verified: {folder} ({checked}), {count} problems", style="red", soft_wrap=True)
    for problem in verdict.problems[:PROBLEMS_SHOWN]:
        console.print(f"  {printable(str(problem))}", markup=False, soft_wrap=True)
    if count > PROBLEMS_SHOWN:
        console.print(f"  and {count - PROBLEMS_SHOWN} more in {folder / 'verify.json'}", soft_wrap=True)
    return False
