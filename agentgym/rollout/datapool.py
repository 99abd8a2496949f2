"""Data pool: a folder of finished groups of episodes between agents and a trainer.

Agents add episodes, a trainer leases groups, people look and tag, each from a process of its own. All is in
``pool.sqlite``: a call is a transaction, and what it has returned for is on the disk.
"""

from __future__ import annotations

import json
import sqlite3
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from math import isfinite
from operator import itemgetter
from pathlib import Path
from threading import Lock
from time import time
from typing import Any, Self

from agentgym.core.hashing import DIGEST_BYTES
from agentgym.core.options import Bounds
from agentgym.core.types import Group, Trajectory
from agentgym.errors import UsageError
from agentgym.io.files import make_folder
from agentgym.io.untrusted import printable
from agentgym.rollout.pool_tables import (
    ADD,
    CHANGED_LABELS,
    EPISODES,
    GROUPS,
    OF_LEASE,
    POOL_FILE,
    SET_OLDEST,
    STATE,
    WAITING,
    PooledGroup,
    connect,
    limit,
)
from agentgym.rollout.stored_episode import StoredEpisode, pack, read_trajectory, timeless, write_records

PATIENCE = 600.0
"""Longest wait for the next episode of an incomplete group, in seconds."""
MAX_NAME = 200
"""Most characters of the name of a group, a run, a label, an environment or a task."""
COUNTED = Bounds(0, 1_000_000_000)
"""Bounds of positions in groups and of their sizes."""


