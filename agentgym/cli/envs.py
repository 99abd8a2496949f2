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

    from agentgym.cli.slots import open_slots
    from agentgym.data.catalogue import DATA_SOURCES
    from agentgym.data.importing import is_present
    from agentgym.registration import ENVIRONMENTS

    table = Table("environment", "data set", "splits (tasks)", "steps", "actions", box=None, pad_edge=False)
    for env_id in sorted(ENVIRONMENTS):
        sizes = []
        with open_slots(env_id) as envs:
            game = envs.prototype
        for split in game.splits:
            with open_slots(env_id, split=split) as envs:
                sizes.append(f"{split} ({len(envs.tasks):,})")
        table.add_row(env_id, "builtin", ", ".join(sizes), str(game.max_steps), game.action_kind)
        for source in DATA_SOURCES.values():
            if source.folder != game.suite:
                continue
            for name, splits in source.sets.items():
                note = (
                    "" if is_present(source, name) else f" [missing: agentgym data import {source.name} PATH]"
                )
                table.add_row("", f"{source.name}/{name}", (", ".join(splits) or "no splits") + note)
    open_console().print(table, markup=False)
    return 0
