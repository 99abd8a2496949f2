"""Answers of endpoints in an SQLite file, by the sha256 of the request.

Values are JSON. Several processes may share a file, and a kill loses no answer that was returned: it is
committed first. The file is in WAL mode, which needs a local disk.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import threading
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentgym.endpoint.chat import ChatReply
from agentgym.endpoint.errors import ContentFilteredError, ContextOverflowError, RequestFailedError
from agentgym.errors import UsageError
from agentgym.io.files import writing
from agentgym.io.records import parse
from agentgym.io.untrusted import loads_json

CacheMode: TypeAlias = Literal["off", "read", "write", "replay-only"]
"""``off``: no cache. ``read``: cached answers; others are requested and not stored. ``write``: cached
answers; others are requested and stored. ``replay-only``: cached answers and no others."""

SCHEMA = 1
"""Version of the file's format, its ``user_version``."""

_APPLICATION = 0x61676570
_BUSY_SECONDS = 30.0
_TABLE = "CREATE TABLE answers (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
_STORED_FIELDS = tuple(field.name for field in fields(ChatReply) if field.name not in ("cost", "from_cache"))
_REFUSALS: Mapping[str, type[RequestFailedError]] = {
    failed.__name__: failed for failed in (ContentFilteredError, ContextOverflowError)
}
"""Errors stored in place of an answer, so that a replay fails where the run did."""

_INHERITED: list[sqlite3.Connection] = []
"""Connections of a parent process: neither used nor closed, since closing would release its locks."""


class AnswerCache:
    """A file of answers. Each connection is used by one thread at a time: one reads, one writes."""

    def __init__(self, path: Path, *, writable: bool):
        """Open the file; create it if it is writable."""
        self.path = path
        self._writable = writable
        self._process = 0
        self._reader: sqlite3.Connection
        self._writer: sqlite3.Connection | None = None
        self._open()

    def find(self, key: str) -> Mapping[str, Any] | None:
        """Return the value stored under a key; None without one."""
        self._reopen_after_fork()
        try:
            row = self._reader.execute("SELECT value FROM answers WHERE key = ?", (key,)).fetchone()
        except sqlite3.Error as error:
            raise self._broken(error) from error
        if row is None:
            return None
        value = loads_json(row[0], f"{self.path}: the answer {key[:12]}")
        if not isinstance(value, dict):
            raise UsageError(
                f"{self.path}: the answer {key[:12]} is not an object; remove the file, or get it again"
            )
        return value

    def keep(self, key: str, value: Mapping[str, Any]) -> None:
        """Commit a value under a key; an existing value stays."""
        self._reopen_after_fork()
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
        if self._writer is None:
            raise UsageError(f"{self.path} was opened to be read: open it with the mode 'write'")
        try:
            self._writer.execute("INSERT OR IGNORE INTO answers VALUES (?, ?)", (key, text))
        except sqlite3.Error as error:
            raise self._broken(error) from error

    def close(self) -> None:
        """Close the file."""
        if self._process == os.getpid():
            self._reader.close()
            if self._writer is not None:
                self._writer.close()

    def _reopen_after_fork(self) -> None:
        if self._process != os.getpid():
            _INHERITED.extend(each for each in (self._reader, self._writer) if each is not None)
            self._open()

    def _open(self) -> None:
        if not self._writable and not self.path.is_file():
            raise UsageError(
                f"there is no cache {self.path}: run with the cache mode 'write' first, or name another"
            )
        self._process = os.getpid()
        with contextlib.ExitStack() as undo:
            try:
                self._writer = None
                if self._writable:
                    if not self.path.exists():
                        with writing(self.path):
                            _make(self.path)
                    self._writer = _connect(self.path)
                    undo.callback(self._writer.close)
                    self._writer.execute("PRAGMA synchronous = NORMAL")
                self._reader = _connect(self.path)
                undo.callback(self._reader.close)
                self._check()
            except sqlite3.Error as error:
                raise self._broken(error) from error
            undo.pop_all()

    def _check(self) -> None:
        application = self._reader.execute("PRAGMA application_id").fetchone()[0]
        version = self._reader.execute("PRAGMA user_version").fetchone()[0]
        if (application, version) != (_APPLICATION, SCHEMA):
            raise UsageError(f"{self.path} is not a cache of answers of schema {SCHEMA}: name another file")

    def _broken(self, error: sqlite3.Error) -> UsageError:
        return UsageError(
            f"cannot use the cache {self.path}: {error}; free space, wait for whoever holds it, or name "
            "another file"
        )


def value_of(reply: ChatReply, day: str) -> dict[str, Any]:
    """Return a reply as a JSON value, with the day of its answer; what depends on the session is left out."""
    table: dict[str, Any] = {name: getattr(reply, name) for name in _STORED_FIELDS}
    table["tool_calls"] = [asdict(call) for call in reply.tool_calls]
    return {"reply": table, "when": day}


def refusal_of(error: BaseException) -> dict[str, str] | None:
    """Return an error as a JSON value, where an equal request would meet it again; else None."""
    name = type(error).__name__
    return {"refused": name, "why": str(error)} if name in _REFUSALS else None


def reply_of(value: Mapping[str, Any]) -> tuple[ChatReply, str]:
    """Return the reply and the day of `value_of`; raise the `RequestFailedError` of `refusal_of`."""
    if set(value) == {"refused", "why"}:
        failed = _REFUSALS.get(str(value["refused"]))
        if failed is not None:
            raise failed(str(value["why"]))
    if set(value) != {"reply", "when"} or not isinstance(value["when"], str):
        raise UsageError("the cache has something else than a reply under a reply's key: get it again")
    return parse(ChatReply, value["reply"], "the cache"), value["when"]


def _connect(path: Path) -> sqlite3.Connection:
    # a reader of a WAL file writes to its index too; isolation None: each statement is a transaction
    return sqlite3.connect(path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)


def _make(path: Path) -> None:
    """Make a file with an empty table, unless there is a file; others see none or a whole one."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    draft.unlink(missing_ok=True)
    try:
        with contextlib.closing(_connect(draft)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_TABLE)
            connection.execute(f"PRAGMA application_id = {_APPLICATION}")
            connection.execute(f"PRAGMA user_version = {SCHEMA}")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink(missing_ok=True)