class DataPool:
    """Groups of finished episodes, kept until a run has trained on them.

    A group is complete with its last episode, and is trained on by one run, once. Any number of processes of
    one machine may use a folder at the same time, and threads a pool.

    Example:
        >>> import tempfile
        >>> with DataPool(tempfile.mkdtemp(), group_size=2) as pool:
        ...     pool.counts(), pool.lease("run", 1, 4, oldest_version=None)
        ({}, None)
    """

    def __init__(self, folder: str | Path, *, group_size: int | None = None):
        """Open a pool, or begin one.

        Args:
            folder: folder of the pool, created where it is missing.
            group_size: number of episodes in a group, where `add` gives none.

        Raises:
            UsageError: the folder cannot be written, or holds something else.
        """
        self.folder = Path(folder)
        self.group_size = group_size
        self._threads = Lock()
        make_folder(self.folder)
        with self._errors():
            self._table = connect(self.folder / POOL_FILE)

    def close(self) -> None:
        """Release the file."""
        self._table.close()

    def __enter__(self) -> Self:
        """Return the pool itself."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close."""
        self.close()

    # ---- agents -----------------------------------------------------------------------------

    def add(
        self,
        trajectory: Trajectory,
        *,
        group: str,
        size: int | None = None,
        labels: Sequence[str] = (),
        trainable: bool = True,
    ) -> str:
        """Add an episode; when this returns, it is on the disk.

        Adding the same episode again has no effect, so that clients without an answer can retry. Its times
        may differ.

        Args:
            trajectory: with tokens and log-probabilities, if it is to be trained on. Its ``extra`` and the
                messages of its completions are not kept.
            group: name of its group, whose members begin in one state of one task.
            size: episodes of the group (default: the pool's ``group_size``).
            labels: added to those of the group.
            trainable: whether it may be trained on; its group is left out where it may not, until
                `set_trainable` changes that.

        Returns:
            The episode's id.

        Raises:
            UsageError: the group has another episode of this ``rollout``, or all that it is to have, or began
                otherwise; or the episode cannot be written.
        """
        size = self.group_size if size is None else size
        if size is None or size < 1:
            raise UsageError(f"say how many episodes group {group!r:.80} has, at least 1: got size {size}")
        COUNTED.check("the size of a group", size)
        COUNTED.check("the rollout of an episode", trajectory.rollout)
        check_names(group, *labels, *filter(None, (trajectory.env_id, trajectory.task_id)))
        try:
            packed, name = pack(trajectory), _episode_id(trajectory, group)
        except (ValueError, TypeError, struct.error) as error:
            raise UsageError(f"an episode of group {group} cannot be stored: {error}") from error
        answers = [step.completion for step in trajectory.steps]
        versions = [version for answer in answers for version in (answer.version, *answer.versions)]
        values = {
            "group": group, "size": size, "labels": json.dumps(sorted(set(labels))), "trainable": trainable,
            "oldest": min(versions, default=None), "newest": max(versions, default=None), "now": time(),
            "id": name, "trajectory": packed,
        }  # fmt: skip
        for each in ("env_id", "task_id", "initial_hash", "rollout", "won", "score"):
            values[each] = getattr(trajectory, each)
        with self._transaction() as table:
            if not _episodes(table, "id = :id", values):
                _check_fits(table, values)
                for statement in ADD:
                    table.execute(statement, values)
        return name

    def check(self, *, group: str, size: int | None, rollout: int, **start: str) -> None:
        """Raise a UsageError where `add` would, of an episode that is still to be played.

        ``group``, ``size`` and ``rollout`` as `add` takes them; ``start``: its ``env_id``, ``task_id`` and
        ``initial_hash``.
        """
        with self._transaction() as table:
            _check_fits(table, {"group": group, "size": size, "rollout": rollout, **start})

    def reward(
        self, episode: str, reward: float, *, won: bool | None = None, score: float | None = None
    ) -> None:
        """Set the late reward of an episode, which is added to that of its last step.

        Args:
            episode: its id.
            reward: replaces the one of an earlier call.
            won: whether the task was solved (default: as it was).
            score: the episode's (default: as it was).

        Raises:
            UsageError: there is no such episode, it has no step, or a run has leased its group.
        """
        if not (isfinite(reward) and isfinite(score or 0.0)):
            raise UsageError(f"rewards and scores are finite numbers, got {reward} and {score}")
        with self._transaction() as table:
            found = table.execute(
                "SELECT name, run, json_array_length(trajectory, '$.steps') "
                "FROM episodes JOIN groups USING (number) WHERE id = ?",
                (episode,),
            ).fetchone()
            if found is None:
                raise UsageError(
                    f"{self.folder} has no episode {episode!r:.60}: name the id that add returned"
                )
            group, run, steps = found
            if run is not None or not steps:
                reason = f"of group {group}, which {run} has leased" if steps else "without a step to reward"
                raise UsageError(
                    f"episode {episode} is {reason}: rewards come before the lease, and after a step"
                )
            table.execute(
                "UPDATE episodes SET late_reward = ?, won = coalesce(?, won), score = coalesce(?, score) "
                "WHERE id = ?",
                (reward, won, score, episode),
            )

    # ---- people -----------------------------------------------------------------------------

    def tag(self, group: str, *labels: str) -> None:
        """Add labels to a group."""
        check_names(*labels)
        self._change(group, f"labels = {CHANGED_LABELS.format('UNION', '?')}", json.dumps(labels))

    def untag(self, group: str, *labels: str) -> None:
        """Take labels from a group."""
        self._change(group, f"labels = {CHANGED_LABELS.format('EXCEPT', '?')}", json.dumps(labels))

    def set_trainable(self, group: str, trainable: bool) -> None:
        """Set whether a group may be trained on, overriding its episodes.

        Raises:
            UsageError: there is no such group, or a run has leased it.
        """
        self._change(group, "trainable = ?", trainable, unless=("leased", "trained"))

    def drop(self, group: str) -> None:
        """Never train on a group, even if a run has leased it: it then gets another one for the same update.

        Raises:
            UsageError: there is no such group, or a run has trained on it.
        """
        self._change(group, "dropped = ?", True, unless=("trained",))

    def release(self, run: str) -> None:
        """Return a run's leased and untrained groups to the pool; for runs that will not be resumed."""
        with self._transaction() as table:
            table.execute(
                "UPDATE groups SET run = NULL, batch = NULL, place = NULL WHERE run = ? AND NOT trained",
                (run,),
            )
            table.execute("DELETE FROM runs WHERE name = ?", (run,))

    def groups(self, *names: str) -> list[PooledGroup]:
        """Return groups by name, or all, in the order of their first episodes.

        Raises:
            UsageError: there is no group of a name.
        """
        with self._transaction() as table:
            rows = [] if names else table.execute(f"{GROUPS} ORDER BY number", {"run": ""}).fetchall()
            return [self._named(table, name) for name in names] or list(map(PooledGroup.of_row, rows))

    def counts(self, run: str = "") -> dict[str, int]:
        """Return the numbers of groups by `agentgym.rollout.pool_tables.GroupState`.

        ``run``: those that are stale for it.
        """
        with self._transaction() as table:
            rows = table.execute(f"SELECT {STATE}, count(*) FROM groups GROUP BY 1", {"run": run})
            return dict(rows.fetchall())

    def episodes(self, group: str) -> list[tuple[str, Trajectory]]:
        """Return the episodes of a group with their ids, by their rollouts; late rewards are in them."""
        with self._transaction() as table:
            rows = _episodes(table, "name = :name ORDER BY rollout", {"name": group})
        return [(str(row["id"]), _episode(row)) for row in rows]

    def export(self, path: Path, *groups: str) -> int:
        """Write episodes to a file, for `agentgym.rollout.stored_episode.read_episodes`; return how many.

        Late rewards are in their steps; leases are not written.

        Args:
            path: of the file, which appears whole or not at all.
            groups: their names (default: all that are not dropped).

        Raises:
            UsageError: there is no group of a name, or the file cannot be written.
        """
        chosen = [each for each in self.groups(*groups) if groups or each.state != "dropped"]
        members = ((each, played) for each in chosen for _, played in self.episodes(each.name))
        return write_records(
            path, (StoredEpisode(of.name, of.size, of.labels, of.trainable, played) for of, played in members)
        )

    # ---- a trainer --------------------------------------------------------------------------

    def lease(
        self,
        run: str,
        update: int,
        count: int,
        *,
        oldest_version: int | None,
        patience: float = PATIENCE,
    ) -> list[Group] | None:
        """Take the groups of an update, all at once; for the same update always the same ones.

        They are the oldest complete ones by their first episode. One that began earlier and is not complete
        is waited for: to take what is complete first would be to train on short episodes, often those that
        are won. It is passed over when its last episode came ``patience`` seconds ago, and comes first if it
        is ever complete.

        A run that goes back to an earlier update, as one does that is resumed, has not trained on later ones.

        Args:
            run: name of the run.
            update: number of the update, from 1.
            count: how many groups.
            oldest_version: groups that older weights sampled any token of are left alone; None for no bound.
            patience: in seconds.

        Returns:
            The groups, members by their rollouts; None where there are not enough yet.

        Raises:
            UsageError: the run has more groups for this update already.
        """
        check_names(run)
        values = {"run": run, "update": update, "oldest": oldest_version}
        with self._transaction() as table:
            table.execute(
                "UPDATE groups SET trained = 0 WHERE run = :run AND batch >= :update AND trained", values
            )
            held, place = table.execute(
                f"SELECT count(*), coalesce(max(place), 0) FROM groups WHERE {OF_LEASE}", values
            ).fetchone()
            if held > count:
                raise UsageError(f"{run} has {held} groups for update {update}, not {count}: ask for as many")
            if held < count:
                if oldest_version is not None:
                    table.execute(SET_OLDEST, values)
                found = _ready(table.execute(WAITING, values), count - held, time() - patience)
                if held + len(found) < count:
                    return None
                table.executemany(
                    "UPDATE groups SET run = ?, batch = ?, place = ? WHERE name = ?",
                    [(run, update, place + i, name) for i, name in enumerate(found, start=1)],
                )
            rows = _episodes(table, f"{OF_LEASE} ORDER BY place, rollout", values)
        return self._groups(rows, count)

    def leased(self, run: str, update: int) -> list[tuple[str, str]]:
        """Return group and id of each episode that a run has for an update, in the order of `lease`."""
        with self._transaction() as table:
            rows = _episodes(table, f"{OF_LEASE} ORDER BY place, rollout", {"run": run, "update": update})
        return [(row["name"], row["id"]) for row in rows]

    def trained(self, run: str, update: int) -> None:
        """Mark the groups of a run up to an update as trained."""
        with self._transaction() as table:
            table.execute(
                "UPDATE groups SET trained = 1 WHERE run = ? AND batch <= ? AND NOT dropped AND NOT trained",
                (run, update),
            )

    # ---- inside -----------------------------------------------------------------------------

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run a block as one transaction, which excludes all other threads and processes."""
        with self._errors(), self._threads, self._table as table:
            limit(table, self.folder / POOL_FILE)
            table.execute("BEGIN IMMEDIATE")
            yield table

    @contextmanager
    def _errors(self) -> Iterator[None]:
        path = self.folder / POOL_FILE
        try:
            yield
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            line = printable(" ".join(str(error).split()))
            raise UsageError(f"cannot use {path}: {line}; free space, or put back a copy of it") from error

    def _change(self, group: str, assignment: str, value: Any, unless: Sequence[str] = ()) -> None:
        with self._transaction() as table:
            found = self._named(table, group)
            if found.state in unless:
                raise UsageError(f"group {group} is {found.state} by run {found.run}: choose another group")
            table.execute(f"UPDATE groups SET {assignment} WHERE name = ?", (value, group))

    def _groups(self, rows: Iterable[sqlite3.Row], count: int) -> list[Group]:
        """Return the groups with their episodes' rows, at most as many."""
        members = [(row["name"], _episode(row)) for row in rows]
        found = [tuple(each for _, each in group) for _, group in groupby(members, key=itemgetter(0))]
        if len(found) != count:
            raise UsageError(f"{self.folder / POOL_FILE} has a group without episodes: put back a copy of it")
        try:
            return [Group(each[0].task_id, each[0].initial_hash, each) for each in found]
        except ValueError as error:
            raise UsageError(f"{self.folder / POOL_FILE}: {error}; put back a copy of it") from error

    def _named(self, table: sqlite3.Connection, group: str) -> PooledGroup:
        row = table.execute(f"{GROUPS} WHERE name = :name", {"name": group, "run": ""}).fetchone()
        if row is None:
            raise UsageError(f"{self.folder} has no group {group!r:.80}: `agentgym data pool ls` lists them")
        return PooledGroup.of_row(row)


