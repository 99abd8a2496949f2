"""Index of a data pool: what its segments hold and what became of it, in SQLite.

Everything here follows from the lines of the segments, one after the other, so it may be deleted.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from agentgym.rollout.stored_episode import StoredEpisode, unpack_array

GroupState: TypeAlias = Literal["open", "complete", "stale", "leased", "trained", "dropped"]
"""Episodes are missing; it waits for a run; it waits, but is too old for every run that leases here; a run
has it; a run has trained on it; it is never trained on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolChange:
    """What became of episodes after they were added."""

    kind: Literal[
        "reward", "tag", "untag", "trainable", "drop", "require", "lease", "rewind", "trained", "release"
    ]
    """The method of `agentgym.rollout.datapool.DataPool`; ``require``: a run takes no older groups."""
    episode: str = ""
    """Id, of ``reward``."""
    reward: float = 0.0
    """Added to the last step's."""
    won: bool | None = None
    """Replaces the episode's, unless it is null."""
    score: float | None = None
    """Likewise."""
    group: str = ""
    """Of ``tag``, ``untag``, ``trainable`` and ``drop``."""
    labels: tuple[str, ...] = ()
    """Of ``tag`` and ``untag``."""
    trainable: bool = True
    """Whether the group may be trained on."""
    run: str = ""
    """Of the rest."""
    update: int = 0
    """Of ``lease``; of ``rewind`` and ``trained``, the last one before it or with it."""
    groups: tuple[str, ...] = ()
    """Leased, in their order."""
    oldest: int = 0
    """Version of the weights, of ``require``."""


@dataclass(frozen=True, slots=True)
class PooledGroup:
    """What is known of a group."""

    name: str
    env_id: str
    task_id: str
    state: GroupState
    size: int
    """Episodes that it has when it is complete."""
    members: int
    """Episodes that it has."""
    oldest: int | None
    """Least version of the weights that sampled any of its tokens; None where there is none."""
    newest: int | None
    """Greatest one."""
    labels: tuple[str, ...]
    trainable: bool
    score: float
    """Mean over its episodes."""
    run: str
    """That leased it; empty for none."""
    update: int
    """That it was leased for; 0 for none."""


@dataclass(frozen=True, slots=True)
class LinePlace:
    """Where a line is."""

    segment: str
    offset: int
    length: int
    """Bytes, without the line break."""
    line: int
    """Its number, from 1."""


@dataclass(frozen=True, slots=True)
class StoredLine:
    """An episode's line, and what became of it."""

    place: LinePlace
    id: str
    group: str
    late: float | None
    """Reward that came later; None for none, and then the next two are the line's own."""
    won: int
    score: float


VERSION = 1
"""Of the tables; an index of another one is made anew."""

_SCHEMA = """
CREATE TABLE segments (name TEXT PRIMARY KEY, size INTEGER NOT NULL, lines INTEGER NOT NULL);
CREATE TABLE groups (
    number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, size INTEGER NOT NULL, env TEXT NOT NULL,
    task TEXT NOT NULL, initial TEXT NOT NULL, members INTEGER NOT NULL DEFAULT 0, oldest INTEGER,
    newest INTEGER, last REAL NOT NULL DEFAULT 0, withheld INTEGER NOT NULL DEFAULT 0, trainable INTEGER,
    dropped INTEGER NOT NULL DEFAULT 0, run TEXT, batch INTEGER NOT NULL DEFAULT 0,
    place INTEGER NOT NULL DEFAULT 0, held INTEGER NOT NULL DEFAULT 0, trained INTEGER NOT NULL DEFAULT 0);
CREATE INDEX waiting ON groups (number) WHERE run IS NULL AND dropped = 0;
CREATE INDEX leases ON groups (run, batch, place) WHERE run IS NOT NULL;
CREATE TABLE episodes (
    id TEXT PRIMARY KEY, number INTEGER NOT NULL, rollout INTEGER NOT NULL, segment TEXT NOT NULL,
    offset INTEGER NOT NULL, length INTEGER NOT NULL, line INTEGER NOT NULL, steps INTEGER NOT NULL,
    won INTEGER NOT NULL, score REAL NOT NULL, late REAL, UNIQUE (number, rollout));
CREATE TABLE labels (number INTEGER NOT NULL, label TEXT NOT NULL, PRIMARY KEY (number, label)) WITHOUT ROWID;
CREATE TABLE runs (name TEXT PRIMARY KEY, oldest INTEGER NOT NULL);
"""
_TRAINABLE = "coalesce(trainable, withheld = 0)"
_OF_LEASE = "WHERE run = ? AND batch = ?"
_STATE = """CASE WHEN dropped THEN 'dropped' WHEN trained THEN 'trained' WHEN run IS NOT NULL THEN 'leased'
    WHEN oldest < (SELECT min(oldest) FROM runs WHERE :run IN ('', name)) THEN 'stale'
    WHEN members < size THEN 'open' ELSE 'complete' END"""
