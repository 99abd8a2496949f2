"""Tables of a data pool, in SQLite, and the record of a group in them."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.io.untrusted import check_regular, loads_json

POOL_FILE = "pool.sqlite"

GroupState: TypeAlias = Literal["open", "complete", "stale", "leased", "trained", "dropped"]
"""State of a group: ``open`` while episodes are missing, ``complete`` while it waits for a run, ``stale``
where it is too old for every run that leases here, ``dropped`` where no run may train on it."""


@dataclass(frozen=True, slots=True)
class PooledGroup:
    """A group's row of the pool."""

    name: str
    env_id: str
    task_id: str
    state: GroupState
    size: int
    """Number of episodes of the complete group."""
    members: int
    """Number of episodes so far."""
    oldest: int | None
    """Least version of the weights that sampled any token; None without sampled tokens."""
    newest: int | None
    """Greatest version of the weights."""
    labels: tuple[str, ...]
    trainable: bool
    score: float
    """Mean score of its episodes."""
    run: str
    """Run that leased the group; empty for none."""
    update: int
    """Update that the group was leased for; 0 for none."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> PooledGroup:
        """Take it from a row of `GROUPS`; UsageError for one that no pool writes."""
        values, where = dict(row), f"the group {row['name']!a:.80} of {POOL_FILE}"
        labels = loads_json(str(values["labels"]), where)
        found = parse(cls, {**values, "labels": labels, "trainable": bool(values["trainable"])}, where)
        if not all(map(str.isprintable, (found.name, found.env_id, found.task_id, found.run, *found.labels))):
            raise UsageError(f"{where} has control characters in its texts: put back a copy of the pool")
        return found


VERSION = 1
"""Version of the tables."""
_TABLES = """
CREATE TABLE groups (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, env_id TEXT NOT NULL,
    task_id TEXT NOT NULL, initial_hash TEXT NOT NULL, members INTEGER NOT NULL, last_added REAL NOT NULL,
    oldest INTEGER, newest INTEGER, labels TEXT NOT NULL, trainable INTEGER NOT NULL,
    dropped INTEGER NOT NULL DEFAULT 0, run TEXT, batch INTEGER, place INTEGER,
    trained INTEGER NOT NULL DEFAULT 0);
CREATE INDEX waiting ON groups (number) WHERE run IS NULL AND NOT dropped;
CREATE INDEX leases ON groups (run, batch, place) WHERE run IS NOT NULL;
CREATE TABLE episodes (
    id TEXT PRIMARY KEY, number INTEGER NOT NULL REFERENCES groups, rollout INTEGER NOT NULL,
    won INTEGER NOT NULL, score REAL NOT NULL, late_reward REAL, trajectory TEXT NOT NULL,
    UNIQUE (number, rollout));
