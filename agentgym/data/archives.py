"""Streaming chosen files out of folders and archives, without unpacking anything."""

from __future__ import annotations

import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple, TypeAlias

from agentgym.errors import UsageError

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done and how much there is, in any one unit."""

ARCHIVES = (".tar.xz", ".tar.gz", ".tar", ".zip")

LARGEST = 64 << 20
"""Bytes a file may hold."""

_DAMAGE = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, EOFError, OSError, RuntimeError)
"""What reading a damaged or encrypted archive may raise."""


class Member(NamedTuple):
    """One file of a folder or an archive."""

    path: PurePosixPath
    """Where it lies: in its archive, or on the disk."""
    source: str
    """What error messages call it."""
    data: bytes
    done: int
    """Bytes of the archive read so far, as they lie on the disk."""


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive by its name."""
    return path.name.endswith(ARCHIVES)


def stem_of(archive: Path) -> str:
    """Return an archive's name without its ending."""
    return next((archive.name[: -len(end)] for end in ARCHIVES if archive.name.endswith(end)), archive.name)


def find_members(root: Path, names: Collection[str]) -> list[Path]:
    """Return the archives in a folder and the files called one of ``names`` anywhere below it, sorted."""
    found = [path for path in root.iterdir() if path.is_file() and is_archive(path)]
    for folder, _, files in os.walk(root):
        found += [Path(folder, name) for name in files if name in names]
    return sorted(found)


def read_members(file: Path, names: Collection[str]) -> Iterator[Member]:
    """Read a file, or the files called one of ``names`` in an archive, one after another.

    Args:
        file: a file or an archive.
        names: last parts of the paths wanted from an archive.

    Raises:
        UsageError: the archive is damaged, or a file is too large; names it.
    """
    if not is_archive(file):
        _check_size(file.stat().st_size, str(file))
        data = file.read_bytes()
        yield Member(PurePosixPath(file.absolute().as_posix()), str(file), data, len(data))
        return
    try:
        yield from _from_zip(file, names) if file.name.endswith(".zip") else _from_tar(file, names)
    except _DAMAGE as error:
        raise UsageError(f"{file} cannot be read as an archive ({error}): get it again") from error


def _from_tar(archive: Path, names: Collection[str]) -> Iterator[Member]:
    with archive.open("rb") as raw, tarfile.open(fileobj=raw, mode="r|*") as tar:
        for item in tar:
            if not item.isfile() or PurePosixPath(item.name).name not in names:
                continue
            source = f"{archive}: {item.name}"
            _check_size(item.size, source)
            content = tar.extractfile(item)
            assert content is not None  # it is a file
            yield Member(PurePosixPath(item.name), source, content.read(), raw.tell())


def _from_zip(archive: Path, names: Collection[str]) -> Iterator[Member]:
    done = 0
    with zipfile.ZipFile(archive) as folder:
        for item in folder.infolist():
            done += item.compress_size
            if item.is_dir() or PurePosixPath(item.filename).name not in names:
                continue
            source = f"{archive}: {item.filename}"
            _check_size(item.file_size, source)
            yield Member(PurePosixPath(item.filename), source, folder.read(item), done)


def _check_size(size: int, source: str) -> None:
    if size > LARGEST:
        raise UsageError(f"{source} has {size:,} bytes, more than any game: remove it")
