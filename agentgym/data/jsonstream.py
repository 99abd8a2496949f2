"""A streaming reader of JSON files of any size, packed ones too: one value at a time, with its line.

Values are those of Python's own ``json``, which the original of each data set was read with. ``ijson`` is no
slower, but its parser in C turns half of a surrogate pair into a question mark, which changes texts and with
them states and hashes, and it knows no lines.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn, TextIO

from agentgym.data.packed import open_packed
from agentgym.errors import UsageError

CHUNK = 1 << 20
"""Characters read at a time."""

MAX_RECORD_LENGTH = 16 * CHUNK
"""Most characters of one value; a longer one counts as broken."""

_BLANK = re.compile(r"\s*")

Watch = Callable[[int], None]
"""Callback that gets the number of bytes read so far, after decompression."""


def unwatched(read: int) -> None:
    """Watch nothing."""


def read_records(path: Path, watch: Watch = unwatched, name: str = "") -> Iterator[tuple[str, Any]]:
    """Read the objects of a JSON array, or of JSON lines, one at a time, each with its ``FILE:LINE``.

    ``name``: that of the file within an archive, as `open_packed` takes it.
    """
    with _scanner(path, watch, name) as scanner:
        if scanner.peek() == "[":
            yield from _array(scanner)
        while scanner.peek():
            yield scanner.where, scanner.value("{")


def read_entries(path: Path, watch: Watch = unwatched) -> Iterator[tuple[str, str, Any]]:
    """Read the entries of one JSON object, one at a time: ``FILE:LINE``, key, and an object or a list."""
    with _scanner(path, watch) as scanner:
        scanner.take("{")
        while scanner.peek() != "}":
            where, key = scanner.where, scanner.value('"')
            scanner.take(":")
            yield where, key, scanner.value("{[")
            if scanner.peek() != "}":
                scanner.take(",")
        scanner.take("}")


def _array(scanner: _Scanner) -> Iterator[tuple[str, Any]]:
    scanner.take("[")
    while scanner.peek() != "]":
        yield scanner.where, scanner.value("{")
        if scanner.peek() != "]":
            scanner.take(",")
    scanner.take("]")


@contextmanager
def _scanner(path: Path, watch: Watch, name: str = "") -> Iterator[_Scanner]:
    """Open a file; errors name the defect."""
    try:
        with open_packed(path, name) as raw:
            scanner = _Scanner(io.TextIOWrapper(raw, encoding="utf-8-sig"), path, watch)
            yield scanner
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{scanner.where} or below: not UTF-8 text ({error.reason})") from error


class _Scanner:
    """A place in a file, of which as much is in memory as the value there needs."""

    def __init__(self, file: TextIO, path: Path, watch: Watch):
        self._file = file
        self._path = path
        self._watch = watch
        self._decode = json.JSONDecoder().raw_decode
        self._text = ""
        self._at = 0
        self._line = 1

    @property
    def where(self) -> str:
        """The place's name in messages."""
        return f"{self._path}:{self._line}"

    def peek(self) -> str:
        """Return the next character that is not blank; nothing at the end of the file."""
        while True:
            self._move(_BLANK.match(self._text, self._at).end())  # type: ignore[union-attr]  # always matches
            if self._at < len(self._text) or not self._more():
                return self._text[self._at : self._at + 1]

    def take(self, character: str) -> None:
        """Go past a character that must come next."""
        if self.peek() != character:
            self._fail(f"expected {character!r}")
        self._at += 1

    def value(self, beginnings: str) -> Any:
        """Go past the value that comes next, which must begin with one of some characters."""
        if self.peek() not in beginnings or not self.peek():
            self._fail(f"expected a JSON {_KINDS[beginnings]}")
        while True:
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                if len(self._text) - self._at > MAX_RECORD_LENGTH or not self._more():
                    self._fail(f"not whole JSON ({error.msg})")
            except (ValueError, RecursionError):  # a number too long; nesting too deep
                self._fail("JSON that is nested too deep, or has too long a number")
            else:
                self._move(end)
                return value

    def _more(self) -> bool:
        """Read on; return whether there was more."""
        chunk = self._file.read(CHUNK)
        self._text = self._text[self._at :] + chunk
        self._at = 0
        self._watch(self._file.buffer.tell())
        return bool(chunk)

    def _move(self, end: int) -> None:
        self._line += self._text.count("\n", self._at, end)
        self._at = end

    def _fail(self, problem: str) -> NoReturn:
        found = repr(self._text[self._at : self._at + 20]) if self.peek() else "the end of the file"
        raise UsageError(f"{self.where}: {problem}, got {found}")


_KINDS = {"{": "object", '"': "string", "{[": "object or list"}
