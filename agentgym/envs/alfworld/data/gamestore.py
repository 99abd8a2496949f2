"""Thousands of games in one file of records: compressed one by one, equal texts once, with an index.

The published games are 1.2 GB of files, 95 % of which a game does not need or shares with others. A store
is a few MB, is opened by reading its index, and gives any game by a few reads. Beside a game's texts it
keeps what its problem comes to (`agentgym.envs.alfworld.engine.packing`), so that a game is loaded without
being parsed and grounded.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from agentgym.core.hashing import content_id
from agentgym.data.recordfile import NumberedRecords, RecordFile, StoreWriter, open_unchanged
from agentgym.envs.alfworld.data.trials import Failure, Trial
from agentgym.envs.alfworld.engine.gametext import GameText
from agentgym.envs.alfworld.engine.packing import VERSION
from agentgym.errors import UsageError

SUFFIX = ".games"

FORMAT = f"games 3, grounded {VERSION}"
"""Format of the stores that can be read; an older one is imported anew."""

TextKind: TypeAlias = Literal["domain", "grammar", "problem", "grounded"]

_WINDOW = 1 << 15
"""Bytes that the compression looks back: the most that a dictionary can be."""


@dataclass(frozen=True, slots=True)
class GameEntry:
    """Index entry of a game."""

    id: str
    """Content id of domain, grammar and problem."""
    name: str
    type: str
    facts: Mapping[str, str]
    walkthrough: Sequence[str] | None
    domain: int
    """Number of a record, as `grammar` and `problem`."""
    grammar: int
    problem: int
    grounded: Mapping[str, int]
    """Number of the grounded problem's record, by the digest of a domain and the problem."""


def game_id(text: GameText) -> str:
    """Return the 32 hex digits that name a game by what decides its play."""
    return content_id((text.domain, text.grammar, text.problem))


class GameStoreWriter(StoreWriter):
    """Writes a store; nothing is there under its name before all of it is.

    Example:
        >>> import tempfile
        >>> text = GameText("(d)", "g", "(p)", None, True)
        >>> path = Path(tempfile.mkdtemp()) / "one.games"
        >>> with GameStoreWriter(path) as writer:
        ...     writer.add(Trial("train/a/b", "train", "pick", text, {}))
        ...     writer.finish()
        >>> open_store(path).read(0) == text
        True
    """

    def __init__(self, path: Path):
        """Begin a store that will be at ``path``."""
        super().__init__(path)
        self._records = NumberedRecords(self._file, sizes=np.int64)
        self._entries: list[GameEntry] = []
        self._numbers: dict[tuple[TextKind, bytes], int] = {}
        self._dictionaries: dict[TextKind, tuple[int, bytes]] = {}

    def add(self, trial: Trial) -> None:
        """Add a game."""
        text = trial.text
        grounded = {digest: self._record("grounded", data) for digest, data in text.grounded.items()}
        domain = self._record("domain", _encode(text.domain))
        grammar = self._record("grammar", _encode(text.grammar))
        problem = self._record("problem", _encode(text.problem))
        walkthrough = None if text.walkthrough is None else list(text.walkthrough)
        about = (game_id(text), trial.name, trial.type, trial.facts, walkthrough)
        self._entries.append(GameEntry(*about, domain, grammar, problem, grounded))

    def finish(self, failures: Iterable[Failure] = (), left_out: Mapping[str, int] | None = None) -> None:
        """Write the index, games sorted by name, and put the file in its place.

        ``left_out``: the number of games outside of the published splits, by reason.
        """
        entries = sorted(self._entries, key=lambda entry: entry.name)
        index = json.dumps([list(asdict(entry).values()) for entry in entries], ensure_ascii=False)
        number = self._records.add(zlib.compress(_encode(index)))
        about = {
            "format": FORMAT,
            "index": number,
            "dictionaries": {kind: number for kind, (number, _) in self._dictionaries.items()},
            "failures": list(failures),
            "left_out": dict(left_out or {}),
        }
        self._file.finish(self._records.columns(), about)

    def _record(self, kind: TextKind, raw: bytes) -> int:
        """Return the number of a record; a new one is written.

        The first of a kind is the dictionary of the others: most of what they say, it says.
        """
        key = (kind, hashlib.blake2b(raw, digest_size=16).digest())
        number = self._numbers.get(key)
        if number is not None:
            return number
        if kind in self._dictionaries:
            packer = zlib.compressobj(zlib.Z_BEST_COMPRESSION, zdict=self._dictionaries[kind][1])
            number = self._records.add(packer.compress(raw) + packer.flush())
        else:
            number = self._records.add(zlib.compress(raw, zlib.Z_BEST_COMPRESSION))
            self._dictionaries[kind] = (number, raw[-_WINDOW:])
        self._numbers[key] = number
        return number


class GameStore:
    """The games of a finished store, read one by one."""

    def __init__(self, path: Path):
        """Read the index, uncached; `open_store` caches it."""
        self.path = path
        self._file = RecordFile(path, FORMAT, "games")
        about = self._file.about
        self.failures = tuple(Failure(*row) for row in about["failures"])
        self.left_out: Mapping[str, int] = about["left_out"]
        self._first: Mapping[TextKind, int] = about["dictionaries"]
        try:
            self._dictionaries = {
                kind: zlib.decompress(self._packed(number))[-_WINDOW:] for kind, number in self._first.items()
            }
            index = json.loads(zlib.decompress(self._packed(about["index"])))
        except (zlib.error, ValueError) as error:
            raise self._damaged(str(error)) from error
        self.entries = tuple(GameEntry(*row) for row in index)
        self._shared = lru_cache(maxsize=8)(self._text)

    def read(self, number: int) -> GameText:
        """Return the game ``entries[number]``."""
        entry = self.entries[number]
        try:
            domain = self._shared("domain", entry.domain)
            grammar = self._text("grammar", entry.grammar)
            problem = self._text("problem", entry.problem)
            grounded = {digest: self._raw("grounded", where) for digest, where in entry.grounded.items()}
        except (zlib.error, UnicodeDecodeError) as error:
            raise self._damaged(f"{entry.name}: {error}") from error
        walkthrough = None if entry.walkthrough is None else tuple(entry.walkthrough)
        return GameText(domain, grammar, problem, walkthrough, solvable=True, grounded=grounded)

    def _text(self, kind: TextKind, number: int) -> str:
        return self._raw(kind, number).decode("utf-8", "surrogatepass")

    def _raw(self, kind: TextKind, number: int) -> bytes:
        if number == self._first[kind]:
            return zlib.decompress(self._packed(number))
        opener = zlib.decompressobj(zdict=self._dictionaries[kind])
        raw = opener.decompress(self._packed(number)) + opener.flush()
        if not opener.eof:
            raise zlib.error("a record is cut short")
        return raw

    def _packed(self, number: int) -> bytes:
        return self._file.record(number)

    def _damaged(self, reason: str) -> UsageError:
        return UsageError(
            f"{self.path} is not a complete store of games ({reason}): delete it and import the data again"
        )


def open_store(path: Path) -> GameStore:
    """Return the store in a file; one object for as long as the file stays the same."""
    return open_unchanged(path, "games", GameStore)


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
