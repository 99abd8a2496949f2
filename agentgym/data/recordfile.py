"""Millions of records in one file, with columns of numbers: opened at once, read one by one.

The file is a mark, the records, the columns, a table of the columns in JSON, and the table's place. It is
mapped into memory, so that what is read often stays there, and all processes share it.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
from array import array
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Self, TypeVar

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.io.files import draft_of, make_folder, trouble, writing
from agentgym.io.untrusted import open_regular

Opened = TypeVar("Opened")

_MARK = b"agentgym records 1\n"
_PLACE = struct.Struct("<QQ16s")
"""Layout of the trailer: start of the table, its size, and the blake2b-128 of its bytes."""
_ALIGNED = 16
"""Alignment of columns, in bytes."""


class RecordWriter:
    """Writer of a record file, which appears under its name only when complete.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "two.records"
        >>> with RecordWriter(path) as writer:
        ...     starts = [writer.add(b"first"), writer.add(b"second")]
        ...     writer.finish({"starts": np.array(starts)}, {"about": "two records"})
        >>> file = RecordFile(path)
        >>> file.read(int(file.columns["starts"][1]), 6), file.about
        (b'second', {'about': 'two records'})
    """

    def __init__(self, path: Path):
        """Begin a file that will be at ``path``."""
        self._path = path
        self._draft = draft_of(path)
        make_folder(path.parent)
        with writing(path):
            self._file: BinaryIO = self._draft.open("wb")
            self._end = self._file.write(_MARK)

    def __enter__(self) -> RecordWriter:
        """Return the writer."""
        return self

    def __exit__(self, *error: object) -> None:
        """Remove what was not finished."""
        with suppress(OSError):  # the buffered rest is discarded with the draft
            self._file.close()
        self._draft.unlink(missing_ok=True)

    def add(self, record: bytes) -> int:
        """Append a record; return where it begins."""
        start = self._end
        try:
            self._end += self._file.write(record)
        except OSError as error:
            raise UsageError(f"cannot write {self._path}: {trouble(error)}") from error
        return start

    def finish(self, columns: Mapping[str, npt.NDArray[Any]], about: Mapping[str, Any]) -> None:
        """Append the one-dimensional columns and JSON values, and put the file in its place."""
        table: dict[str, Any] = {"about": dict(about), "columns": {}}
        for name, column in columns.items():
            self.add(bytes(-self._end % _ALIGNED))
            table["columns"][name] = [column.dtype.str, self.add(column.tobytes()), len(column)]
        raw = json.dumps(table).encode()
        place = _PLACE.pack(self._end, len(raw), _digest(raw))
        with writing(self._path):
            self._file.write(raw + place)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._draft.replace(self._path)


class NumberedRecords:
    """Records that a writer appends and that are read by number, see `RecordFile.record`."""

    def __init__(self, writer: RecordWriter, name: str = "", *, sizes: npt.DTypeLike = np.int32):
        """Begin with none; ``name`` begins the names of their columns, ``sizes`` is the type of one."""
        self._writer, self._name, self._type = writer, name, sizes
        self._starts, self._sizes = array("q"), array("q")

    def __len__(self) -> int:
        """Number of records so far."""
        return len(self._starts)

    def add(self, record: bytes) -> int:
        """Append a record; return its number."""
        self._starts.append(self._writer.add(record))
        self._sizes.append(len(record))
        return len(self._starts) - 1

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """Return where they begin and how long they are."""
        starts, sizes = np.array(self._starts, np.int64), np.array(self._sizes, self._type)
        return {f"{self._name}starts": starts, f"{self._name}sizes": sizes}


class StoreWriter:
    """Base of writers of stores, which appear under their names only when complete."""

    def __init__(self, path: Path):
        """Begin a store that will be at ``path``."""
        self._file = RecordWriter(path)

    def __enter__(self) -> Self:
        """Return the writer."""
        return self

    def __exit__(self, *error: object) -> None:
        """Remove what was not finished."""
        self._file.__exit__(*error)


def sorted_keys(
    keys: Sequence[str], repeated: Callable[[str], str]
) -> tuple[npt.NDArray[np.bytes_], npt.NDArray[np.int32]]:
    """Return keys in the order of their bytes, and the number of each: what `RecordFile.find` looks in.

    Two equal keys are a `UsageError` with the message ``repeated(key)``.
    """
    raw = np.array([_encoded(key) for key in keys] or [b""], np.bytes_)[: len(keys)]
    order = np.argsort(raw, kind="stable")
    ordered = raw[order]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        raise UsageError(repeated(keys[order[twice[0]]]))
    return ordered, order.astype(np.int32)


class RecordFile:
    """A finished file of records. Safe to read from many threads and after a fork."""

    def __init__(self, path: Path, form: str | None = None, holds: str = ""):
        """Map the file; UsageError where its ``format`` is not ``form``, a version of what it ``holds``."""
        self.path = path
        try:
            with open_regular(path) as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UsageError(f"cannot open {path}: {error.strerror}") from error
        except UsageError:
            raise
        except ValueError as error:  # an empty file cannot be mapped
            raise _damaged(path, "it is empty") from error
        if self._map[: len(_MARK)] != _MARK:
            raise _damaged(self.path, "it does not begin as one of this version")
        offset, size, digest = _PLACE.unpack(self._map[-_PLACE.size :])
        raw = self._map[offset : offset + size]
        if _digest(raw) != digest:
            raise _damaged(self.path, "its table is not what was written")
        table: dict[str, Any] = json.loads(raw)
        self.about: Mapping[str, Any] = table["about"]
        self.columns: Mapping[str, npt.NDArray[Any]] = {
            name: np.frombuffer(self._map, dtype, count, offset)
            for name, (dtype, offset, count) in table["columns"].items()
        }

        if form is not None and self.about.get("format") != form:
            raise UsageError(
                f"{path} is not a store of {holds} of this version: delete it and import the data again"
            )

    def read(self, start: int, size: int) -> bytes:
        """Return a record at an offset, of a length."""
        return self._map[start : start + size]

    def record(self, number: int, name: str = "") -> bytes:
        """Return one of the `NumberedRecords` of a name."""
        return self.read(
            int(self.columns[f"{name}starts"][number]), int(self.columns[f"{name}sizes"][number])
        )

    def find(self, key: str, keys: str, order: str) -> int | None:
        """Return the number of a key by two columns of `sorted_keys`; None where it is not among them."""
        column, raw = self.columns[keys], _encoded(key)
        place = int(column.searchsorted(np.bytes_(raw)))
        return int(self.columns[order][place]) if place < len(column) and column[place] == raw else None


def open_unchanged(path: Path, holds: str, kind: Callable[..., Opened], **options: Any) -> Opened:
    """Return ``kind(path, **options)``, one object as long as the file stays the same.

    ``holds``: what is in the file, for messages.
    """
    opened: Opened = _opened(kind, path, stamp_of(path, holds), **options)
    return opened


def stamp_of(path: Path, holds: str) -> tuple[int, ...]:
    """Return what tells a file from another at its path: size, time of change, and inode."""
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"cannot open the {holds} {path}: {error.strerror}") from error
    return status.st_size, status.st_mtime_ns, status.st_ino


@lru_cache(maxsize=32)
def _opened(kind: Callable[..., Any], path: Path, stamp: tuple[int, ...], **options: Any) -> Any:
    return kind(path, **options)


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def _damaged(path: Path, reason: str) -> UsageError:
    return UsageError(f"{path} is incomplete ({reason}): delete it and import the data again")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
