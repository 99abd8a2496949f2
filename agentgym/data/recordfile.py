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
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from agentgym.errors import UsageError
from agentgym.io.files import make_folder, trouble, writing

_MARK = b"agentgym records 1\n"
_PLACE = struct.Struct("<QQ16s")
"""Where the table begins, its size, and the blake2b-128 of its bytes."""
_ALIGNED = 16
"""Columns begin at multiples of this."""


class RecordWriter:
    """Writes a file of records; nothing is there under its name before all of it is.

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
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        make_folder(path.parent)
        with writing(path):
            self._file: BinaryIO = self._draft.open("wb")
            self._end = self._file.write(_MARK)

    def __enter__(self) -> RecordWriter:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what was not finished."""
        with suppress(OSError):  # what is left in the buffer goes with the draft
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


class RecordFile:
    """A finished file of records. Safe to read from many threads and after a fork."""

    def __init__(self, path: Path):
        """Map the file."""
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise UsageError(f"cannot open {path}: {error.strerror}") from error
        except ValueError as error:  # an empty file cannot be mapped
            raise _damaged(path, "it is empty") from error
        table = self._read_table()
        self.about: Mapping[str, Any] = table["about"]
        self.columns: Mapping[str, npt.NDArray[Any]] = {
            name: np.frombuffer(self._map, dtype, count, offset)
            for name, (dtype, offset, count) in table["columns"].items()
        }

    def read(self, start: int, size: int) -> bytes:
        """Return a record at an offset, of a length."""
        return self._map[start : start + size]

    def _read_table(self) -> dict[str, Any]:
        if self._map[: len(_MARK)] != _MARK:
            raise _damaged(self.path, "it does not begin as one of this version")
        offset, size, digest = _PLACE.unpack(self._map[-_PLACE.size :])
        raw = self._map[offset : offset + size]
        if _digest(raw) != digest:
            raise _damaged(self.path, "its table is not what was written")
        table: dict[str, Any] = json.loads(raw)
        return table


def _damaged(path: Path, reason: str) -> UsageError:
    return UsageError(f"{path} is no whole file of records ({reason}): delete it and import the data again")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
