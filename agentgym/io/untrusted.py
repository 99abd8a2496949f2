"""Untrusted files, text, JSON and TOML: read within limits, refused in one line.

Only regular files are read, so that nothing waits for a pipe or reads a device without an end. Depth, digits
and size are bounded before a parser sees the text, so that neither nesting nor a long number ends in a
traceback, and no text takes more than linear time. In JSON repeated keys, NaN and infinities are refused too,
which programs read differently, and halves of surrogate pairs, which no file can hold.
"""

from __future__ import annotations

import codecs
import json
import math
import os
import re
import stat
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import Any, Literal

from agentgym.errors import UsageError

MAX_DEPTH = 64
"""Deepest nesting of arrays and objects; in TOML, also the most parts of a dotted key."""

MAX_DIGITS = 40
"""Most characters of a number."""

MAX_FILE_SIZE = 64 << 20
"""Largest size of a JSON file, in bytes."""

MAX_LINES_SIZE = 4 << 30
"""Largest size of a file of JSON lines, in bytes."""

MAX_LINE = 1 << 30
"""Largest size of a line that is read by itself, in bytes."""

MAX_TOML_SIZE = 1 << 20
"""Largest size of a TOML file, in bytes."""

_HALF_CHARACTER = re.compile(r"\\u[dD][89a-fA-F]|[\ud800-\udfff]")
_LONG_NUMBER = re.compile(rf"[0-9][0-9+.eE-]{{{MAX_DIGITS},}}")
_JSON_PIECE = re.compile(rf'"(?:[^"\\]|\\.)*+"?|[\[{{]|[\]}}]|-?[0-9][0-9+.eE-]{{{MAX_DIGITS},}}', re.DOTALL)
_TOML_PIECE = re.compile(
    r"#[^\n]*"
    r'|"""(?:[^"\\]|\\.|"(?!""))*+(?:"{3,5})?'
    r"|'''(?:[^']|'(?!''))*+(?:'{3,5})?"
    r'|"(?:[^"\\\n]|\\.)*+"?'
    r"|'[^'\n]*+'?"
    r"|[\[{]|[\]}]|[.,=\n]"
    rf"|(?<![\w.-])[+-]?(?:0x[0-9A-Fa-f_]{{{MAX_DIGITS},}}|0o[0-7_]{{{MAX_DIGITS},}}|0b[01_]{{{MAX_DIGITS},}}"
    rf"|[0-9][0-9_]{{{MAX_DIGITS},}})",
    re.DOTALL,
)


def read_file(path: Path, *, largest: int = MAX_FILE_SIZE, remedy: str = "get it again whole") -> bytes:
    """Read a regular file of at most ``largest`` bytes, or what a link to one names.

    Folders, pipes, sockets and devices are refused; ``remedy`` ends the message.
    """
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            if size > largest:
                raise UsageError(f"{path} is larger than the {largest:,} bytes that are read; {remedy}")
            return file.read(size)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; {remedy}") from error


def read_text(path: Path, *, largest: int = MAX_FILE_SIZE, remedy: str = "get it again whole") -> str:
    """Read a user's text, as `read_file`; the byte order mark that Windows puts before it is left out.

    ``remedy`` ends the message about a file that cannot be read in UTF-8 or has more than ``largest``
    bytes.
    """
    try:
        return read_file(path, largest=largest, remedy=remedy).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 text (byte {error.start}); get it again whole") from error


def skip_mark(file: BufferedReader) -> None:
    """Go past the byte order mark with which a file may begin."""
    if file.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
        file.seek(len(codecs.BOM_UTF8))


def open_regular(path: Path) -> BufferedReader:
    """Open a regular file, or what a link to one names, to read its bytes; UsageError for anything else.

    No pipe is waited for. `OSError` where it cannot be opened.
    """
    check_regular(path, path.stat())  # opening a device may have effects
    number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        check_regular(path, os.fstat(number))
    except UsageError:
        os.close(number)
        raise
    return open(number, "rb")


def read_lines(path: Path, remedy: str) -> Iterator[bytes]:
    """Yield the lines of a regular file, which need not fit into memory; longer ones come in pieces.

    ``remedy`` ends the message of a file that cannot be read.
    """
    try:
        with open_regular(path) as file:
            skip_mark(file)
            yield from iter(partial(file.readline, MAX_LINE), b"")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; {remedy}") from error


def check_regular(path: Path, found: os.stat_result) -> None:
    """Refuse a path at which something else than a file was found; ``found`` is its status."""
    if not stat.S_ISREG(found.st_mode):
        raise UsageError(f"{path} is not a regular file; put the file itself there")


def read_json(path: Path, *, largest: int = MAX_FILE_SIZE) -> Any:
    """Read a JSON file of at most ``largest`` bytes, as `loads_json`."""
    return loads_json(read_file(path, largest=largest, remedy="name a JSON file"), str(path))


