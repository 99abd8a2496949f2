"""Confinement: an audit hook that refuses what a box's job may not open, write or connect to."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import EACCES
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Places:
    """The folders and files of a job, by their full paths."""

    reads: Collection[str]
    """Links count by what they lead to."""
    writes: Collection[str]
    """The same."""
    strange: Collection[str]
    """Those of `reads` that may hold links of strangers."""
    trusted: Collection[str]
    """The user's, where links may lead anywhere."""
    code: Collection[str]
    """Where modules are looked for."""


_PLACES: list[Places] = []
"""Those of the job that is being done, if any."""


@contextmanager
def confined(places: Places) -> Iterator[None]:
    """Let `check_event`, which the process has as an audit hook, refuse all but some places."""
    _PLACES.append(places)
    try:
        yield
    finally:
        _PLACES.clear()


_READS = ("open", "os.listdir", "os.scandir", "sqlite3.connect")
_WRITES = {
    **dict.fromkeys(("os.chmod", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"), 1),
    **dict.fromkeys(("os.link", "os.rename", "os.symlink"), 2),
}
"""How many of the arguments are paths."""
_NEVER = ("socket.connect", "socket.getaddrinfo", "socket.sendto", "os.system", "os.exec")
_TO_WRITE = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CODE = (".py", ".pyc", ".so", ".pth")


def check_event(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse, as an audit hook, what a job may not do."""
    if not _PLACES:
        return
    if event in _READS:
        _check_path(event, arguments[0], writes=event == "open" and bool(arguments[2] & _TO_WRITE))
    for path in arguments[: _WRITES.get(event, 0)]:
        _check_path(event, path, writes=True)
    if event in _NEVER:
        raise PermissionError(EACCES, "verification may not do that", event)


def _check_path(event: str, path: Any, *, writes: bool) -> None:
    if isinstance(path, int) or path in (":memory:", os.devnull):  # which processes are started with
        return
    given, places = os.fsdecode("." if path is None else path), _PLACES[0]
    if event == "sqlite3.connect":
        given = given.removeprefix("file:").partition("?")[0]
    real = os.path.realpath(given)
    plain = real if ".." in Path(given).parts else os.path.abspath(given)  # .. leads elsewhere behind a link
    if below(real, places.writes if writes else places.reads):
        if os.path.exists(real) and stat.S_IFMT(os.stat(real).st_mode) not in (stat.S_IFREG, stat.S_IFDIR):
            raise PermissionError(EACCES, "it is no regular file", given)
    elif writes or below(plain, places.strange) or not below(plain, places.trusted):
        is_code = event != "open" or plain.endswith(_CODE)
        if writes or not is_code or not below(plain, places.code):
            reason = "verification opens nothing there unless --allow names the folder"
            raise PermissionError(EACCES, reason, given)


def below(path: str, roots: Collection[str]) -> bool:
    """Return whether a path is one of some, or lies below one."""
    return any(path == root or path.startswith(root.rstrip(os.sep) + os.sep) for root in roots)
