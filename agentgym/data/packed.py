"""One file of JSON out of what it is packed in: gzip, xz, bzip2, tar or zip, known by content, and streamed.

A path may lead into a zip archive: ``data.zip/data/dev.json`` is its member ``data/dev.json``.
"""

from __future__ import annotations

import io
import os
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from agentgym.data.archives import DAMAGE, is_zip, opener_of, tar_items
from agentgym.errors import UsageError
from agentgym.io.files import draft_of, writing
from agentgym.io.untrusted import open_regular

MAX_RATIO = 250
"""Most bytes that one packed byte may unpack to; in published files it is up to 10."""

UNBOUNDED = 64 << 20
"""Bytes that any file may unpack to, however small it is."""

CORPUS = "corpus.jsonl"
"""Member that is read where an archive holds several, as BEIR's do."""

_BLOCK = 1 << 20


@contextmanager
def open_packed(path: Path, name: str = "") -> Iterator[io.BufferedReader]:
    """Open a file, unpacked as it is read; content tells how it is packed, its name does not.

    An archive must hold one JSON file, or one called ``name`` or `CORPUS`. `UsageError` for a damaged or
    hostile archive; `OSError` where the file cannot be opened.
    """
    file, member = archive_of(path)
    with _opened(file) as (raw, archive):
        if archive is not None:
            if member and member not in archive.namelist():
                raise UsageError(f"{file} has no file {member!r:.80}: get it again")
            item = archive.getinfo(member or _choose(list(_documents(archive, file)), name, file))
            with archive.open(item) as stream:
                yield _counted(stream, item.compress_size, path)
        elif _is_tar(_unpacked(raw, file)):
            yield from _from_tar(_unpacked(raw, file), name, file)
        else:
            yield _unpacked(raw, file)


def unpack(path: Path, target: Path) -> Path:
    """Return a file that can be read at any place: ``path``, or ``target`` with what it is packed in it."""
    try:
        with open_regular(path) as raw:
            if not (is_zip(raw) or opener_of(raw) or _is_tar(raw)):
                return path
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; name a file that is there") from error
    draft = draft_of(target)
    try:
        with writing(target), open_packed(path) as source, draft.open("wb") as copy:
            shutil.copyfileobj(source, copy, _BLOCK)
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return target


def members_of(archive: Path) -> Iterator[Path]:
    """Yield the paths of the JSON files in a zip archive; none where it is no such archive."""
    with _opened(archive) as (_, opened):
        if opened is not None:
            yield from (archive / name for name in _documents(opened, archive))


def archive_of(path: Path) -> tuple[Path, str]:
    """Return the file that a path leads to or into, and the member's name; empty for the file itself."""
    for parent in path.parents if not path.exists() else ():
        if parent.is_file():
            return parent, path.relative_to(parent).as_posix()
    return path, ""


def stored_size(path: Path) -> int:
    """Return the bytes of a file, or of a member as it is unpacked."""
    file, member = archive_of(path)
    with _opened(file) as (_, archive):
        return archive.getinfo(member).file_size if archive and member else file.stat().st_size


class _Counted(io.RawIOBase):
    """A stream that is unpacked, within `MAX_RATIO`; it knows its place, and cannot be moved in."""

    def __init__(self, stream: io.BufferedIOBase, limit: int, path: Path):
        self._stream, self._limit, self._path = stream, limit, path
        self._done = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._stream.readinto(buffer)
        self._done += count
        if self._done > self._limit:
            raise UsageError(f"{self._path} unpacks to over {MAX_RATIO} times its size: it is no text")
        return count

    def tell(self) -> int:
        return self._done


def _counted(stream: Any, packed: int, path: Path) -> io.BufferedReader:
    return io.BufferedReader(_Counted(stream, max(UNBOUNDED, MAX_RATIO * packed), path), _BLOCK)


def _unpacked(raw: io.BufferedReader, path: Path) -> io.BufferedReader:
    raw.seek(0)
    opener = opener_of(raw)
    return raw if opener is None else _counted(opener(raw), os.fstat(raw.fileno()).st_size, path)


def _is_tar(stream: io.BufferedReader) -> bool:
    return stream.read(tarfile.BLOCKSIZE)[257:262] == b"ustar"


def _from_tar(stream: io.BufferedReader, name: str, path: Path) -> Iterator[io.BufferedReader]:
    """Yield the one document of a tar archive; what follows it is looked at once it has been read."""
    found: list[str] = []
    for item, content in tar_items(stream):
        if _is_document(item.name, path, is_link=item.issym() or item.islnk()) and content is not None:
            found.append(item.name)
            if len(found) > 1:
                break
            # a stream of tarfile cannot be wrapped by TextIOWrapper: it is not known to be seekable
            yield _counted(content, item.size, path)
            if PurePosixPath(item.name).name in (name, CORPUS):
                return
    _choose(found, name, path)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[io.BufferedReader, zipfile.ZipFile | None]]:
    """Open a file, and as an archive if it is a zip; what is damaged is a `UsageError`."""
    try:
        with open_regular(path) as raw, ExitStack() as stack:
            yield raw, stack.enter_context(_open_zip(raw)) if is_zip(raw) else None
    except UsageError:
        raise
    except DAMAGE as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise UsageError(f"cannot read {path}: {error}; get it again whole") from error


def _open_zip(raw: io.BufferedReader) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(raw)
    except ValueError as error:  # a name that is no text, a number that is out of range
        raise zipfile.BadZipFile(str(error)) from error


def _documents(archive: zipfile.ZipFile, path: Path) -> Iterator[str]:
    for item in archive.infolist():
        is_link = stat.S_ISLNK(item.external_attr >> 16)
        if _is_document(item.filename, path, is_link=is_link) and not item.is_dir():
            yield item.filename


def _is_document(name: str, path: Path, *, is_link: bool) -> bool:
    """Return whether a member is a JSON file, and not one that macOS adds; refuse a link or a way out."""
    member = PurePosixPath(name)
    if member.is_absolute() or ".." in member.parts or (is_link and member.suffix in (".json", ".jsonl")):
        raise UsageError(f"{path}: the member {name!r:.80} leads elsewhere: get the archive again")
    own = "__MACOSX" in member.parts or member.name.startswith("._")
    return member.suffix in (".json", ".jsonl") and not own


def _choose(names: Sequence[str], name: str, path: Path) -> str:
    for wanted in (name, CORPUS):
        if named := [each for each in names if PurePosixPath(each).name == wanted]:
            names = named
            break
    if len(names) != 1:
        found = ", ".join(sorted(names)[:3]) or "no .json or .jsonl file"
        raise UsageError(f"{path} holds {found:.200}, not one file: unpack it, and name the file")
    return names[0]
