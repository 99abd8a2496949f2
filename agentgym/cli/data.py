"""``agentgym data``: official data on this machine, demonstrations, and data pools."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agentgym.agents.screen import printable
from agentgym.cli import data_pool, demos
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_command, add_groups
from agentgym.cli.terminal import open_console, open_progress_console
from agentgym.core.suite_spec import DataSource
from agentgym.data.directory import cache_directory, data_directory, find
from agentgym.data.importing import find_damage, import_data, read_manifest
from agentgym.errors import UsageError
from agentgym.registration import class_of, data_source, data_sources, known_ids, open_env


def add_to(commands: Commands[Parser]) -> None:
    """Declare the commands."""
    group = add_command(commands, "data", None, about=COMMANDS["data"], example="agentgym data list")
    actions = add_groups(group)
    add_command(
        actions,
        "list",
        run_list,
        about="List the official data sets and where they are.",
        example="agentgym data list",
    )
    path = add_command(
        actions,
        "path",
        run_path,
        about="Print the data directory, or the folder of a data set.",
        example="agentgym data path boxoban",
    )
    path.add_argument("name", nargs="?", metavar="NAME", help="a data set")
    importer = add_command(
        actions,
        "import",
        run_import,
        about="Copy official data into the data directory, checked.",
        example="agentgym data import boxoban ~/boxoban-levels",
    )
    importer.add_argument("name", metavar="NAME", help="a data set")
    importer.add_argument(
        "path", type=Path, metavar="PATH", help="a copy of the upstream data: a folder, or an archive"
    )
    verify = add_command(
        actions,
        "verify",
        run_verify,
        about="Check imported files against their sha256, and derive the ids of generated tasks again.",
        example="agentgym data verify boxoban",
    )
    verify.add_argument(
        "names", nargs="*", metavar="NAME", help="data sets or environments (default: all that are here)"
    )
    demos.add_to(actions)
    data_pool.add_to(actions)


def run_list(arguments: argparse.Namespace) -> int:
    """Print one row per data set."""
    from rich.filesize import decimal
    from rich.table import Table

    console = open_console()
    console.print(f"data directory   {data_directory()}", markup=False, soft_wrap=True)
    console.print(f"cache directory  {cache_directory()}", markup=False, soft_wrap=True)
    table = Table("data set", "what", "licence", "state", "files", "size", "folder", box=None, pad_edge=False)
    table.columns[3].no_wrap = True  # it may hold a command to copy
    for source in data_sources():
        folder = data_directory() / source.folder
        state, files, size = f"missing: agentgym data import {source.name} PATH", "", ""
        if folder.exists():
            found = [file for file in folder.rglob("*") if file.is_file()]
            state = "present" if read_manifest(source) is None else "imported"
            files, size = f"{len(found):,}", decimal(sum(file.stat().st_size for file in found))
        table.add_row(source.name, source.about, source.licence, state, files, size, str(folder))
    console.print(table, markup=False)
    return 0


def run_path(arguments: argparse.Namespace) -> int:
    """Print a path, for scripts."""
    path = data_directory() if arguments.name is None else _folder_of(data_source(arguments.name))
    open_console().print(str(path), markup=False, soft_wrap=True)
    return 0


def run_import(arguments: argparse.Namespace) -> int:
    """Import a data set."""
    source = data_source(arguments.name)
    with _progress(f"importing {source.name}") as progress:
        entries = import_data(source, arguments.path, progress=progress)
    records = sum(entry.records for entry in entries.values())
    open_console().print(
        f"imported {len(entries):,} files, {records:,} records, into {data_directory() / source.folder}",
        markup=False,
        soft_wrap=True,
    )
    return 0


def run_verify(arguments: argparse.Namespace) -> int:
    """Verify data sets and generated tasks; 1 when something is wrong."""
    names = arguments.names or [
        *(source.name for source in data_sources() if (data_directory() / source.folder).exists()),
        *known_ids(),
    ]
    console = open_console()
    sound = True
    for name in names:
        with _progress(f"verifying {name}") as progress:
            problems = list(
                _verify_tasks(name, progress)
                if "/" in name
                else find_damage(data_source(name), progress=progress)
            )
        for problem in problems:
            console.print(f"{name}: {printable(problem)}", style="red", markup=False, soft_wrap=True)
        if not problems:
            console.print(f"{name}: as it should be", style="green", markup=False, soft_wrap=True)
        sound = sound and not problems
    return 0 if sound else 1


def _verify_tasks(env_id: str, progress: Callable[[int, int], None]) -> Iterator[str]:
    """Yield the defects of an environment's generated tasks."""
    splits = class_of(env_id).splits
    for done, split in enumerate(splits, start=1):
        try:
            open_env(env_id, split=split).tasks.verify()
        except UsageError as error:
            yield f"split {split}: {error}"
        progress(done, len(splits))


def _folder_of(source: DataSource) -> Path:
    return find(source.folder, source)


@contextmanager
def _progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar; yield its update function of the done and the whole amount."""
    from rich.progress import Progress

    console = open_progress_console()
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bars:
        bar = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
