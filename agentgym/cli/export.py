"""``agentgym export inspect RUN``: a run as a log of inspect_ai."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_allow, add_command, add_groups
from agentgym.cli.terminal import open_console, open_progress_console


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands."""
    group = add_groups(
        add_command(
            commands,
            "export",
            None,
            about=COMMANDS["export"],
            example="agentgym export inspect results/quick/oracle-1a2b3c4d5e6f --out oracle.json",
        )
    )
    parser = add_command(
        group,
        "inspect",
        run,
        about="Write a run as a log of inspect_ai, a sample for each episode: a copy to look at, "
        "without state hashes; `agentgym import` plays its actions again.",
        example="agentgym export inspect results/quick/oracle-1a2b3c4d5e6f --out oracle.json",
    )
    parser.add_argument("run_folder", type=Path, metavar="RUN", help="folder of a run, or a packed run")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the log, .json")
    add_allow(parser)


def run(arguments: argparse.Namespace) -> int:
    """Export."""
    from agentgym.evaluation.log.inspect_log import export_inspect
    from agentgym.evaluation.verify.archives import open_run

    run = open_run(arguments.run_folder, allow=arguments.allow, console=open_progress_console())
    export_inspect(run, arguments.out)
    open_console().print(f"written to {arguments.out}", markup=False, highlight=False, soft_wrap=True)
    return 0
