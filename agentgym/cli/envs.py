"""``agentgym envs``: what can be played."""

from __future__ import annotations

import argparse

from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console

ABOUT = "List the environments with their data sets, splits and sizes."


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    add_command(commands, "envs", run, about=ABOUT, example="agentgym envs")


def run(arguments: argparse.Namespace) -> int:
    """Print one row per environment and data set."""
    from rich.table import Table

    from agentgym.data.importing import is_present
    from agentgym.registration import class_of, known_ids, open_env

    table = Table("environment", "data set", "splits (tasks)", "steps", "actions", box=None, pad_edge=False)
    for env_id in sorted(known_ids()):
        game = class_of(env_id)
        sizes = [f"{split} ({len(open_env(env_id, split=split).tasks):,})" for split in game.splits]
        table.add_row(env_id, "builtin", ", ".join(sizes), str(game.default_max_steps), game.action_kind)
        for source in game.suite_spec.sources:
            for name, splits in source.sets.items():
                note = (
                    "" if is_present(source, name) else f" [missing: agentgym data import {source.name} PATH]"
                )
                table.add_row("", f"{source.name}/{name}", (", ".join(splits) or "no splits") + note)
    open_console().print(table, markup=False)
    return 0
