"""The folder of a site: written beside the old one, and put in its place when it is whole."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.io.files import make_folder, sole_writer, writing

STATIC = "static"
"""Folder of scripts and styles."""

MARKER = f"{STATIC}/site.css"
"""A file that every site has: a folder without it is not overwritten."""

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder for a site; at the end of the block it takes the place of the old one.

    An interruption of the block leaves the old site as it was, and the draft is removed, at the latest by the
    next build. Anything but a site at ``out`` is refused.
    """
    out = Path(os.path.abspath(out))
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise UsageError(
            f"{out} is no site, and is not overwritten: name an empty or a new folder with --out"
        )
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file: name a folder with --out")
    make_folder(out.parent)
    # a folder of its own for the lock and the draft: kept hidden beside the site, gone when it is done
    work = out.with_name(f".{out.name}.building")
    make_folder(work)
    with sole_writer(work):
        draft = work / "site"
        try:
            with writing(work):
                _remove(draft)
                draft.mkdir()
            yield draft
            with writing(out):
                _exchange(draft, out)
        finally:
            with writing(work):
                _remove(draft)
                work.rmdir()


def _exchange(new: Path, out: Path) -> None:
    """Put a folder in another's place: at once where the system can, and it is there."""
    if not out.exists():
        new.rename(out)
        return
    if _swap(new, out):
        return
    old = new.with_name("old")
    _remove(old)
    out.rename(old)
    new.rename(out)
    _remove(old)


def _swap(first: Path, second: Path) -> bool:
    """Exchange two folders in one step; False where the system has no such call."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL):  # the kernel or the file system has none
        return False
    raise OSError(number, os.strerror(number))


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)