def check_names(*names: str) -> None:
    """Raise a UsageError for a name that no pool takes."""
    for name in names:
        if not (0 < len(name) <= MAX_NAME and name.isprintable()):
            raise UsageError(
                f"groups, runs, labels, environments and tasks have names of 1 to {MAX_NAME} printable "
                f"characters, got {name!r:.80}"
            )


def _episode_id(trajectory: Trajectory, group: str) -> str:
    """Return a digest of all that makes an episode the same: not of its times."""
    return blake2b(f"{group}\n{pack(timeless(trajectory))}".encode(), digest_size=DIGEST_BYTES).hexdigest()


def _check_fits(table: sqlite3.Connection, episode: Mapping[str, Any]) -> None:
    """Refuse an episode that its group does not take."""
    group = table.execute("SELECT * FROM groups WHERE name = :group", episode).fetchone()
    if group is None:
        return
    reason = ""
    if _episodes(table, "name = :group AND rollout = :rollout", episode):
        reason = f"it has another rollout {episode['rollout']} already"
    elif episode["size"] != group["size"]:
        reason = f"it is of {group['size']} episodes, not of {episode['size']}"
    elif any(episode[each] != group[each] for each in ("env_id", "task_id", "initial_hash")):
        reason = (
            f"its episodes began in state {group['initial_hash']} of task {group['task_id']} of "
            f"{group['env_id']}, this one did not"
        )
    elif group["members"] >= group["size"]:
        reason = f"it has its {group['size']} episodes already"
    if reason:
        raise UsageError(f"group {episode['group']} does not take the episode: {reason}; name another group")


