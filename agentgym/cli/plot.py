"""``agentgym plot RUN...``: learning curves of training runs, and diagnostics."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console, open_progress_console

if TYPE_CHECKING:
    from agentgym.history.curves import RunGroup


XS = ("iteration", "episodes", "env_steps", "tokens", "seconds")
"""Copy of `agentgym.history.curves.XS`, so that the parser need not load that module."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    parser = add_command(
        commands,
        "plot",
        run,
        about=COMMANDS["plot"],
        example="agentgym plot runs/gigpo-* runs/grpo-* --metric success --metric kl --out curves.svg",
    )
    parser.add_argument(
        "runs",
        type=Path,
        nargs="*",
        metavar="RUN",
        help="folder of a training run; with --what golden-length also of an evaluation",
    )
    parser.add_argument("--what", metavar="NAME", help="draw a diagnostic instead of curves (see --list)")
    parser.add_argument(
        "--iteration",
        action="append",
        type=int,
        metavar="N",
        help="with --what: an iteration whose stored rollouts are used; repeat for several (default: all)",
    )
    parser.add_argument("--list", action="store_true", help="list the diagnostics and what they need")
    parser.add_argument(
        "--metric",
        action="append",
        metavar="NAME",
        help="success, eval, score, kl or another number of metrics.jsonl, such as "
        "evaluation/splits/valid_unseen/success; repeat for several panels (default: success)",
    )
    parser.add_argument("--x", choices=XS, default="iteration", help="x axis (default: iteration)")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="output file, .png or .svg (default: curves.png, or the diagnostic's name, in the folder "
        "of a single run; for several runs, here)",
    )
    parser.add_argument(
        "--smooth",
        type=float,
        default=1.0,
        metavar="N",
        help="moving average of training values over N iterations, or below 1 an exponential one of that "
        "decay, such as 0.95 (default: 1)",
    )
    parser.add_argument(
        "--threshold", type=float, metavar="VALUE", help="report where each line first reaches VALUE"
    )
    parser.add_argument("--title", help="title (default: what the runs have in common)")
    parser.add_argument("--each", action="store_true", help="a line for every run, without bands")


def run(arguments: argparse.Namespace) -> int:
    """Draw."""
    from agentgym.errors import UsageError

    if arguments.list:
        return _list()
    if not arguments.runs:
        raise UsageError("name the folder of a training run, such as runs/gigpo-sokoban-seed0")
    if arguments.out is None:
        folder = arguments.runs[0] if len(arguments.runs) == 1 and arguments.runs[0].is_dir() else Path()
        arguments.out = folder / f"{arguments.what or 'curves'}.png"
    return _draw_curves(arguments) if arguments.what is None else _draw_diagnostic(arguments)


def _list() -> int:
    from agentgym.history.diagnostics.table import COMPARING, describe_diagnostics

    console = open_console()
    for name, data, about in describe_diagnostics():
        several = " Of several runs, too." if name in COMPARING else ""
        console.print(f"{name:<16} {about} From {data}.{several}", markup=False, soft_wrap=True)
    console.print("rollouts are kept by: agentgym train ... --set keep_rollouts=10", markup=False)
    return 0


def _draw_diagnostic(arguments: argparse.Namespace) -> int:
    from agentgym.history.diagnostics.table import diagnose
    from agentgym.history.diagrams import draw_diagram

    first, *others = arguments.runs
    diagram = diagnose(first, arguments.what, arguments.iteration or (), beside=others)
    picture = draw_diagram(diagram, arguments.out.suffix.lower())
    _write(arguments.out, picture)
    _write(arguments.out.with_suffix(".json"), diagram.to_json().encode())
    return 0


def _draw_curves(arguments: argparse.Namespace) -> int:
    from agentgym.errors import UsageError
    from agentgym.history.curves import full_name, group_runs, make_curve, reached
    from agentgym.history.drawing import draw_curves
    from agentgym.history.run import read_history

    if not (0 < arguments.smooth < 1 or (arguments.smooth >= 1 and arguments.smooth.is_integer())):
        raise UsageError(
            f"--smooth is a number of iterations or a decay between 0 and 1, got {arguments.smooth:g}"
        )
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
    _write(arguments.out, picture, remarks=_remarks(groups))
    if arguments.threshold is not None:
        for metric in metrics:
            for group in groups:
                place = reached(make_curve(group, metric, arguments.x, arguments.smooth), arguments.threshold)
                where = "never" if place is None else f"{arguments.x} {place:,g}"
                line = f"{group.first.algorithm}: {metric} is {arguments.threshold:g} or more: {where}"
                open_console().print(line, markup=False, soft_wrap=True)
    return 0


def _write(path: Path, content: bytes, remarks: Iterable[str] = ()) -> None:
    from agentgym.errors import UsageError
    from agentgym.io.files import trouble

    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {trouble(error)}; or name another --out") from error
    for remark in remarks:
        open_progress_console().print(remark, style="yellow", markup=False, soft_wrap=True)
    open_console().print(f"written to {path}", markup=False, soft_wrap=True)


def _remarks(groups: list[RunGroup]) -> Iterator[str]:
    """Yield remarks on runs that their groups' picture leaves out."""
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
