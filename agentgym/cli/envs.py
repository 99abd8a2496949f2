"""``agentgym envs``: the environments and their data."""

from __future__ import annotations

import argparse
import textwrap

from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console

_WIDTH = 100
"""Width of the output, in columns, where neither a terminal nor ``COLUMNS`` sets one."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    add_command(commands, "envs", run, about=COMMANDS["envs"], example="agentgym envs")


def run(arguments: argparse.Namespace) -> int:
    """Print a paragraph for each environment, with a line for each of its data sets."""
    from rich.text import Text

    from agentgym.evaluation.suites.datasets import data_sets
    from agentgym.registration import ARRAY_ENVIRONMENTS, class_of, known_ids

    console = open_console(_WIDTH)

    def show(line: str, style: str = "") -> None:
        for part in textwrap.wrap(
            line, console.width, initial_indent="" if style else "  ", subsequent_indent="    "
        ):
            console.print(Text(part, style), soft_wrap=True)

    for env_id in sorted(known_ids()):
        game = class_of(env_id)
        show(f"{env_id}  {game.default_max_steps} steps, {game.action_kind} actions", "bold")
        for found in data_sets(env_id):
            missing = f" [missing: agentgym data {found.missing}]" if found.missing else ""
            show(f"{found.name}: {found.line}{missing}")
    for env_id in ARRAY_ENVIRONMENTS:
        show(f"{env_id}  arrays for numeric learners: gymnasium.make only", "bold")
    return 0
