"""Data pool: a folder of finished groups of episodes between agents and a trainer.

Agents add episodes, a trainer leases groups, people look and tag, each from a process of its own. The
segments ``episodes/NNNNNN.jsonl`` are the truth: lines are only ever appended, one for each episode and one
for each change, and what a call has returned for is on the disk. ``index.sqlite`` says where the lines are
and what they come to; each call brings it up to date first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from time import time
from typing import Any, Self

from agentgym.core.types import Group, Trajectory
from agentgym.errors import UsageError
from agentgym.io.files import writing
from agentgym.rollout.pool_files import PoolFiles
from agentgym.rollout.pool_index import PoolChange, PooledGroup, PoolIndex, StoredLine
from agentgym.rollout.stored_episode import (
    StoredEpisode,
    make_line,
    pack_episode,
    parse_body,
    split_line,
    unpack_episode,
)

PATIENCE = 600.0
"""Seconds after its last episode for which a group that is not complete is waited for."""
MAX_NAME = 200
"""Characters of the name of a group, a run or a label."""
MAX_SIZE = 65_536
"""Episodes of a group at most."""
MAX_LABELS = 64
"""Labels that an episode brings at most."""


class DataPool:
    """Groups of finished episodes, kept until a run has trained on them.

    A group is complete with its last episode, and is trained on by one run, once. Any number of processes of
    one machine may use a folder at the same time, and threads a pool.

    Example:
        >>> import tempfile
        >>> pool = DataPool(tempfile.mkdtemp(), group_size=2)
        >>> pool.counts(), pool.lease("run", 1, 4, oldest_version=None)
        ({}, None)
    """

    def __init__(self, folder: str | Path, *, group_size: int | None = None):
        """Open a pool, or begin one.

        Args:
            folder: made where it is missing.
            group_size: episodes of a group whose size `add` is not told.

        Raises:
            UsageError: the folder cannot be written, or a segment is damaged.
        """
        self.folder = Path(folder)
        self.group_size = group_size
        self._files = PoolFiles(self.folder)
        self.counts()  # refuses what it could not use

    def close(self) -> None:
        """Release the files."""
        self._files.close()

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

        The same episode may be added again, as clients do that had no answer: it is there once. Its times may
        differ.

        Args:
            trajectory: with tokens and log-probabilities, if it is to be trained on. Its ``extra`` and the
                messages of its completions are not kept.
            group: name of its group, whose members begin in one state of one task.
            size: episodes of the group (default: the pool's ``group_size``).
            labels: added to those of the group.
            trainable: a group with a member that is not is left out, unless `set_trainable` says otherwise.

        Returns:
            The episode's id.

        Raises:
            UsageError: the group has another episode of this ``rollout``, or all that it is to have, or began
                otherwise; or the episode cannot be written.
        """
        size = self.group_size if size is None else size
        if size is None or not 1 <= size <= MAX_SIZE or len(labels) > MAX_LABELS:
            raise UsageError(
                f"an episode is of a group of 1 to {MAX_SIZE:,} and has at most {MAX_LABELS} labels, got "
                f"size {size} and {len(labels)} labels"
            )
        for each in (group, *labels):
            _check_name(each)
        stored = {
            "group": group,
            "size": size,
            "labels": list(labels),
            "trainable": trainable,
            "added": time(),
        }
        try:
            line = make_line("episode", pack_episode(trajectory, **stored))
            _, body, name = split_line(line.encode())
            record = parse_body(StoredEpisode, body)
        except (ValueError, TypeError, KeyError, OverflowError, AttributeError) as error:
            raise UsageError(f"an episode of group {group} cannot be stored: {error}") from error
        with self._files.locked() as index:
            known = index.members(group, trajectory.rollout)
            if known and _played(next(self._files.read(known))) == _played(json.loads(body)):
                return known[0].id
            if reason := index.conflict(record):
                raise UsageError(f"group {group} does not take the episode: {reason}; name another group")
            index.insert(name, record, self._files.append(index, line))
        return name

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
        with self._files.locked() as index:
            found = index.about(episode)
            if found is None:
                raise UsageError(
                    f"{self.folder} has no episode {episode!r:.60}: name the id that add returned"
                )
            group, steps, run = found
            if run is not None or not steps:
                reason = f"of group {group}, which {run} has leased" if steps else "without a step to reward"
                raise UsageError(
                    f"episode {episode} is {reason}: rewards come before the lease, and after a step"
                )
            late = PoolChange(kind="reward", episode=episode, reward=reward, won=won, score=score)
            self._files.change(index, late)

    # ---- people -----------------------------------------------------------------------------

    def tag(self, group: str, *labels: str) -> None:
        """Add labels to a group."""
        self._change_group(PoolChange(kind="tag", group=group, labels=labels))

    def untag(self, group: str, *labels: str) -> None:
        """Take labels from a group."""
        self._change_group(PoolChange(kind="untag", group=group, labels=labels))

    def set_trainable(self, group: str, trainable: bool) -> None:
        """Say whether a group may be trained on, whatever its episodes say.

        Raises:
            UsageError: there is no such group, or a run has leased it.
        """
        change = PoolChange(kind="trainable", group=group, trainable=trainable)
        self._change_group(change, unless=("leased", "trained"))

    def drop(self, group: str) -> None:
        """Never train on a group, even if a run has leased it: it then gets another one for the same update.

        Raises:
            UsageError: there is no such group, or a run has trained on it.
        """
        self._change_group(PoolChange(kind="drop", group=group), unless=("trained",))

    def release(self, run: str) -> None:
        """Give back what a run has leased and not trained on; for runs that will not be resumed."""
        with self._files.locked() as index:
            self._files.change(index, PoolChange(kind="release", run=run))

    def groups(self, *names: str) -> list[PooledGroup]:
        """Return groups by name, or all, in the order of their first episodes.

        Raises:
            UsageError: there is no group of a name.
        """
        with self._files.locked() as index:
            return [self._named(index, name) for name in names] or index.groups()

    def counts(self, run: str = "") -> dict[str, int]:
        """Return the numbers of groups by `agentgym.rollout.pool_index.GroupState`; ``run``: stale for it."""
        with self._files.locked() as index:
            return index.counts(run)

    def episodes(self, group: str) -> list[tuple[str, Trajectory]]:
        """Return the episodes of a group with their ids, by their rollouts; late rewards are in them."""
        with self._files.locked() as index:
            lines = index.members(group)
        return [(line.id, played) for line, played in zip(lines, self._trajectories(lines), strict=True)]

    def export(self, path: Path, *groups: str) -> int:
        """Write episodes to a file, as a segment of another pool has them; return how many.

        Late rewards are in their steps; leases are not written.

        Args:
            path: of the file, which appears whole or not at all.
            groups: their names (default: all that are not dropped).

        Raises:
            UsageError: there is no group of a name, or the file cannot be written.
        """
        chosen = [each for each in self.groups(*groups) if groups or each.state != "dropped"]
        draft, written = path.with_name(f".{path.name}.{os.getpid()}.tmp"), 0
        try:
            with writing(path), draft.open("w", encoding="utf-8") as file:
                for group in chosen:
                    stored = {"group": group.name, "size": group.size, "labels": list(group.labels)}
                    for _, played in self.episodes(group.name):
                        table = pack_episode(played, **stored, trainable=group.trainable, added=time())
                        file.write(f"{make_line('episode', table)}\n")
                        written += 1
                draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
        return written

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

        Args:
            run: name of the run.
            update: number of the update, from 1.
            count: how many groups.
            oldest_version: groups that older weights sampled any token of are left alone; None for no bound.
            patience: in seconds.

        Returns:
            The groups, members by their rollouts; None where there are not enough yet.

        Raises:
            UsageError: the run has more groups for this update already, or a line of one of them is damaged.
        """
        _check_name(run)
        with self._files.locked() as index:
            held = len({line.group for line in index.leased(run, update)})
            if held > count:
                raise UsageError(f"{run} has {held} groups for update {update}, not {count}: rewind it first")
            if held < count:
                if oldest_version is not None and index.required(run) != oldest_version:
                    self._files.change(index, PoolChange(kind="require", run=run, oldest=oldest_version))
                found = index.ready(run, count - held, oldest_version, time() - patience)
                if held + len(found) < count:
                    return None
                self._files.change(
                    index, PoolChange(kind="lease", run=run, update=update, groups=tuple(found))
                )
            lines = index.leased(run, update)
        played = zip(lines, self._trajectories(lines), strict=True)
        groups = groupby(played, key=lambda pair: pair[0].group)
        return [_group(tuple(each for _, each in members)) for _, members in groups]

    def leased(self, run: str, update: int) -> list[tuple[str, str]]:
        """Return group and id of each episode that a run has for an update, in the order of `lease`."""
        with self._files.locked() as index:
            return [(line.group, line.id) for line in index.leased(run, update)]

    def rewind(self, run: str, update: int) -> None:
        """Go back to the state of a run after an update, 0 for its beginning.

        Groups of later updates stay reserved to the run, and are leased again in their order before others.
        """
        with self._files.locked() as index:
            self._files.change(index, PoolChange(kind="rewind", run=run, update=update))

    def trained(self, run: str, update: int) -> None:
        """Mark the groups of a run up to an update as trained; only a `rewind` of the run takes it back."""
        with self._files.locked() as index:
            self._files.change(index, PoolChange(kind="trained", run=run, update=update))

    # ---- inside -----------------------------------------------------------------------------

    def _change_group(self, change: PoolChange, unless: Sequence[str] = ()) -> None:
        for label in change.labels:
            _check_name(label)
        with self._files.locked() as index:
            found = self._named(index, change.group)
            if found.state in unless:
                raise UsageError(
                    f"group {found.name} is {found.state} by run {found.run}: choose another group"
                )
            self._files.change(index, change)

    def _named(self, index: PoolIndex, group: str) -> PooledGroup:
        found = index.groups(group)
        if not found:
            raise UsageError(f"{self.folder} has no group {group!r:.80}: `agentgym data pool ls` lists them")
        return found[0]

    def _trajectories(self, lines: Sequence[StoredLine]) -> Iterator[Trajectory]:
        """Yield what was played, with late rewards."""
        for line, table in zip(lines, self._files.read(lines), strict=True):
            played = unpack_episode(table)
            if line.late is not None:
                last = replace(played.steps[-1], reward=played.steps[-1].reward + line.late)
                steps = (*played.steps[:-1], last)
                played = replace(played, steps=steps, won=bool(line.won), score=line.score)
            yield played


def _group(members: tuple[Trajectory, ...]) -> Group:
    return Group(members[0].task_id, members[0].initial_hash, members)


def _check_name(name: str) -> None:
    if not (0 < len(name) <= MAX_NAME and name.isprintable()):
        raise UsageError(
            f"groups, runs and labels have names of 1 to {MAX_NAME} printable characters, got {name!r:.80}"
        )


def _played(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes two stored episodes the same: all but times and what is said of the group."""
    steps = [{**step, "completion": {**step["completion"], "seconds": 0.0}} for step in table["steps"]]
    said = ("added", "env_seconds", "model_seconds", "labels", "trainable")
    return {**{name: value for name, value in table.items() if name not in said}, "steps": steps}
