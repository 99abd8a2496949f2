"""``agentgym envs``: the environments and their data."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from agentgym.cli.parser import Commands, Parser, add_command
from agentgym.cli.terminal import open_console

ABOUT = "List the environments with their data sets, splits and sizes."

_ANY_WIDTH = 10_000
"""Columns that no table needs."""


def add_to(commands: Commands[Parser]) -> None:
    """Declare the command."""
    add_command(commands, "envs", run, about=ABOUT, example="agentgym envs")


def run(arguments: argparse.Namespace) -> int:
    """Print each environment with its data sets: a table, or a paragraph each where that is too wide."""
    from rich.table import Table
    from rich.text import Text

    from agentgym.registration import class_of, known_ids

    console = open_console()
    table = Table("environment", "data set", "splits (tasks)", "steps", "actions", box=None, pad_edge=False)
    paragraphs: list[str] = []
    for env_id in sorted(known_ids()):
        game = class_of(env_id)
        steps, kind = str(game.default_max_steps), game.action_kind
        paragraphs.append(f"{env_id}  {steps} steps, {kind} actions")
        for number, (name, splits, note) in enumerate(_data_sets(env_id)):
            table.add_row("" if number else env_id, name, splits + note, *(() if number else (steps, kind)))
            paragraphs.append(f"  {name}: {splits}")
            paragraphs += [f"     {note}"] if note else []
    unbounded = console.options.update(width=_ANY_WIDTH)
    if console.measure(table, options=unbounded).maximum <= console.width:
        console.print(table, markup=False)
    else:
        for line in paragraphs:
            console.print(Text(line, "" if line[0] == " " else "bold"))
    return 0


def _data_sets(env_id: str) -> Iterator[tuple[str, str, str]]:
    """Yield each data set's name, its splits, and the command that fetches a missing one."""
    from agentgym.evaluation.suites.datasets import data_sets

    for found in data_sets(env_id):
        note = f" [missing: agentgym data import {found.missing} PATH]" if found.missing else ""
        yield found.name, found.line, note
