"""Streaming chosen files out of folders and archives, without unpacking anything."""

from __future__ import annotations

import lzma
import os
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple, Self, TypeAlias

from agentgym.errors import UsageError
from agentgym.io.untrusted import open_regular

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done and how much there is, in any one unit."""

ARCHIVES = (".tar.xz", ".tar.gz", ".tar", ".zip")

MAX_MEMBER_SIZE = 4 << 20
"""Bytes a file may hold: six times the largest of the published data."""

MAX_TOTAL = 4 << 30
"""Bytes all files of an archive may hold, those that are skipped included: four times the published data."""

MAX_HEADER_SIZE = 1 << 16
"""Bytes of a name or of other facts before a file in a tar archive."""

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
    """Read a file, or an archive's files with one of ``names`` as the last part of their paths."""
    if not is_archive(file):
        _check_size(file.stat().st_size, str(file))
        with open_regular(file) as opened:
            data = opened.read()
        yield Member(PurePosixPath(file.absolute().as_posix()), str(file), data, len(data))
        return
    try:
        yield from _from_zip(file, names) if file.name.endswith(".zip") else _from_tar(file, names)
    except _DAMAGE as error:
        raise UsageError(f"{file} cannot be read as an archive ({error}): get it again") from error


def _from_tar(archive: Path, names: Collection[str]) -> Iterator[Member]:
    total = 0
    with open_regular(archive) as raw, tarfile.open(fileobj=raw, mode="r|*", tarinfo=_BoundedInfo) as tar:
        for item in tar:
            total += item.size
            _check_total(total, archive)
            tar.members.clear()  # type: ignore[attr-defined]  # or the archive's whole table stays in memory
            if not item.isfile() or PurePosixPath(item.name).name not in names:
                continue
            source = f"{archive}: {item.name}"
            _check_size(item.size, source)
            content = tar.extractfile(item)
            assert content is not None  # it is a file
            yield Member(PurePosixPath(item.name), source, content.read(), raw.tell())


def _from_zip(archive: Path, names: Collection[str]) -> Iterator[Member]:
    done = total = 0
    with zipfile.ZipFile(archive) as folder:
        for item in folder.infolist():
            done += item.compress_size
            total += item.file_size
            _check_total(total, archive)
            if item.is_dir() or PurePosixPath(item.filename).name not in names:
                continue
            source = f"{archive}: {item.filename}"
            _check_size(item.file_size, source)
            yield Member(PurePosixPath(item.filename), source, folder.read(item), done)


class _BoundedInfo(tarfile.TarInfo):
    """A member's header; what precedes it is read into memory, so that it must not be large."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """As `tarfile.TarInfo.frombuf`, within limits."""
        info = super().frombuf(buf, encoding, errors)
        if info.type in _HEADERS and info.size > MAX_HEADER_SIZE:
            raise tarfile.ReadError(f"a header of {info.size:,} bytes")
        if info.type == tarfile.GNUTYPE_SPARSE:
            raise tarfile.ReadError("a file with holes")
        return info

    def _proc_gnusparse_10(self, *_: object) -> None:
        raise tarfile.ReadError("a file with holes")


_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


def _check_total(total: int, archive: Path) -> None:
    if total > MAX_TOTAL:
        raise UsageError(f"{archive} unpacks to more than {MAX_TOTAL:,} bytes: get it anew")


def _check_size(size: int, source: str) -> None:
    if size > MAX_MEMBER_SIZE:
        raise UsageError(f"{source} has {size:,} bytes, more than any game: remove it")