_CANDIDATES = (
    "SELECT name, members >= size, last FROM groups "
    f"WHERE {{}} AND dropped = 0 AND {_TRAINABLE} AND coalesce(oldest >= ?, 1) ORDER BY "
)
_MEMBERS = """SELECT segment, offset, length, line, id, name, late, won, score
    FROM groups JOIN episodes USING (number)"""

_GROUPS = f"""SELECT name, env, task, {_STATE}, size, members, oldest, newest,
    (SELECT json_group_array(label) FROM labels WHERE labels.number = groups.number), {_TRAINABLE},
    (SELECT avg(score) FROM episodes WHERE episodes.number = groups.number), coalesce(run, ''), batch
    FROM groups"""

_INSERT = (
    "INSERT OR IGNORE INTO groups (name, size, env, task, initial, oldest, newest) "
    "VALUES (:group, :size, :env, :task, :initial, :oldest, :newest)",
    "UPDATE groups SET members = members + 1, oldest = coalesce(min(oldest, :oldest), "
    "oldest, :oldest), newest = coalesce(max(newest, :newest), newest, :newest), "
    "last = max(last, :added), withheld = withheld + :withheld WHERE name = :group",
    "INSERT INTO episodes SELECT :id, number, :rollout, :segment, :offset, :length, :line, :steps, :won, "
    ":score, NULL FROM groups WHERE name = :group",
)
_CHANGES = {
    "reward": "UPDATE episodes SET late = :reward, won = coalesce(:won, won), "
    "score = coalesce(:score, score) WHERE id = :episode",
    "tag": "INSERT OR IGNORE INTO labels SELECT number, :label FROM groups WHERE name = :group",
    "untag": "DELETE FROM labels WHERE label = :label "
    "AND number = (SELECT number FROM groups WHERE name = :group)",
    "trainable": "UPDATE groups SET trainable = :trainable WHERE name = :group",
    "drop": "UPDATE groups SET dropped = 1 WHERE name = :group",
    "require": "INSERT OR REPLACE INTO runs VALUES (:run, :oldest)",
    "lease": "UPDATE groups SET run = :run, batch = :update, place = :place, held = 1 WHERE name = :leased",
    "rewind": "UPDATE groups SET held = 0, trained = 0 WHERE run = :run AND batch > :update",
    "trained": "UPDATE groups SET trained = 1 WHERE run = :run AND batch <= :update AND held AND NOT dropped",
    "release": "UPDATE groups SET run = NULL, batch = 0, place = 0, held = 0 "
    "WHERE run = :run AND NOT trained",
}


