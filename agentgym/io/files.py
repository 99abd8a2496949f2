"""Writes that survive crashes and full disks: a journal of lines, and whole files replaced at once."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic, sleep, time
from typing import Self

from agentgym.errors import UsageError

SYNC_SECONDS = 1.0
"""Longest time until a finished line is on the disk, in seconds: a power cut loses at most that much."""


REMEDIES = {
    errno.ENOSPC: "free space, or choose another folder",
    errno.EDQUOT: "free space, or choose another folder",
    errno.EFBIG: "raise the limit of file sizes (`ulimit -f`), or free space",
    errno.EMFILE: "raise the limit of open files (`ulimit -n`)",
    errno.ENFILE: "end programs that hold many files open",
    errno.ENOENT: "make its folder first, or choose another",
    errno.ENOTDIR: "a file is where a folder should be: remove it, or choose another folder",
    errno.EEXIST: "a file is where a folder should be: remove it, or choose another folder",
}
"""Remedy for each system error; other errors lie in the path or its permissions."""


def trouble(error: OSError) -> str:
    """Return the description of a file error and its remedy, without the path."""
    if error.errno is None:  # numpy reports a short write without an errno
        return f"not all of it fits ({error}); free space, or raise the limit of file sizes (`ulimit -f`)"
    remedy = REMEDIES.get(error.errno, "choose a folder that can be written, or change its permissions")
    return f"{error.strerror or error}; {remedy}"


@contextlib.contextmanager
def writing(path: Path | str, advice: str = "") -> Iterator[None]:
    """Turn a block's `OSError` into a `UsageError` of one line that names the path and a remedy.

    ``advice``: a further remedy, for example another variable to set.
    """
    try:
        yield
    except OSError as error:
        more = f"; {advice}" if advice else ""
        raise UsageError(f"cannot write {path}: {trouble(error)}{more}") from error


@contextlib.contextmanager
def sole_writer(folder: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Hold a folder's lock, which ends with the process; a second holder is refused after ``patience``."""
    end = monotonic() + patience
    with writing(folder):
        fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while True:
            try:
                with writing(folder):
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except UsageError as error:
                if not isinstance(error.__cause__, BlockingIOError):
                    raise
                if monotonic() >= end:
                    raise UsageError(
                        f"another process is writing to {folder}; wait for it or end it"
                    ) from error
            sleep(min(1.0, patience))
        yield
    finally:
        os.close(fd)


class Journal:
    """An append-only file of lines; hold `sole_writer` of its folder.

    A line is one unbuffered ``write`` to a file opened with O_APPEND: once `append` returns, killing
    the process loses nothing, and lines reach the disk within `SYNC_SECONDS`. Opening cuts off half
    a line left by a crash.
    """

    def __init__(self, path: Path):
        """Open or create the file."""
        self.path = path
        with writing(path):
            self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            self._size = _trim(self._fd)
        self._sync_failure: str | None = None
        self._unsynced = threading.Event()
        self._closing = threading.Event()
        self._syncer = threading.Thread(target=self._sync_now_and_then, name="journal-sync", daemon=True)
        self._syncer.start()

    def append(self, line: str) -> None:
        """Write one line; where it does not fit, the file ends with the last line that did."""
        data = line.encode() + b"\n"
        try:
            written = os.write(self._fd, data)
            problem = "no space left, or the limit of file sizes reached (`ulimit -f`)"
        except OSError as error:
            written, problem = 0, error.strerror or str(error)
        if written != len(data):
            os.ftruncate(self._fd, self._size)
            raise self._full(problem)
        self._size += written
        self._unsynced.set()
        if self._sync_failure is not None:
            raise self._full(self._sync_failure)

    def sync(self) -> None:
        """Bring every line to the disk now."""
        self._sync()
        if self._sync_failure is not None:
            raise self._full(self._sync_failure)

    def close(self) -> None:
        """Bring everything to the disk and release the file."""
        self._closing.set()
        self._unsynced.set()
        self._syncer.join()
        self._sync()
        os.close(self._fd)
        if self._sync_failure is not None:
            raise self._full(self._sync_failure)

    def _sync_now_and_then(self) -> None:
        # waits for a line, lets others gather, then syncs them all; closing is set before unsynced, so
        # that this loop sees one of the two even after it has cleared the other
        while not self._closing.is_set():
            self._unsynced.wait()
            if not self._closing.wait(SYNC_SECONDS / 2):
                self._unsynced.clear()
                self._sync()

    def _sync(self) -> None:
        # an error of the syncing thread is raised by the next write
        try:
            os.fsync(self._fd)
        except OSError as error:
            self._sync_failure = error.strerror or str(error)

    def _full(self, problem: str) -> UsageError:
        return UsageError(
            f"cannot write {self.path}: {problem}; free some space and run the same command again, "
            "it goes on where it stopped"
        )

    def __enter__(self) -> Self:
        """Return the journal itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()


def replace_file(path: Path, content: str | bytes) -> None:
    """Write a whole file: readers and crashes see the old text or the new one, never a part.

    Where it cannot be written the old file stays.
    """
    replace_files({path: content})


def replace_files(contents: Mapping[Path, str | bytes]) -> None:
    """Write whole files, all or none: none takes its place before all are on the disk."""
    encoded = {path: text.encode() if isinstance(text, str) else text for path, text in contents.items()}
    drafts = {path: draft_of(path) for path in encoded}
    at = next(iter(encoded))
    try:
        for at, data in encoded.items():
            if at.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            with drafts[at].open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for at, draft in drafts.items():
            draft.replace(at)
    except OSError as error:
        for draft in drafts.values():
            with contextlib.suppress(OSError):
                draft.unlink()
        raise UsageError(f"cannot write {at}: {trouble(error)}") from error


def draft_of(path: Path) -> Path:
    """Return where this process writes what will be at ``path``; remove what a killed one left there.

    That is a day old, as a process of that number on another machine may still be writing.
    """
    start, old = f".{path.name}.", time() - 86_400
    with contextlib.suppress(OSError), os.scandir(path.parent) as found:
        for entry in found:
            number = entry.name.removeprefix(start).removesuffix(".tmp")
            if entry.name == f"{start}{number}.tmp" and number.isdecimal() and entry.stat().st_mtime < old:
                with contextlib.suppress(OSError, OverflowError):
                    _remove_of_dead(entry.path, int(number))
    return path.with_name(f"{start}{os.getpid()}.tmp")


def _remove_of_dead(draft: str, process: int) -> None:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        if os.path.isdir(draft) and not os.path.islink(draft):
            shutil.rmtree(draft)
        else:
            os.unlink(draft)


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, read block by block."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def make_folder(path: Path) -> None:
    """Make a folder and its parents."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make folder {path}: {trouble(error)}") from error


def _trim(fd: int) -> int:
    """Cut off what follows the last newline; return the size."""
    size = end = os.fstat(fd).st_size
    while end > 0:
        start = max(0, end - 65_536)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    if end != size:
        os.ftruncate(fd, end)
    return end
