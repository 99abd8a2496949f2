"""``agentgym plot RUN...``: learning curves of training runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console, open_progress_console

if TYPE_CHECKING:
    from agentgym.history.curves import RunGroup

ABOUT = "Draw learning curves of training runs: mean and band over the seeds of each algorithm."

XS = ("iteration", "episodes", "env_steps", "tokens", "seconds")
"""As `agentgym.history.curves.XS`, which the parser has no need to load."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "plot",
        run,
        about=ABOUT,
        example="agentgym plot runs/gigpo-* runs/grpo-* --metric success --metric kl --out curves.svg",
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="folder of a training run")
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="success, eval, score, kl or another number of metrics.jsonl; repeat for several panels "
        "(default: success)",
    )
    parser.add_argument("--x", choices=XS, default="iteration", help="x axis (default: iteration)")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("curves.png"),
        metavar="FILE",
        help="output file, .png or .svg (default: curves.png)",
    )
    parser.add_argument(
        "--smooth",
        type=int,
        default=1,
        metavar="N",
        help="moving average of training values over N iterations (default: 1)",
    )
    parser.add_argument("--title", help="title (default: what the runs have in common)")
    parser.add_argument("--each", action="store_true", help="a line for every run, without bands")


def run(arguments: argparse.Namespace) -> int:
    """Draw."""
    from agentgym.errors import UsageError
    from agentgym.files import trouble
    from agentgym.history.curves import full_name, group_runs
    from agentgym.history.drawing import draw_curves
    from agentgym.history.run import read_history

    if arguments.smooth < 1:
        raise UsageError(f"--smooth must be at least 1, got {arguments.smooth}")
    metrics = [full_name(name) for name in dict.fromkeys(arguments.metric or ["success"])]
    groups = group_runs([read_history(folder) for folder in arguments.runs], each=arguments.each)
    picture = draw_curves(
        groups,
        metrics,
        suffix=arguments.out.suffix.lower(),
        x=arguments.x,
        smooth=arguments.smooth,
        title=arguments.title,
    )
    try:
        arguments.out.write_bytes(picture)
    except OSError as error:
        raise UsageError(f"cannot write {arguments.out}: {trouble(error)}; or name another --out") from error
    for remark in _remarks(groups):
        open_progress_console().print(remark, style="yellow", markup=False, soft_wrap=True)
    open_console().print(f"written to {arguments.out}", markup=False, soft_wrap=True)
    return 0


def _remarks(groups: list[RunGroup]) -> Iterator[str]:
    """Yield what a picture of groups does not say of their runs."""
    for group in groups:
        name = group.first.algorithm
        shortest, longest = (pick(group.runs, key=lambda run: len(run.iterations)) for pick in (min, max))
        if len(shortest.iterations) < len(longest.iterations):
            yield (
                f"{name} is drawn to iteration {len(shortest.iterations)}, where {shortest.folder} ends; "
                f"{longest.folder} has {len(longest.iterations)}"
            )
        if group.differing:
            yield (
                f"{name} averages runs that differ in more than the seed: {', '.join(group.differing)}; "
                "--each draws each of them"
            )
