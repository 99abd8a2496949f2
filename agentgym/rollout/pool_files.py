"""Files of a data pool: segments of lines that are appended for good, and an index that follows them."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

from agentgym.errors import UsageError
from agentgym.io.files import Journal, make_folder, writing
from agentgym.rollout.pool_index import LinePlace, PoolChange, PoolIndex, StoredLine
from agentgym.rollout.stored_episode import (
    MAX_LINE,
    StoredEpisode,
    make_line,
    parse_body,
    read_lines,
    split_line,
)

INDEX = "index.sqlite"
EPISODES = "episodes"
"""Folder of the segments, which are named ``000000.jsonl`` and so on."""
SEGMENT_SIZE = 256 << 20
"""Bytes after which another segment is begun."""


class PoolFiles:
    """The folder of a pool; processes and threads use it one at a time.

    A process that was killed, a power cut or a deleted index loses no line that `append` has returned for:
    the next call reads on in the segments from where the index ends.
    """

    def __init__(self, folder: Path):
        """Open the folder, or make it."""
        self._segments = folder / EPISODES
        self._path = folder / INDEX
        self._index: PoolIndex | None = None
        self._threads = Lock()
        make_folder(self._segments)
        with writing(folder):
            self._lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def close(self) -> None:
        """Release the files."""
        with self._threads:
            if self._index is not None:
                self._index.close()
            if self._lock >= 0:
                os.close(self._lock)
            self._index, self._lock = None, -1

    @contextmanager
    def locked(self) -> Iterator[PoolIndex]:
        """Hold the folder, with an index that is up to date, in one transaction of it."""
        with self._threads:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            try:
                index = self._up_to_date()
                with index.transaction():
                    yield index
            except sqlite3.Error as error:
                raise UsageError(f"cannot use {self._path}: {error}; free space, or remove it") from error
            finally:
                fcntl.flock(self._lock, fcntl.LOCK_UN)

    def append(self, index: PoolIndex, line: str) -> LinePlace:
        """Bring a line to the disk; return where it is."""
        known = index.segments()
        name = max(known, default="000000.jsonl")
        size, lines = known.get(name, (0, 0))
        if size >= SEGMENT_SIZE:
            name, size, lines = f"{int(name.partition('.')[0]) + 1:06d}.jsonl", 0, 0
        with Journal(self._segments / name) as journal:  # cuts off half a line that a killed process has left
            journal.append(line)
        if not size:
            _sync_folder(self._segments)
        return LinePlace(name, size, len(line.encode()), lines + 1)

    def change(self, index: PoolIndex, change: PoolChange) -> None:
        """Write down a change and carry it out."""
        index.apply(change, self.append(index, make_line("change", asdict(change))))

    def read(self, lines: Sequence[StoredLine]) -> Iterator[dict[str, Any]]:
        """Yield the records of episodes."""
        with ExitStack() as stack:
            files: dict[str, BinaryIO] = {}
            for line in lines:
                place, path = line.place, self._segments / line.place.segment
                try:
                    if place.segment not in files:
                        files[place.segment] = stack.enter_context(path.open("rb"))
                    files[place.segment].seek(place.offset)
                    _, body, name = split_line(files[place.segment].read(place.length))
                    if name != line.id:
                        raise ValueError("it is another line than it was")
                except (OSError, ValueError) as error:
                    raise UsageError(
                        f"{path}, line {place.line}: {error}; put back a copy of the file, or drop group "
                        f"{line.group}"
                    ) from error
                yield json.loads(body)

    # ---- inside -----------------------------------------------------------------------------

    def _up_to_date(self) -> PoolIndex:
        """Return the index of all that the segments hold; it is made anew where it does not fit them."""
        try:
            self._index = self._index or PoolIndex(self._path)
            self._catch_up(self._index)
        except sqlite3.OperationalError:
            raise  # nothing is wrong with what it says
        except sqlite3.DatabaseError:
            if self._index is not None:
                self._index.close()
            for end in ("", "-wal", "-shm"):
                with writing(self._path):
                    self._path.with_name(INDEX + end).unlink(missing_ok=True)
            self._index = PoolIndex(self._path)
            self._catch_up(self._index)
        return self._index

    def _catch_up(self, index: PoolIndex) -> None:
        """Read the lines that other processes have appended, or one that was killed in between."""
        known = index.segments()
        sizes = {path: path.stat().st_size for path in sorted(self._segments.glob("[0-9]*.jsonl"))}
        done = {path: known.pop(path.name, (0, 0)) for path in sizes}
        if known or any(size < done[path][0] for path, size in sizes.items()):
            raise sqlite3.DatabaseError("segments were removed or cut off")
        for path, size in sizes.items():
            if size > done[path][0]:
                with index.transaction():
                    _take_lines(index, path, *done[path])


def _take_lines(index: PoolIndex, path: Path, size: int, number: int) -> None:
    """Take over the lines of a segment that follow those which are in the index."""
    try:
        for start, line in read_lines(path, size):
            number += 1
            if not line.endswith(b"\n"):
                if len(line) == MAX_LINE:
                    raise ValueError(f"it has more than {MAX_LINE:,} bytes")
                break  # a killed process has left it, and the next line takes its place
            kind, body, name = split_line(line[:-1])
            place = LinePlace(path.name, start, len(line) - 1, number)
            if kind == "change":
                index.apply(parse_body(PoolChange, body), place)
                continue
            record = parse_body(StoredEpisode, body)
            if (reason := index.conflict(record)) and index.about(name) is None:
                raise ValueError(f"group {record.group} does not take the episode: {reason}")
            index.insert(name, record, place)
    except (ValueError, OSError) as error:
        raise UsageError(
            f"{path}, line {number}: {error}; put back a copy of the file, or remove the line and {INDEX}"
        ) from error


def _sync_folder(folder: Path) -> None:
    """Bring the names of files to the disk."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
