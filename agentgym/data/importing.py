"""Bringing official data into the data directory, whole or not at all, and checking it later."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from agentgym.core.suite_spec import DataSource
from agentgym.data.archives import Progress
from agentgym.data.directory import DATA_VARIABLE, data_directory, find
from agentgym.errors import UsageError
from agentgym.io.files import draft_of, sha256_of, trouble
from agentgym.io.optional import load_reference
from agentgym.io.untrusted import open_regular, read_json

MANIFEST = "manifest.json"
"""Name of the file beside imported files that lists them with their sha256."""

SCHEMA = 2
"""Version of the manifest's format; the first, which is read too, has no ``generation``."""

_BLOCK = 1 << 20


class Converter(Protocol):
    """Writes a source's files in a form of its own; returns how many records each holds, by name."""

    def __call__(self, files: Sequence[Path], folder: Path, *, progress: Progress) -> dict[str, int]:
        """Write the files into ``folder``."""


@dataclass(frozen=True, slots=True)
class Importer:
    """Reader of copies of one source."""

    find_files: Callable[[Path], Iterable[Path]]
    """Function that yields the files of the source under a folder."""
    check_file: Callable[[Path], int]
    """Function that returns how many records a file holds; it raises UsageError for another source's file."""
    convert: Converter | None = None
    """Function that converts files; None to copy them as they are. Converted files stay from one import to
    the next unless the next has them anew, since a source's parts may come in several archives."""
    sets_in: Callable[[Path], Collection[str]] | None = None
    """Function that returns the sets that a folder holds; None where any content belongs to every set."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file of a manifest."""

    sha256: str
    size: int
    """Size of the file, in bytes."""
    records: int


def importer_of(source: DataSource) -> Importer:
    """Return the reader of a source's copies."""
    importer: Importer = load_reference(source.importer)
    return importer


def is_present(source: DataSource, part: str) -> bool:
    """Return whether a set of a source is on this machine."""
    folder, importer = data_directory() / source.folder, importer_of(source)
    if importer.sets_in is not None:
        return part in importer.sets_in(folder)
    if importer.convert is None:
        return (folder / part).is_dir()
    return next(iter(importer.find_files(folder)), None) is not None


def import_data(source: DataSource, origin: Path, *, progress: Progress) -> dict[str, FileEntry]:
    """Bring a source's files into the data directory, checked; return the manifest's entries by path.

    The files appear at once when all are there, in place of an earlier import's. ``origin``: folder with a
    copy of the upstream data, or an archive of it; ``progress`` is called with the done and the whole, of
    files or of bytes of archives.
    """
    importer = importer_of(source)
    files = list(importer.find_files(origin))
    if not files:
        raise UsageError(f"{origin} holds none of {source.expected}: name a copy of {source.upstream}")
    _restore(data_directory() / source.folder)
    target = check_target(source)
    draft = draft_of(target)
    try:
        counts: dict[str, int] = {}
        if importer.convert is None:
            for done, file in enumerate(files, start=1):
                path = file.relative_to(origin)
                counts[path.as_posix()] = importer.check_file(file)
                copy_file(file, draft / path)
                progress(done, len(files))
        else:
            counts |= importer.convert(files, draft, progress=progress)
        entries = {
            name: FileEntry(sha256_of(draft / name), (draft / name).stat().st_size, records)
            for name, records in counts.items()
        }
        if importer.convert is not None and target.exists():
            for name, entry in (read_manifest(source) or {}).items():
                if name not in entries:
                    copy_file(target / name, draft / name)
                    entries[name] = entry
        _write_manifest(draft / MANIFEST, source, entries)
        _put_in_place(draft, target)
    except OSError as error:
        place = error.filename or target
        raise UsageError(
            f"cannot import {source.name}: {place}: {trouble(error)}; or set {DATA_VARIABLE} elsewhere"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return entries


def check_target(source: DataSource) -> Path:
    """Return the folder that a source is imported into; UsageError for one that was filled by hand."""
    target = data_directory() / source.folder
    if target.exists() and not (target / MANIFEST).exists():
        raise UsageError(
            f"{target} was not imported by agentgym: move it away, or set AGENTGYM_DATA elsewhere"
        )
    return target


def read_manifest(source: DataSource) -> dict[str, FileEntry] | None:
    """Return the manifest's entries of a source; None if its files were put there by hand."""
    path = find(source.folder, source) / MANIFEST
    if not path.exists():
        return None
    try:
        table = read_json(path)
        schema = table["schema"]
        entries = {key: FileEntry(**entry) for key, entry in table["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is damaged ({error}): import the data again") from error
    if schema not in (1, SCHEMA):
        raise UsageError(f"{path} has schema {schema}, expected {SCHEMA}: import the data again")
    return entries


def find_damage(source: DataSource, *, progress: Progress) -> Iterator[str]:
    """Yield the defects of a source on this machine.

    Imported files are compared with their manifest; others, which have none, are only checked for their
    format.
    """
    folder = find(source.folder, source)
    entries = read_manifest(source)
    present = {file.relative_to(folder).as_posix(): file for file in importer_of(source).find_files(folder)}
    known = present if entries is None else entries
    for done, key in enumerate(known, start=1):
        if key not in present:
            yield f"{folder / key} is missing"
        elif entries is None:
            try:
                importer_of(source).check_file(present[key])
            except UsageError as error:
                yield str(error)
        elif sha256_of(present[key]) != entries[key].sha256:
            yield f"{folder / key} is not what was imported"
        progress(done, len(known))
    for key in sorted(present.keys() - known.keys()):
        yield f"{folder / key} was not imported"


def copy_file(origin: Path, target: Path) -> None:
    """Copy a regular file to the disk, block by block."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with open_regular(origin) as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy, _BLOCK)
        copy.flush()
        os.fsync(copy.fileno())


def _write_manifest(path: Path, source: DataSource, entries: Mapping[str, FileEntry]) -> None:
    table = {
        "schema": SCHEMA,
        "source": source.name,
        "upstream": source.upstream,
        "generation": source.generation,
        "licence": source.licence,
        "files": {key: asdict(entry) for key, entry in entries.items()},
    }
    with path.open("w", encoding="utf-8") as file:
        json.dump(table, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _put_in_place(draft: Path, target: Path) -> None:
    """Rename the finished folder to its name; the older folder is deleted only afterwards."""
    old = target.with_name(f"{draft.name}.old")
    if target.exists():
        target.rename(old)
    try:
        draft.rename(target)
    except OSError:
        if old.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _restore(target: Path) -> None:
    """Bring back an import that a killed process had moved aside; remove one that had been replaced."""
    for old in target.parent.glob(f".{target.name}.*.tmp.old"):
        try:
            os.kill(int(old.name.split(".")[-3]), 0)
        except ProcessLookupError:
            if target.exists():
                shutil.rmtree(old, ignore_errors=True)
            else:
                old.rename(target)
        except (PermissionError, ValueError):  # of another user, or no number
            continue
