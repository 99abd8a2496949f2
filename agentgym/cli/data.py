"""``agentgym data``: official data on this machine, demonstrations, and data pools."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

from agentgym.agents.screen import printable
from agentgym.cli import data_pool, demos, download
from agentgym.cli.commands import COMMANDS
from agentgym.cli.parser import Commands, Parser, add_command, add_groups
from agentgym.cli.terminal import open_console, say
from agentgym.data.directory import cache_directory, data_directory, find
from agentgym.data.importing import MANIFEST, find_damage, import_data, is_present
from agentgym.data.progress import progress_bar
from agentgym.data.sources import SourceSet, size_of, source_list
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
        about="Check official data, and copy it into the data directory.",
        example="agentgym data import boxoban ~/boxoban-levels",
    )
    importer.add_argument("name", metavar="NAME", help="a data set")
    importer.add_argument(
        "path",
        type=Path,
        metavar="PATH",
        help="a copy of the upstream data: a folder, or an archive, or a folder of files "
        "as `agentgym data download NAME --print-urls` lists them",
    )
    download.add_data(actions)
    verify = add_command(
        actions,
        "verify",
        run_verify,
        about="Check imported files against their sha256, and derive the ids of generated tasks again.",
        example="agentgym data verify boxoban",
    )
    verify.add_argument(
        "names", nargs="*", metavar="NAME", help="data sets or environments (default: all that you have)"
    )
    demos.add_to(actions)
    data_pool.add_to(actions)


def run_list(arguments: argparse.Namespace) -> int:
    """Print one row for each data set, and for each part of one that is downloaded by itself."""
    from rich.filesize import decimal
    from rich.table import Table

    console = open_console(80)
    console.print(f"data directory   {data_directory()}", markup=False, soft_wrap=True)
    console.print(f"cache directory  {cache_directory()}", markup=False, soft_wrap=True)
    table = Table("data set", "source", "size", "licence", "state", box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    table.columns[0].no_wrap = table.columns[2].no_wrap = True
    listed = source_list()
    for source in data_sources():
        names = [name for name, found in listed.set.items() if found.source == source.name]
        official = {part for name in names for part in listed.set[name].gives} or {*source.sets}
        here = [part for part in source.sets if is_present(source, part)]
        beside = [part for part in here if part not in official]
        for name in names or [source.name]:
            unlisted = SourceSet(source.licence, source.upstream, gives=tuple(source.sets))
            found, size = listed.set.get(name, unlisted), size_of(listed.files(name))
            state = "imported" if (data_directory() / source.folder / MANIFEST).exists() else "present"
            given = [part for part in found.gives if part in here]
            if not given or len(given) < len(found.gives):
                state = f"{', '.join(given + beside)} only" if given or beside else "missing"
            shown = decimal(size) if size else "unknown" if names else ""
            table.add_row(name, found.revision, shown, found.licence, state)
    console.print(table, markup=False)
    say("`agentgym data download NAME` brings what has a size; else `data import`")
    return 0


def run_path(arguments: argparse.Namespace) -> int:
    """Print a path, for scripts."""
    path = data_directory()
    if arguments.name is not None:
        source = data_source(arguments.name)
        path = find(source.folder, source)
    say(str(path))
    return 0


def run_import(arguments: argparse.Namespace) -> int:
    """Import a data set: a copy of it, or files as they were fetched elsewhere."""
    if download.holds_fetched(arguments.name, arguments.path):
        ways = {"mirror": str(arguments.path), "only_mirror": True, "keep": False}
        download.download_data(arguments.name, argparse.Namespace(**ways))
        return 0
    source = data_source(arguments.name)
    with progress_bar(f"importing {source.name}") as progress:
        entries = import_data(source, arguments.path, progress=progress)
    records = sum(entry.records for entry in entries.values())
    say(f"imported {len(entries):,} files, {records:,} records, into {data_directory() / source.folder}")
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
        with progress_bar(f"verifying {name}") as progress:
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