def _episodes(table: sqlite3.Connection, which: str, values: Mapping[str, Any]) -> list[sqlite3.Row]:
    return table.execute(f"{EPISODES} WHERE {which}", values).fetchall()


def _episode(row: sqlite3.Row) -> Trajectory:
    """Return an episode, its late reward included."""
    where = f"the episode {row['id']!r:.80} of {POOL_FILE}"
    played, late, score = read_trajectory(row["trajectory"], where), row["late_reward"], row["score"]
    if late is None:
        return played
    numbers = isinstance(late, float) and isinstance(score, float) and isinstance(row["won"], int)
    if not (numbers and played.steps and isfinite(played.steps[-1].reward + late) and isfinite(score)):
        raise UsageError(f"{where} has a reward that is not a number, or no step: put back a copy of it")
    *steps, last = played.steps
    steps.append(replace(last, reward=last.reward + late))
    return replace(played, steps=tuple(steps), won=bool(row["won"]), score=score)


def _ready(waiting: Iterable[sqlite3.Row], count: int, begun_before: float) -> list[str]:
    """Return the names of groups to lease, at most as many; fewer while an incomplete one is due."""
    found: list[str] = []
    for name, complete, last_added in waiting:
        if complete:
            found.append(name)
        if len(found) == count or not (complete or last_added < begun_before):
            break
    return found
