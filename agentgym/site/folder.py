"""The folder of a site: written beside the old one and put in its place when it is whole; and its server."""

from __future__ import annotations

import ctypes
import errno
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.io.files import make_folder, sole_writer, writing
from agentgym.serving.http_server import HttpRequest, HttpResponse
from agentgym.site.rendering import POLICY

STATIC = "static"
"""Folder of scripts and styles."""

MARKER = f"{STATIC}/site.css"
"""File that every site has: a folder without it is not overwritten."""

_RENAME_EXCHANGE = 2
_AT_FDCWD = -100


TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".tex": "text/plain; charset=utf-8",
    ".png": "image/png",
    ".gif": "image/gif",
    ".svg": "image/svg+xml",
}
"""Media type of a site's files, by suffix."""

_PATH = re.compile(r"/(?:[a-zA-Z0-9_][a-zA-Z0-9_.-]*/)*(?:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?")
"""Pattern of a site's paths: no hidden file, no way up."""


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield an empty folder for a site; at the end of the block it takes the place of the old one.

    An interruption of the block leaves the old site as it was, and the draft is removed, at the latest by the
    next build. Anything but a site at ``out`` is refused.
    """
    out = Path(os.path.abspath(out))
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise UsageError(
            f"{out} is not a site, and is not overwritten: name an empty or a new folder with --out"
        )
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file: name a folder with --out")
    make_folder(out.parent)
    # a hidden folder beside the site for the lock and the draft, deleted when the site is in place
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
    """Replace a folder by another, atomically where both exist and the system can."""
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
    if number in (errno.ENOSYS, errno.EINVAL):  # the kernel or the file system has no exchange
        return False
    raise OSError(number, os.strerror(number))


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


class FolderSite:
    """Answers requests for the files of a site."""

    def __init__(self, folder: Path):
        """Take the folder of a site."""
        if not (folder / MARKER).is_file():
            raise UsageError(
                f"{folder} is not a site: build one with `agentgym site build RESULTS --out {folder}`"
            )
        self._folder = folder.resolve()

    def answer(self, request: HttpRequest) -> HttpResponse:
        """Return a file's response, or 404."""
        plain = {"Content-Type": "text/plain; charset=utf-8"}
        if request.method != "GET":
            return HttpResponse(405, b"pages are read, not written to\n", plain)
        path = self._find(request.path)
        if path is None:
            return HttpResponse(404, b"the site has no such file\n", plain)
        policy = f"{POLICY}; frame-ancestors 'none'"
        headers = {"Content-Type": TYPES[path.suffix], "Content-Security-Policy": policy}
        return HttpResponse(200, path.read_bytes(), headers)

    def _find(self, path: str) -> Path | None:
        if not _PATH.fullmatch(path):
            return None
        found = (self._folder / f"{path.removeprefix('/')}{'index.html' * path.endswith('/')}").resolve()
        inside = found.is_relative_to(self._folder)
        return found if inside and found.suffix in TYPES and found.is_file() else None
