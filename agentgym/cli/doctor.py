"""``agentgym doctor``: check the installation, or what training does here, as a report to be sent in."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.commands import COMMANDS
from agentgym.cli.installation import check_installation
from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console
from agentgym.errors import UsageError
from agentgym.io.files import replace_file, writing

if TYPE_CHECKING:
    from agentgym.training.doctor import CheckResult

TINY = {"cpu": "tiny:0.1m", "cuda": "tiny:5m"}
"""Models that are checked with by default."""

_SHOWN = ("tokens_per_second", "logp_diff_mean", "peak_memory", "planned_memory", "log_prob_gap_mean", "mfu")


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands, "doctor", run, about=COMMANDS["doctor"], example="agentgym doctor --cpu --out report.json"
    )
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--gpu",
        nargs="?",
        const="",
        metavar="MODEL",
        help="check the GPU, with a model directory if one is named",
    )
    where.add_argument(
        "--cpu", nargs="?", const="", metavar="MODEL", help="check the CPU; seconds, with the tiny model"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the report as JSON")


def run(arguments: argparse.Namespace) -> int:
    """Examine the machine; print a line a check and write the report; 1 where one fails."""
    if (arguments.cpu, arguments.gpu) == (None, None):
        if arguments.out is not None:
            raise UsageError("--out writes the report on training: add --cpu or --gpu")
        return check_installation(open_console())
    from agentgym.training.doctor import examine

    device = "cpu" if arguments.gpu is None else "cuda"
    model = (arguments.cpu if device == "cpu" else arguments.gpu) or TINY[device]
    size = 2 if device == "cpu" else 8
    console = open_console()

    def show(check: CheckResult) -> None:
        figures = "  ".join(f"{name} {check.numbers[name]:.4g}" for name in _SHOWN if name in check.numbers)
        state = "ok  " if check.ok else "FAIL"
        console.print(
            f"{state} {check.name} ({check.seconds:.1f} s)  {check.error or figures}",
            markup=False,
            soft_wrap=True,
        )

    report = examine(model, device=device, tasks=size, group_size=size, report=show)
    if arguments.out is not None:
        with writing(arguments.out):
            replace_file(arguments.out, json.dumps(report.to_json(), indent=2) + "\n")
        console.print(f"report: {arguments.out}", markup=False, soft_wrap=True)
    return 0 if report.ok else 1