class PoolIndex:
    """The index's tables; whoever uses it holds the pool's lock."""

    def __init__(self, path: Path):
        """Open the file or begin it; `sqlite3.DatabaseError` where it is no index of this version."""
        self._table = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        (version,) = self._row("PRAGMA user_version")
        if version not in (0, VERSION):
            raise sqlite3.DatabaseError("another version wrote it")
        self._table.execute("PRAGMA journal_mode = WAL")
        self._table.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes is read again
        if version == 0:
            self._table.executescript(f"BEGIN; {_SCHEMA} PRAGMA user_version = {VERSION}; COMMIT;")
        self._row("SELECT count(*) FROM segments")

    def close(self) -> None:
        """Close the file."""
        self._table.close()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep what a block does, all of it or nothing."""
        self._table.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._table.execute("ROLLBACK")
            raise
        self._table.execute("COMMIT")

    # ---- what lines say ---------------------------------------------------------------------

    def segments(self) -> dict[str, tuple[int, int]]:
        """Return how many bytes and lines of each segment are in the index."""
        rows = self._table.execute("SELECT name, size, lines FROM segments").fetchall()
        return {name: (size, lines) for name, size, lines in rows}

    def conflict(self, episode: StoredEpisode) -> str | None:
        """Return why an episode cannot join its group; None where it can."""
        found = self._row(
            "SELECT number, members, size, env, task, initial FROM groups WHERE name = ?", episode.group
        )
        if found is None:
            return None
        number, members, size, *begun = found
        if self._row("SELECT 1 FROM episodes WHERE number = ? AND rollout = ?", number, episode.rollout):
            return f"it has another rollout {episode.rollout} already"
        if episode.size != size:
            return f"it is of {size} episodes, not of {episode.size}"
        if begun != [episode.env_id, episode.task_id, episode.initial_hash]:
            return (
                f"its episodes began in state {begun[2]} of task {begun[1]} of {begun[0]}, this one did not"
            )
        return f"it has its {size} episodes already" if members >= size else None

    def insert(self, name: str, episode: StoredEpisode, place: LinePlace) -> None:
        """Add an episode by its id, or note a line that repeats it."""
        self._advance(place)
        if self.about(name) is not None:
            return
        versions = _versions(episode)
        values = {
            **{
                each: getattr(episode, each) for each in ("group", "size", "rollout", "won", "score", "added")
            },
            **{"env": episode.env_id, "task": episode.task_id, "initial": episode.initial_hash},
            **{"id": name, "oldest": min(versions, default=None), "newest": max(versions, default=None)},
            **{"withheld": not episode.trainable, "steps": len(episode.steps), **asdict(place)},
        }
        for statement in _INSERT:
            self._table.execute(statement, values)
        for label in episode.labels:
            self._table.execute(_CHANGES["tag"], {"group": episode.group, "label": label})

    def apply(self, change: PoolChange, place: LinePlace) -> None:
        """Carry out a change."""
        self._advance(place)
        rows: list[dict[str, Any]] = [{}]
        if change.kind in ("tag", "untag"):
            rows = [{"label": label} for label in change.labels]
        elif change.kind == "lease":
            last = self._row(
                f"SELECT coalesce(max(place), 0) FROM groups {_OF_LEASE}", change.run, change.update
            )
            rows = [{"leased": name, "place": last[0] + i} for i, name in enumerate(change.groups, start=1)]
        values = asdict(change)
        for row in rows:
            self._table.execute(_CHANGES[change.kind], values | row)
        if change.kind in ("rewind", "release"):
            self._table.execute("DELETE FROM runs WHERE name = ?", (change.run,))

    def _advance(self, place: LinePlace) -> None:
        row = place.segment, place.offset + place.length + 1, place.line
        self._table.execute("INSERT OR REPLACE INTO segments VALUES (?, ?, ?)", row)

    # ---- what there is ----------------------------------------------------------------------

    def members(self, group: str, rollout: int | None = None) -> list[StoredLine]:
        """Return the members of a group by their rollouts, or the one of a rollout."""
        return self._lines(
            "WHERE name = ? AND rollout = coalesce(?, rollout) ORDER BY rollout", group, rollout
        )

    def leased(self, run: str, update: int) -> list[StoredLine]:
        """Return the members of the groups that a run has for an update, in their order."""
        return self._lines(f"{_OF_LEASE} AND held AND NOT dropped ORDER BY place, rollout", run, update)

    def ready(self, run: str, count: int, oldest: int | None, begun_before: float) -> list[str]:
        """Return the names of so many groups to lease; fewer where one that is not complete is waited for."""
        reserved = self._table.execute(
            _CANDIDATES.format("run = ? AND NOT held") + "batch, place", (run, oldest)
        )
        waiting = self._table.execute(_CANDIDATES.format("run IS NULL") + "number", (oldest,))
        found = []
        for name, complete, last in chain(reserved, waiting):
            if complete:
                found.append(name)
            if len(found) == count or not (complete or last < begun_before):
                break
        return found

    def required(self, run: str) -> int | None:
        """Return the oldest version that a run takes; None where it has not said."""
        found = self._row("SELECT oldest FROM runs WHERE name = ?", run)
        return None if found is None else found[0]

    def about(self, episode: str) -> tuple[str, int, str | None] | None:
        """Return group, number of steps and the run that leased them, of an episode by its id."""
        found: tuple[str, int, str | None] | None = self._row(
            "SELECT name, steps, run FROM episodes JOIN groups USING (number) WHERE id = ?", episode
        )
        return found

    def groups(self, name: str | None = None) -> list[PooledGroup]:
        """Return a group by its name, or all, oldest first."""
        which = "" if name is None else "WHERE name = :name"
        rows = self._table.execute(f"{_GROUPS} {which} ORDER BY number", {"name": name, "run": ""})
        found = [dict(zip(PooledGroup.__slots__, row, strict=True)) for row in rows.fetchall()]
        for each in found:
            each |= {"labels": tuple(json.loads(each["labels"])), "trainable": bool(each["trainable"])}
        return [PooledGroup(**each) for each in found]

    def counts(self, run: str) -> dict[str, int]:
        """Return the numbers of groups by state, to a run if its name is not empty."""
        rows = self._table.execute(f"SELECT {_STATE}, count(*) FROM groups GROUP BY 1", {"run": run})
        return dict(rows.fetchall())

    # ---- inside -----------------------------------------------------------------------------

    def _lines(self, which: str, *values: Any) -> list[StoredLine]:
        rows = self._table.execute(f"{_MEMBERS} {which}", values)
        return [StoredLine(LinePlace(*row[:4]), *row[4:]) for row in rows.fetchall()]

    def _row(self, statement: str, *values: Any) -> Any:
        return self._table.execute(statement, values).fetchone()


def _versions(episode: StoredEpisode) -> list[int]:
    """Return the versions of the weights that sampled the steps of an episode."""
    answers = [step.completion for step in episode.steps]
    return [
        version
        for answer in answers
        for version in (answer.version, *unpack_array("versions", answer.versions))
    ]
