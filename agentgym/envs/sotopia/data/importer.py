"""Importer of SOTOPIA's files for ``agentgym data import``, and the lookup of data sets."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from os.path import commonpath
from pathlib import Path

from agentgym.core.options import check_choice
from agentgym.core.suite_spec import DataSource
from agentgym.data.archives import Progress
from agentgym.data.directory import find
from agentgym.data.importing import Importer
from agentgym.envs.sotopia.data.folders import (
    HARD,
    NUMBERED,
    ProfileFolder,
    find_files,
    kind_of,
    open_folder,
    read_file,
)
from agentgym.envs.sotopia.sources import SOTOPIA, SOTOPIA_PI, SOURCES
from agentgym.errors import MissingDataError

STORED = {stem: f"{stem}.json" for stem in (NUMBERED, HARD)}
"""Names of imported files that are no JSON lines upstream. One name each, so that imports replace."""


def check_file(path: Path) -> int:
    """Return the number of records in a file; errors name file, line and field."""
    return len(read_file(path))


def open_profiles(dataset: str) -> ProfileFolder:
    """Return the folder of a data set.

    ``dataset``: ``sotopia/official`` or ``sotopia-pi/profiles`` in the data directory, or the path of a
    folder with files as SOTOPIA's.
    """
    name, _, part = dataset.partition("/")
    source = next((source for source in SOURCES if source.name == name), None)
    if source is not None and part:
        check_choice(f"set of {name}", part, tuple(source.sets))
        return open_folder(find(source.folder, source))
    path = Path(dataset).expanduser()
    if not path.is_dir():
        known = ", ".join(f"{each.name}/{part}" for each in SOURCES for part in each.sets)
        raise MissingDataError(
            f"no scenarios at {dataset!r:.80}: name builtin, {known}, or a folder of SOTOPIA's files"
        )
    return open_folder(path)


def _importer(source: DataSource, split: str) -> Importer:
    """Return the importer of a source, whose folder has to have a split.

    A copy is taken as it is, once all of it fits together.
    """

    def convert(files: Sequence[Path], folder: Path, *, progress: Progress) -> dict[str, int]:
        open_folder(Path(commonpath([file.parent for file in files]))).scenarios(split)
        folder.mkdir(parents=True)
        counts = {}
        for done, file in enumerate(files, start=1):
            name = STORED.get(kind_of(file), f"{file.stem}.jsonl")
            counts[name] = check_file(file)
            shutil.copyfile(file, folder / name)
            progress(done, len(files))
        return counts

    def sets_in(folder: Path) -> frozenset[str]:
        return frozenset(source.sets) if next(find_files(folder), None) is not None else frozenset()

    return Importer(find_files, check_file, convert, sets_in)


SOTOPIA_IMPORTER = _importer(SOTOPIA, "all")
SOTOPIA_PI_IMPORTER = _importer(SOTOPIA_PI, "train")
