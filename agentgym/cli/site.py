"""``agentgym site``: build the leaderboard's pages from runs, and serve them."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym.agents.screen import printable
from agentgym.cli.parser import Commands, Parser, add_allow, add_command, add_groups
from agentgym.cli.terminal import open_console, open_progress_console

ABOUT = "Build the leaderboard as static pages, with a viewer of every step, and serve them."


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands."""
    example = "agentgym site build results --out site"
    group = add_groups(add_command(commands, "site", None, about=ABOUT, example=example))
    _add_build(group, example)


def _add_build(group: Commands[Parser], example: str) -> None:
    parser = add_command(
        group,
        "build",
        run_build,
        about="Verify every run in a folder, replay its episodes, and write the pages; the old site stays "
        "until the new one is whole.",
        example=example,
    )
    parser.add_argument(
        "results", type=Path, metavar="RESULTS", help="folder with runs anywhere below it, packed or not"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the site")
    parser.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="SUITE",
        help="a suite file that runs are of, where none ships with its name; repeat for several "
        "(default: suites/NAME.toml in a folder above the run)",
    )
    add_allow(parser)


def run_build(arguments: argparse.Namespace) -> int:
    """Build."""
    from agentgym.evaluation.suite import load_suite
    from agentgym.evaluation.suites import suite_file
    from agentgym.site.build import build_site

    paths = [suite_file(name) for name in arguments.suite]
    built = build_site(
        arguments.results,
        arguments.out,
        suites={load_suite(path).name: path for path in paths},
        allow=arguments.allow,
        console=open_progress_console(),
    )
    console = open_console()
    for run in built.unranked:
        which = f"{run.name} ({run.run[:12]})" if run.run else run.name
        remark = printable(f"not ranked: {which}: {run.reason}")
        console.print(remark, style="yellow", markup=False, soft_wrap=True)
    console.print(f"written to {arguments.out / 'index.html'}", markup=False, soft_wrap=True)
    return 0