CREATE TABLE runs (name TEXT PRIMARY KEY, oldest INTEGER NOT NULL);
"""
STATE = """CASE WHEN dropped THEN 'dropped' WHEN trained THEN 'trained' WHEN run IS NOT NULL THEN 'leased'
    WHEN oldest < (SELECT min(oldest) FROM runs WHERE :run IN ('', name)) THEN 'stale'
    WHEN members < size THEN 'open' ELSE 'complete' END"""
GROUPS = f"""SELECT name, env_id, task_id, {STATE} AS state, size, members, oldest, newest, labels, trainable,
    (SELECT avg(score) FROM episodes WHERE episodes.number = groups.number) AS score,
    coalesce(run, '') AS run, coalesce(batch, 0) AS "update" FROM groups"""
EPISODES = """SELECT name, id, trajectory, episodes.won, episodes.score, late_reward
    FROM groups JOIN episodes USING (number)"""
OF_LEASE = "run = :run AND batch = :update AND NOT dropped"
CHANGED_LABELS = """(SELECT json_group_array(value) FROM (
    SELECT value FROM json_each(groups.labels) {} SELECT value FROM json_each({}) ORDER BY value))"""
ADD = (
    f"""INSERT INTO groups
    (name, size, env_id, task_id, initial_hash, members, last_added, oldest, newest, labels, trainable)
    VALUES (:group, :size, :env_id, :task_id, :initial_hash, 1, :now, :oldest, :newest, :labels, :trainable)
    ON CONFLICT (name) DO UPDATE SET members = members + 1, last_added = :now,
    oldest = coalesce(min(oldest, :oldest), oldest, :oldest),
    newest = coalesce(max(newest, :newest), newest, :newest),
    labels = {CHANGED_LABELS.format("UNION", ":labels")}, trainable = min(trainable, :trainable)""",
    """INSERT INTO episodes SELECT :id, number, :rollout, :won, :score, NULL, :trajectory
    FROM groups WHERE name = :group""",
)
WAITING = """SELECT name, members >= size, last_added FROM groups
    WHERE run IS NULL AND NOT dropped AND trainable AND coalesce(oldest >= :oldest, 1) ORDER BY number"""

SET_OLDEST = """INSERT INTO runs VALUES (:run, :oldest)
    ON CONFLICT (name) DO UPDATE SET oldest = :oldest WHERE oldest != :oldest"""


_WRONG_TYPES = """SELECT EXISTS (SELECT 1 FROM groups WHERE typeof(number) <> 'integer'
    OR typeof(size) <> 'integer' OR typeof(members) <> 'integer' OR typeof(trainable) <> 'integer'
    OR typeof(dropped) <> 'integer' OR typeof(trained) <> 'integer'
    OR typeof(coalesce(oldest, 0)) <> 'integer' OR typeof(coalesce(newest, 0)) <> 'integer'
    OR typeof(coalesce(batch, 0)) <> 'integer' OR typeof(coalesce(place, 0)) <> 'integer'
    OR typeof(last_added) NOT IN ('real', 'integer')
    OR typeof(name) <> 'text' OR typeof(env_id) <> 'text' OR typeof(task_id) <> 'text'
    OR typeof(initial_hash) <> 'text' OR typeof(labels) <> 'text' OR typeof(run) NOT IN ('text', 'null'))
    OR EXISTS (SELECT 1 FROM runs WHERE typeof(name) <> 'text' OR typeof(oldest) <> 'integer')"""
"""Query for a cell whose type no pool writes: SQLite itself accepts any."""

_SUPER_JOURNAL = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a journal that names a further file, which SQLite would delete."""

_STEPS = 10_000
"""Instructions of SQLite between two checks of a transaction's budget."""


def limit(connection: sqlite3.Connection, path: Path) -> None:
    """Begin a budget of instructions, by the file's size: pages of a damaged file may refer to each other."""
    size = path.stat().st_size if path.exists() else 0
    left = count(5_000 + size // 50, -1)
    connection.set_progress_handler(lambda: next(left) < 0, _STEPS)


def _check_files(path: Path) -> None:
    """Refuse what SQLite would follow or wait for: links and pipes, and a journal that names another file."""
    for end in ("", "-wal", "-shm", "-journal"):
        file = path.with_name(path.name + end)
        with suppress(FileNotFoundError):
            check_regular(file, file.lstat())
            if end == "-journal" and file.read_bytes().endswith(_SUPER_JOURNAL):
                raise UsageError(f"{file} names another file to delete: remove it")


def _objects(connection: sqlite3.Connection) -> set[tuple[str, ...]]:
    """Return everything that a file declares: kind, name and, but for spaces, how."""
    rows = connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master").fetchall()
    return {tuple(re.sub(r"[ \t\n\f\r]+", " ", str(part)).strip(" ") for part in row) for row in rows}


@cache
def _own_objects() -> set[tuple[str, ...]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_TABLES)
        return _objects(connection)


def connect(path: Path) -> sqlite3.Connection:
    """Open or create a pool's file, whose commits are on the disk when they return.

    Raises:
        sqlite3.Error: it cannot be opened.
        UsageError: it is of another version, or of a form that no pool has.
    """
    _check_files(path)
    with ExitStack() as opened:
        connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        opened.callback(connection.close)
        connection.row_factory = sqlite3.Row
        limit(connection, path)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version == 0 and not _objects(connection):
                for statement in f"{_TABLES} PRAGMA user_version = {VERSION};".split(";"):
                    connection.execute(statement)
            elif version != VERSION:
                raise UsageError(f"{path} is a data pool of version {version}, not {VERSION}: begin another")
            elif _objects(connection) != _own_objects():  # views may never end, triggers may do anything
                raise UsageError(f"{path} has other tables than a data pool: get it again, or begin another")
            elif connection.execute(_WRONG_TYPES).fetchone()[0]:
                raise UsageError(f"{path} has cells that no data pool writes: get it again, or begin another")
        opened.pop_all()
    return connection
