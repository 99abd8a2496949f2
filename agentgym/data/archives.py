"""Streaming chosen files out of folders and archives, without unpacking anything."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple, Self, TypeAlias

from agentgym.errors import UsageError
from agentgym.io.untrusted import open_regular

Progress: TypeAlias = Callable[[int, int], None]
"""Callback ``(done, total)``, both in any one unit."""

ARCHIVES = (".tar.xz", ".tar.gz", ".tar", ".zip")

MAX_MEMBER_SIZE = 4 << 20
"""Largest size of a file, in bytes: six times the largest of the published data."""

MAX_TOTAL = 4 << 30
"""Largest size of all files of an archive, in bytes, skipped ones included: four times the published data."""

MAX_HEADER_SIZE = 1 << 16
"""Largest size of a name or other header before a file in a tar archive, in bytes."""

_OPENERS: dict[bytes, Callable[[Any], Any]] = {
    b"\x1f\x8b": lambda file: gzip.GzipFile(fileobj=file),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
}

_BROKEN = (tarfile.TarError, zipfile.BadZipFile, lzma.LZMAError, zlib.error, struct.error)
DAMAGE = (*_BROKEN, EOFError, OSError, RuntimeError)
"""Exceptions that reading a damaged or encrypted archive may raise."""


class Member(NamedTuple):
    """One file of a folder or an archive."""

    path: PurePosixPath
    """Path of the file in its archive or on the disk."""
    source: str
    """Name of the file in error messages."""
    data: bytes
    done: int
    """Bytes of the archive read so far, still compressed."""


def is_archive(path: Path) -> bool:
    """Return whether a file is an archive by its name."""
    return path.name.endswith(ARCHIVES)


def is_zip(raw: BufferedReader) -> bool:
    """Return whether a file that has been opened is a zip archive, by its first bytes."""
    raw.seek(0)
    return raw.peek(4).startswith((b"PK\x03\x04", b"PK\x05\x06"))


def opener_of(file: BufferedReader) -> Callable[[Any], Any] | None:
    """Return what decompresses a file that is at its start, by its first bytes; None where nothing does."""
    return next((opener for mark, opener in _OPENERS.items() if file.peek(6).startswith(mark)), None)


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
    total = 0
    try:
        with open_regular(file) as raw:
            for name, size, read in (_from_zip if is_zip(raw) else _from_tar)(raw):
                total += size
                if total > MAX_TOTAL:
                    raise UsageError(f"{file} unpacks to more than {MAX_TOTAL:,} bytes: get it anew")
                if read is not None and PurePosixPath(name).name in names:
                    _check_size(size, f"{file}: {name}")
                    yield Member(PurePosixPath(name), f"{file}: {name}", read(), raw.tell())
    except UsageError:
        raise
    except (*DAMAGE, ValueError) as error:
        raise UsageError(f"{file} cannot be read as an archive ({error}): get it again") from error


def tar_items(file: BufferedReader) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None]]:
    """Yield what is in a tar archive, each with its content if it is a file, in little memory.

    tarfile's own decompression copies the rest of what it has unpacked at every read: for 27 MB of xz, which
    unpack in pieces of 50 MB, minutes instead of seconds.
    """
    opener = opener_of(file)
    plain = file if opener is None else opener(file)
    with tarfile.open(fileobj=plain, mode="r|", tarinfo=BoundedInfo) as tar:
        for item in tar:
            tar.members.clear()  # type: ignore[attr-defined]  # else tarfile holds the whole table in memory
            yield item, tar.extractfile(item) if item.isfile() else None


_Found: TypeAlias = tuple[str, int, Callable[[], bytes] | None]
"""Name and size of what is in an archive, and what reads it if it is a file."""


def _from_tar(raw: BufferedReader) -> Iterator[_Found]:
    for item, content in tar_items(raw):
        yield item.name, item.size, None if content is None else content.read


def _from_zip(raw: BufferedReader) -> Iterator[_Found]:
    with zipfile.ZipFile(raw) as archive:
        for item in archive.infolist():
            yield item.filename, item.file_size, None if item.is_dir() else partial(archive.read, item)


class BoundedInfo(tarfile.TarInfo):
    """A member's header; what precedes it is read into memory, so that it must not be large."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Parse a header as `tarfile.TarInfo.frombuf` does, within limits."""
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


def _check_size(size: int, source: str) -> None:
    if size > MAX_MEMBER_SIZE:
        raise UsageError(f"{source} has {size:,} bytes, more than any game: remove it")
