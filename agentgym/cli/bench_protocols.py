"""``agentgym bench --protocol``: a paper's evaluation in place of a suite."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentgym.cli.parser import Parser
from agentgym.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


def add_what_is_played(parser: Parser) -> None:
    """Declare the flags: a suite, or a protocol."""
    parser.add_argument(
        "suite", nargs="?", metavar="SUITE", help="the name of a shipped suite, such as quick, or a TOML file"
    )
    parser.add_argument(
        "--protocol",
        metavar="NAME",
        help="in place of a suite, a paper's evaluation of --model: its games, prompts and temperature, then "
        "all games of its splits (a name or a TOML file)",
    )
    parser.add_argument("--protocols", action="store_true", help="list the protocols of the papers")


def chosen_suite(arguments: argparse.Namespace) -> tuple[Path, Mapping[str, Any], tuple[str, ...]]:
    """Return the suite's file, a protocol's model settings, and the required environments.

    A protocol's suite is written to ``suites`` in the output directory.
    """
    from agentgym.evaluation.suites import suite_file
    from agentgym.evaluation.suites.suite_text import write_suite
    from agentgym.recipes.protocols import load_protocol

    if (arguments.suite is None) == (arguments.protocol is None):
        raise UsageError("name a suite, such as quick, or a protocol with --protocol (see --protocols)")
    if arguments.protocol is None:
        return suite_file(arguments.suite), {}, ()
    protocol = load_protocol(arguments.protocol)
    if not arguments.model:
        raise UsageError(f"--protocol {protocol.name} evaluates a model: name one with --model DIRECTORY")
    suite = protocol.suite
    folder = arguments.out / "suites"
    write_suite(folder, suite)
    return folder / f"{suite.name}.toml", protocol.model.options, tuple(env.label for env in protocol.env)


def print_protocols(console: Console) -> int:
    """Print a row for each protocol."""
    from rich.table import Table

    from agentgym.recipes.protocols import load_protocol, protocol_names

    table = Table()
    for head in ("Protocol", "Games", "Attempts", "Temperature", "Checkpoint", "Source"):
        table.add_column(head, overflow="fold")
    for name in protocol_names():
        protocol = load_protocol(name)
        games = ", ".join(f"{env.label} ({env.count:,})" for env in protocol.suite.env)
        heat, attempts = f"{protocol.model.temperature:g}", str(protocol.attempts)
        table.add_row(name, games, attempts, heat, protocol.checkpoint, protocol.source)
    console.print(table)
    return 0