def read_json_records(path: Path, *, largest: int = MAX_FILE_SIZE) -> list[tuple[str, Any]]:
    """Read the values of a JSON array, or of JSON lines, as `loads_json`.

    Each comes with its place, ``FILE:LINE`` or ``FILE[NUMBER]``.
    """
    raw = read_file(path, largest=largest, remedy="name a JSON file").removeprefix(codecs.BOM_UTF8)
    if raw.lstrip().startswith(b"["):
        return [(f"{path}[{number}]", value) for number, value in enumerate(loads_json(raw, str(path)))]
    lines = enumerate(raw.split(b"\n"), start=1)
    return [
        (f"{path}:{number}", loads_json(line, f"{path}:{number}")) for number, line in lines if line.strip()
    ]


def loads_json(
    text: str | bytes,
    where: str,
    *,
    repeated_keys: bool = False,
    half_characters: Literal["refused", "replaced", "kept"] = "refused",
) -> Any:
    """Return the value of a JSON text, UTF-8 where it is bytes.

    Refused are texts nested more than `MAX_DEPTH` deep, numbers of more than `MAX_DIGITS` characters, NaN and
    infinities; repeated keys unless ``repeated_keys``, where the last one counts; and halves of surrogate
    pairs unless ``half_characters`` are kept, or replaced as by `whole_text`: models write them. ``where``
    names the text in messages.
    """
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        check_json(text)
        decoder = _LAX if repeated_keys else _STRICT
        value = decoder.decode(text)
        if half_characters != "kept" and _HALF_CHARACTER.search(text):  # half a pair, raw or escaped
            written = json.dumps(value, ensure_ascii=False)
            if half_characters == "replaced":
                return decoder.decode(whole_text(written))
            written.encode()
        return value
    except UnicodeDecodeError as error:
        raise UsageError(f"{where}: not UTF-8 text (byte {error.start}); get it again whole") from error
    except UnicodeEncodeError as error:
        seen = error.object[max(0, error.start - 30) : error.start + 1]
        raise UsageError(f"{where}: half of a surrogate pair in {seen!a}, no character: remove it") from error
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{where}: not JSON: {error.msg} (line {error.lineno}, column {error.colno}); get it again whole"
        ) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: JSON that is not read: {error}") from error


def whole_text(text: str) -> str:
    r"""Return a text with replacement characters for halves of surrogate pairs, which no file can hold.

    Example:
        >>> whole_text("a" + chr(0xD800))
        'a\ufffd'
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def check_json(text: str) -> None:
    """Raise a ValueError unless a JSON text keeps to `MAX_DEPTH` and `MAX_DIGITS`. Takes linear time."""
    if text.count("[") + text.count("{") <= MAX_DEPTH and not _LONG_NUMBER.search(text):
        return
    depth = 0
    for piece in _JSON_PIECE.finditer(text):
        first = piece[0][0]
        if first in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ValueError(f"it is nested more than {MAX_DEPTH} deep")
        elif first in "]}":
            depth -= 1
        elif first != '"':
            raise ValueError(f"a number has more than {MAX_DIGITS} digits")


def _number(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits} is too large")
    return number


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number of JSON")


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        repeated, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {repeated!r:.60} is repeated")
    return table


_STRICT = json.JSONDecoder(parse_float=_number, parse_constant=_no_constant, object_pairs_hook=_unrepeated)
_LAX = json.JSONDecoder(parse_float=_number, parse_constant=_no_constant)


def read_toml_table(path: Path) -> dict[str, Any]:
    """Read a TOML file, as `loads_toml`."""
    raw = read_file(path, largest=MAX_TOML_SIZE, remedy="name a TOML file")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not TOML: not UTF-8 text (byte {error.start})") from error
    return loads_toml(text.replace("\r\n", "\n"), str(path))


def loads_toml(text: str, where: str) -> dict[str, Any]:
    """Return the table of a TOML text.

    Refused are texts larger than `MAX_TOML_SIZE` or nested more than `MAX_DEPTH` deep, and numbers of more
    than `MAX_DIGITS` digits.
    """
    try:
        if len(text) > MAX_TOML_SIZE:
            raise ValueError(f"it has more than {MAX_TOML_SIZE:,} characters")
        _check_toml(text)
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not TOML: {error}") from error


def _check_toml(text: str) -> None:
    depth = dots = 0
    for piece in _TOML_PIECE.finditer(text):
        first = piece[0][0]
        if first == ".":
            dots += 1
        elif first in "[]{},=\n":
            dots = 0
            depth += (first in "[{") - (first in "]}")
        elif first not in "#\"'":
            raise ValueError(f"a number has more than {MAX_DIGITS} digits")
        if depth > MAX_DEPTH or dots >= MAX_DEPTH:
            raise ValueError(f"it is nested more than {MAX_DEPTH} deep")


def printable(text: str) -> str:
    """Escape control characters other than line breaks and tabs, so that no text can steer the terminal."""
    return "".join(c if c.isprintable() or c in "\n\t" else repr(c)[1:-1] for c in text)
