"""``agentgym site``: build the leaderboard's pages from runs, and serve them."""

from __future__ import annotations

import argparse
from pathlib import Path

from agentgym.agents.screen import printable
from agentgym.cli.commands import COMMANDS
from agentgym.cli.listening import add_address
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


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands."""
    example = "agentgym site build results --out site"
    group = add_groups(add_command(commands, "site", None, about=COMMANDS["site"], example=example))
    _add_build(group, example)
    _add_serve(group)


def _add_build(group: Commands[Parser], example: str) -> None:
    parser = add_command(
        group,
        "build",
        run_build,
        about="Verify every run in a folder, replay its episodes, and write the pages; the old site "
        "stays until the new one is complete.",
        example=example,
    )
    parser.add_argument(
        "results", type=Path, metavar="RESULTS", help="folder with runs anywhere below it, packed or not"
    )
    parser.add_argument(
        "runs",
        type=Path,
        nargs="?",
        metavar="RUNS",
        help="folder with training runs anywhere below it (default: no pages of training)",
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the site")
    parser.add_argument(
        "--reports",
        type=Path,
        metavar="FOLDER",
        help="folder with the papers' results and reports of benchmarks (default: the nearest one above "
        "RESULTS with a published.toml)",
    )
    parser.add_argument(
        "--regret",
        action="store_true",
        help="show in the viewer how many steps are left to a win, and what each step loses (takes longer)",
    )
    add_suites(parser)
    add_allow(parser)
    add_limits(parser)


def run_build(arguments: argparse.Namespace) -> int:
    """Build."""
    from agentgym.site.build import build_site

    built = build_site(
        arguments.results,
        arguments.out,
        runs=arguments.runs,
        reports=arguments.reports,
        suites=chosen_suites(arguments),
        allow=arguments.allow,
        limits=chosen_limits(arguments),
        regret=arguments.regret,
        console=open_progress_console(),
    )
    console = open_console()
    for run in built.unranked:
        which = f"{run.name} ({run.run[:12]})" if run.run else run.name
        remark = printable(f"not ranked: {which}: {run.reason}")
        console.print(remark, style="yellow", markup=False, soft_wrap=True)
    for episode in built.differing:
        differs = printable(f"differs from its record: {episode}")
        console.print(differs, style="red", markup=False, soft_wrap=True)
    console.print(printable(f"written to {arguments.out / 'index.html'}"), markup=False, soft_wrap=True)
    return 0


def _add_serve(group: Commands[Parser]) -> None:
    parser = add_command(
        group,
        "serve",
        run_serve,
        about="Serve a built site to browsers on this machine, or with --host on other machines.",
        example="agentgym site serve site --port 8000",
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="folder of the site")
    add_address(parser)


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from agentgym.serving.http_server import SiteServer
    from agentgym.site.folder import FolderSite

    site = FolderSite(arguments.folder)
    console = open_console()
    allowed = arguments.allow_host
    with SiteServer(arguments.host, arguments.port, site.answer, allowed_hosts=allowed) as server:
        line = f"{arguments.folder} is open at {server.url} (Ctrl-C closes it)"
        console.print(line, markup=False, soft_wrap=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            console.print("closed", markup=False, soft_wrap=True)
    return 0
