"""Disk cache of slow functions of texts, shared by all processes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.io.files import make_folder
from agentgym.io.paths import CACHE_VARIABLE

WAIT = 60.0
"""Seconds to wait for another process that writes."""


class TextMemo:
    """A function of a text that asks the disk before it computes. Safe in threads and after a fork.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "words.sqlite"
        >>> TextMemo(path, lambda text: tuple(text.split()))("two words")
        ('two', 'words')
        >>> TextMemo(path, lambda text: ())("two words")
        ('two', 'words')
    """

    def __init__(self, path: Path, compute: Callable[[str], tuple[str, ...]]):
        """Cache the results of ``compute`` in a file that belongs to this function alone."""
        self._path = path
        self._compute = compute
        try:
            make_folder(path.parent)
            with closing(self._open()) as table, table:
                table.execute("CREATE TABLE IF NOT EXISTS answers (text TEXT PRIMARY KEY, answer TEXT)")
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def __call__(self, text: str) -> tuple[str, ...]:
        """Return the answer."""
        key = json.dumps(text)  # SQLite refuses half of a surrogate pair, which JSON files may have
        row = self._execute("SELECT answer FROM answers WHERE text = ?", (key,))
        if row is not None:
            return tuple(json.loads(row[0]))
        answer = self._compute(text)
        self._execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, json.dumps(answer)))
        return answer

    def _execute(self, statement: str, values: tuple[str, ...]) -> tuple[str] | None:
        try:
            with closing(self._open()) as table, table:
                return table.execute(statement, values).fetchone()  # type: ignore[no-any-return]
        except sqlite3.Error as error:
            raise self._refusal(error) from error

    def _refusal(self, error: sqlite3.Error) -> UsageError:
        return UsageError(
            f"cannot keep answers in {self._path} ({error}): free space, delete it, or set "
            f"{CACHE_VARIABLE} to a folder that can be written"
        )

    def _open(self) -> sqlite3.Connection:
        """Open the file: for each question anew, since connections live in one thread and process."""
        return sqlite3.connect(self._path, timeout=WAIT)
