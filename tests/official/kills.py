"""Downloads killed by `kill -9` at chosen points, and started again: nothing is ever half there.

A point is a share of the bytes that the hosts send, or of the changes of files that the process makes; both
are counted, so that no clock decides where a process dies.
"""

import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple

from agentgym.registration import data_source
from tests.official.copies import Copies
from tests.official.host import PASSING, Host, planned
from tests.official.machines import Machine, State, counted, errors, kill
from tests.official.tables import official, rewritten, write
from tests.waiting import wait_until

LACKING = ("wiki-18-e5", "wiki-18-bm25")
"""Sets whose index is taken over with what the tests do not have: only their files are compared."""

Kind = Literal["bytes", "changes"]


class Point(NamedTuple):
    """Where a download is killed."""

    name: str
    """Name of the set."""
    kind: Kind
    share: float
    """Share of the bytes or changes of a whole download, from 0 to 1."""
    seed: int
    """Seed of the hosts' faults, in both runs."""


class Outcome(NamedTuple):
    """What a kill left, and what starting again made of it."""

    point: Point
    killed: bool
    """Whether the process was still there to be killed."""
    left: str
    """``nothing``, ``a part`` that is resumed, or ``whole``: the state after the kill."""
    resent: float
    """Bytes that the hosts sent after the kill, as a share of those of a whole download."""
    wrong: tuple[str, ...]


@dataclass(frozen=True)
class Whole:
    """An undisturbed download."""

    state: State
    bytes: int
    changes: int
    error: str
    """Line that it ends with, of `LACKING`; else empty."""


def sets(*, corpora: bool | None = None) -> list[str]:
    """Return the names of sets: of data, of ``corpora``, or all."""
    found = official()["set"]
    return [name for name, each in found.items() if corpora is None or bool(each.get("corpus")) is corpora]


def points(seed: int, count: int, names: Sequence[str]) -> list[Point]:
    """Draw points: sets in turn, and of each set bytes and changes in turn."""
    drawn = random.Random(seed)
    found: list[Point] = []
    for number in range(count):
        kind: Kind = "changes" if (number // len(names) + number) % 2 else "bytes"
        found.append(Point(names[number % len(names)], kind, drawn.random(), drawn.randrange(1 << 30)))
    return found


class Killer:
    """Kills downloads of copies.

    Args:
        data: data directory that the copies are cut from.
        folder: an empty folder.
    """

    def __init__(self, data: Path, folder: Path):
        self._copies, self._folder = Copies(data), folder
        self._numbers = iter(range(1 << 30))
        self._whole = cache(self._download_whole)

    def play(self, point: Point) -> Outcome:
        """Kill a download, start it again, and say what was wrong."""
        whole = self._whole(point.name)
        with self._opened(point.seed) as (host, machine):
            words = command(point.name)
            if point.kind == "bytes":
                host.pause_at = 1 + int(point.share * whole.bytes)
                process = machine.start(*words)
                wait_until(lambda: host.paused.is_set() or process.poll() is not None)
                code = kill(process)
                host.resume()
            else:
                event = 1 + int(point.share * whole.changes)
                code = machine.run(*words, place=f"{event}:{point.seed % 12}").returncode
            wrong, found = [], self._state(machine, point.name)
            if not _may_be_left(found, whole.state, corpus=point.name in sets(corpora=True)):
                wrong.append(f"half there: {_difference(found, whole.state)}")
            ends = 2 if whole.error else 0
            if code not in (-9, ends):
                wrong.append(f"exit code {code} before the kill")
            left = "whole" if found == whole.state else "a part" if machine.left() else "nothing"
            before = host.sent
            again = machine.run(*words)
            if again.returncode != ends or "".join(errors(again)) != whole.error:
                wrong.append(f"started again: {again.returncode}, {' '.join(errors(again))[:300]}")
            found = self._state(machine, point.name)
            if found != whole.state:
                wrong.append(f"started again: {_difference(found, whole.state)}")
            checked = None if whole.error else machine.run(*verification(point.name))
            if checked is not None and checked.returncode:
                wrong.append(f"verified: {(checked.stdout + checked.stderr).strip()[:300]}")
            return Outcome(point, code == -9, left, (host.sent - before) / whole.bytes, tuple(wrong))

    def _opened(self, seed: int | None) -> "_Opened":
        return _Opened(self._copies, self._folder / str(next(self._numbers)), seed)

    def _download_whole(self, name: str) -> Whole:
        with self._opened(None) as (host, machine):
            done = machine.run(*command(name), place="0")
            lacking = errors(done)
            assert len(lacking) == bool(done.returncode), (name, done.stderr)
            assert not lacking or name in LACKING, (name, lacking)
            return Whole(self._state(machine, name), host.sent, counted(done)[0], "".join(lacking))

    def _state(self, machine: Machine, name: str) -> State:
        return machine.imported(folder_of(name))


class _Opened(ExitStack):
    """A host with faults and a machine, of one point."""

    def __init__(self, copies: Copies, folder: Path, seed: int | None):
        super().__init__()
        self._given = copies, folder, seed

    def __enter__(self) -> tuple[Host, Machine]:  # type: ignore[override]
        copies, folder, seed = self._given
        super().__enter__()
        host = Host(copies.of) if seed is None else Host(copies.of, planned(seed, PASSING))
        self.enter_context(host)
        folder.mkdir(parents=True)
        table = write(folder / "sources.toml", rewritten(copies.of, host.address))
        return host, Machine(folder, table)


def command(name: str) -> tuple[str, ...]:
    """Return the words that download a set."""
    corpus = official()["set"][name].get("corpus")
    return ("index", "download", name) if corpus else ("data", "download", name)


def verification(name: str) -> tuple[str, ...]:
    """Return the words that verify it."""
    found = official()["set"][name]
    return (
        ("index", "verify", found["corpus"]) if found.get("corpus") else ("data", "verify", found["source"])
    )


def folder_of(name: str) -> str:
    """Return the folder that a set's files are in, below the data directory."""
    found = official()["set"][name]
    return str(found["folder"]) if found.get("corpus") else data_source(found["source"]).folder


def _may_be_left(found: State, whole: State, *, corpus: bool) -> bool:
    """Whether a kill may leave these files.

    A set of data is there or not. Of a corpus each file is whole, and of an index, which is a folder with a
    manifest, all or none: a corpus whose passages or index are missing is found to be without them.
    """
    if not corpus:
        return not found or found == whole
    indexes = {path.rpartition("/")[0] for path in whole if path.endswith("/manifest.json")}
    parts = [{path for path in whole if path.startswith(f"{index}/")} for index in indexes]
    return found.items() <= whole.items() and all(
        part <= found.keys() or not part & found.keys() for part in parts
    )


def _difference(found: State, wanted: State) -> str:
    def named(paths: Iterator[str]) -> str:
        return ", ".join(list(paths)[:3]) or "-"

    missing = named(path for path in wanted if path not in found)
    more = named(path for path in found if path not in wanted)
    other = named(path for path in found if path in wanted and found[path] != wanted[path])
    return f"missing {missing}; more {more}; other {other}"
