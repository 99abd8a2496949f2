"""Thousands of games in one file: compressed one by one, equal texts once, with an index at the end.

The published games are 1.2 GB of files, 95 % of which a game does not need or shares with others. A
store is a few MB, is opened by reading its index, and gives any game by one read.

The file is a mark, compressed texts one after another, the compressed index, and the index's place.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from agentgym.envs.alfworld.data.gametext import GameText
from agentgym.envs.alfworld.data.trials import Failure, Trial
from agentgym.errors import UsageError
from agentgym.hashing import content_id

SUFFIX = ".games"

_MARK = b"agentgym games 1\n"
_PLACE = struct.Struct("<QQ16s")
"""Where the index begins, its compressed size, and the blake2b-128 of its compressed bytes."""


@dataclass(frozen=True, slots=True)
class GameEntry:
    """What the index says of a game."""

    id: str
    """Content id of domain, grammar and problem."""
    name: str
    type: str
    facts: Mapping[str, str]
    walkthrough: Sequence[str] | None
    domain: int
    """Number of a text, as `grammar` and `problem`."""
    grammar: int
    problem: int


def game_id(text: GameText) -> str:
    """Return the 32 hex digits that name a game by what decides its play."""
    return content_id((text.domain, text.grammar, text.problem))


class GameStoreWriter:
    """Writes a store; nothing is there under its name before all of it is.

    Example:
        >>> import tempfile
        >>> text = GameText("(d)", "g", "(p)", None, True)
        >>> path = Path(tempfile.mkdtemp()) / "train.games"
        >>> with GameStoreWriter(path) as writer:
        ...     writer.add(Trial("train/a/b", "train", "pick", text, {}))
        ...     writer.finish()
        >>> open_store(path).read(0) == text
        True
    """

    def __init__(self, path: Path):
        """Begin a store that will be at ``path``."""
        self.path = path
        self._draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = self._draft.open("wb")
        self._file.write(_MARK)
        self._numbers: dict[bytes, int] = {}
        self._places: list[tuple[int, int]] = []
        self._entries: list[GameEntry] = []

    def __enter__(self) -> GameStoreWriter:
        """Return the writer."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Remove what was not finished."""
        self._file.close()
        self._draft.unlink(missing_ok=True)

    def add(self, trial: Trial) -> None:
        """Append a game."""
        text = trial.text
        numbers = [self._text(part) for part in (text.domain, text.grammar, text.problem)]
        self._entries.append(
            GameEntry(game_id(text), trial.name, trial.type, trial.facts, text.walkthrough, *numbers)
        )

    def finish(self, failures: Iterable[Failure] = (), left_out: Mapping[str, int] | None = None) -> None:
        """Write the index, games sorted by name, and put the file in its place.

        Args:
            failures: files that could not be read.
            left_out: how many games do not belong to the published splits, by reason.
        """
        entries = sorted(self._entries, key=lambda entry: entry.name)
        table = {
            "texts": self._places,
            "games": [list(asdict(entry).values()) for entry in entries],
            "failures": list(failures),
            "left_out": dict(left_out or {}),
        }
        index = zlib.compress(json.dumps(table, ensure_ascii=False).encode())
        place = _PLACE.pack(self._file.tell(), len(index), _digest(index))
        self._file.write(index + place)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._draft.replace(self.path)

    def _text(self, text: str) -> int:
        """Return the number of a text, which is written where it is new."""
        raw = text.encode("utf-8", "surrogatepass")
        key = _digest(raw)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._places)
            packed = zlib.compress(raw)
            self._places.append((self._file.tell(), len(packed)))
            self._file.write(packed)
        return number


class GameStore:
    """The games of a finished store, read one by one."""

    def __init__(self, path: Path):
        """Read the index; as `open_store`, which keeps it."""
        self.path = path
        table = _read_index(path)
        self._places: list[tuple[int, int]] = table["texts"]
        self.entries = tuple(GameEntry(*row) for row in table["games"])
        self.failures = tuple(Failure(*row) for row in table["failures"])
        self.left_out: Mapping[str, int] = table["left_out"]

    def read(self, number: int) -> GameText:
        """Return the text of the game ``entries[number]``.

        Raises:
            UsageError: the store is damaged.
        """
        entry = self.entries[number]
        try:
            with self.path.open("rb") as file:
                domain = self._text(file, entry.domain)
                grammar = self._text(file, entry.grammar)
                problem = self._text(file, entry.problem)
        except (OSError, zlib.error, UnicodeDecodeError) as error:
            raise _damaged(self.path, f"{entry.name}: {error}") from error
        walkthrough = None if entry.walkthrough is None else tuple(entry.walkthrough)
        return GameText(domain, grammar, problem, walkthrough, solvable=True)

    def _text(self, file: BinaryIO, number: int) -> str:
        offset, size = self._places[number]
        file.seek(offset)
        return zlib.decompress(file.read(size)).decode("utf-8", "surrogatepass")


def open_store(path: Path) -> GameStore:
    """Return the store in a file; one object for as long as the file stays the same.

    Raises:
        UsageError: no store, or a damaged one.
    """
    try:
        status = path.stat()
    except OSError as error:
        raise UsageError(f"cannot open the games {path}: {error.strerror}") from error
    return _open_store(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=16)
def _open_store(path: Path, size: int, changed: int) -> GameStore:
    return GameStore(path)


def _read_index(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        if file.read(len(_MARK)) != _MARK:
            raise _damaged(path, "it does not begin as one of this version")
        file.seek(-_PLACE.size, os.SEEK_END)
        offset, size, digest = _PLACE.unpack(file.read())
        file.seek(offset)
        packed = file.read(size)
    if _digest(packed) != digest:
        raise _damaged(path, "its index is not what was written")
    table: dict[str, Any] = json.loads(zlib.decompress(packed))
    return table


def _damaged(path: Path, reason: str) -> UsageError:
    return UsageError(f"{path} is no whole store of games ({reason}): delete it and import the games again")


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
