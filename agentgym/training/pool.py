"""Rollout pool, the replay buffer: the order of episodes, and the age of their groups at training.

With ``max_staleness`` 0 a round of groups is played to its end before it is trained on. With more, the pool
plays on: episodes still running continue with the new weights. Groups are trained on in the order in which
they begin, and none begins that would be too old by its turn (`GroupQueue`), so none is dropped. To take
those that end first, and drop the old ones, would be to train on short episodes: often those that are won.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from threading import Condition, Thread
from typing import Any

import numpy as np

from agentgym.algos.filters import dynamic_sampling, varies
from agentgym.core.arrays import Ints
from agentgym.core.tasks import TaskSet
from agentgym.core.types import Group, Trajectory
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.config import RolloutConfig
from agentgym.training.learner.distributed import Ranks
from agentgym.training.rollout_batch import Collected

_SHUFFLE, _EPISODE = 0, 1
"""What a seed's streams are for."""


class TaskOrder:
    """An endless, fixed order of a split's tasks: shuffled anew each time all have been played.

    Example:
        >>> from agentgym.envs.ezpoints.env import EZPointsEnv
        >>> tasks = EZPointsEnv().tasks
        >>> order = TaskOrder(tasks, seed=3)
        >>> first, again = order.episodes(0, 2)
        >>> first.seed == again.seed, first.rollout, again.rollout
        (True, 0, 1)
        >>> len({order.episodes(position, 1)[0].task_id for position in range(len(tasks))}) == len(tasks)
        True
    """

    def __init__(self, tasks: TaskSet, seed: int):
        """Fix the order of tasks; ``seed`` is of the order and of the episodes' environments."""
        self.tasks = tasks
        self.seed = seed
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> Ints:
        draws = np.random.default_rng(np.random.SeedSequence([self.seed, _SHUFFLE, epoch]))
        return draws.permutation(len(self.tasks))

    def episodes(self, position: int, group_size: int) -> list[EpisodeSpec]:
        """Return the episodes of a group, which share task and environment seed; positions count from 0."""
        epoch, place = divmod(position, len(self.tasks))
        task = self.tasks[int(self._epoch(epoch)[place])].id
        stream = np.random.SeedSequence([self.seed, _EPISODE, position])
        seed = int(stream.generate_state(1, np.uint64)[0])
        return [EpisodeSpec(task, seed, member) for member in range(group_size)]


@dataclass(slots=True)
class PoolCounts:
    """Counts of the groups begun: ``begun = trained + dropped + left_out + pending``."""

    begun: int = 0
    episodes: int = 0
    """Played to their ends."""
    trained: int = 0
    """Handed out."""
    dropped: int = 0
    """Cut off where a run was stopped, and begun anew when it was continued."""
    left_out: int = 0
    """By dynamic sampling: alike, or more than were wanted."""

    @property
    def pending(self) -> int:
        """Running, or complete and waiting."""
        return self.begun - self.trained - self.dropped - self.left_out


class GroupQueue:
    """The groups of a stream that have begun, oldest first; it alone decides which may begin.

    Update u trains on groups ``u * size`` to ``(u + 1) * size - 1``, whichever end first. Group g begins only
    while ``g < (u + max_staleness + 1) * size``, where u is the update that is waited for or made: then no
    step is more than ``max_staleness`` updates old when its group's turn comes, and no group begins in vain.
    One that dynamic sampling leaves out is not counted; those behind it move up.

    Example:
        >>> from agentgym.envs.ezpoints.env import EZPointsEnv
        >>> config = RolloutConfig(tasks=2, group_size=3, max_staleness=1)
        >>> queue = GroupQueue(TaskOrder(EZPointsEnv().tasks, seed=3), config, Ranks(), PoolCounts())
        >>> queue.update = 0
        >>> [len(queue.begin()) for _ in range(5)]
        [3, 3, 3, 3, 0]
    """

    def __init__(self, order: TaskOrder, config: RolloutConfig, ranks: Ranks, counts: PoolCounts):
        """Begin with nothing, for update -1; each rank has a queue of its part, and updates ``counts``."""
        self.update = -1
        self.size = config.tasks // ranks.size
        self.next = ranks.rank
        """Position of the next group in the order."""
        self._order, self._config, self._ranks, self._counts = order, config, ranks, counts
        self._begun = 0
        self._open: dict[int, tuple[int, list[Trajectory]]] = {}
        """Positions and episodes, by seed: a group's seed is its own."""
        self._complete: deque[tuple[int, Group]] = deque()
        self._alike = 0

    @property
    def admits(self) -> bool:
        """Whether another group may begin."""
        return self._begun < (self.update + self._config.max_staleness + 1) * self.size

    @property
    def ready(self) -> bool:
        """Whether the groups of an update are complete."""
        return len(self._complete) >= self.size

    @property
    def oldest(self) -> int:
        """Position of the oldest group that is not handed out."""
        return next((position for position, _ in (*self._complete, *self._open.values())), self.next)

    def begin(self) -> list[EpisodeSpec]:
        """Return the episodes of the next group; none while it may not begin."""
        if not self.admits:
            return []
        specs = self._order.episodes(self.next, self._config.group_size)
        self._open[specs[0].seed] = self.next, []
        self.next += self._ranks.size
        self._begun += 1
        self._counts.begun += 1
        return specs

    def add(self, trajectory: Trajectory) -> None:
        """Take an episode that is over.

        Dynamic sampling, too, looks at groups in their order: those that it keeps because it gives up would
        be the long ones otherwise.
        """
        config = self._config
        self._counts.episodes += 1
        self._open[trajectory.seed][1].append(trajectory)
        for seed, (position, members) in list(self._open.items()):
            if len(members) < config.group_size:
                break
            group = _group(self._open.pop(seed)[1])
            gives_up = self._alike >= (config.attempts - 1) * self.size
            if gives_up or varies(group, config.filter_on, config.accuracy):
                self._complete.append((position, group))
                if len(self._complete) % self.size == 0:
                    self._alike = 0
            else:
                self._alike += 1
                self._begun -= 1
                self._counts.left_out += 1

    def check_progress(self) -> None:
        """Raise RuntimeError where, with no episode running, an update's groups can never be complete."""
        if not (self.ready or self.admits):
            raise RuntimeError(
                f"no episode is running and none may begin, but {len(self._complete)} of an update's "
                f"{self.size} groups are complete: the worker has lost episodes"
            )

    def sizes(self) -> dict[str, int]:
        """Return the numbers of groups by what has become of them; ``lost`` is 0 but for errors."""
        running, waiting = len(self._open), len(self._complete)
        return {"running": running, "waiting": waiting, "lost": self._counts.pending - running - waiting}

    def take(self) -> list[Group]:
        """Return the groups of an update, once they are ready."""
        self._counts.trained += self.size
        return [self._complete.popleft()[1] for _ in range(self.size)]


def _group(members: list[Trajectory]) -> Group:
    members = sorted(members, key=lambda member: member.rollout)
    return Group(members[0].task_id, members[0].initial_hash, tuple(members))


def _age(groups: Iterable[Group], version: int) -> int:
    """Return how many updates the oldest step is old; 0 of nothing."""
    members = (member for group in groups for member in group.trajectories)
    return max((version - step.completion.version for member in members for step in member.steps), default=0)


class RolloutPool:
    """Plays groups of episodes for one learner.

    Example:
        >>> import gymnasium, agentgym
        >>> envs = gymnasium.make_vec("agentgym/EZPoints-v0", num_envs=4, autoreset_mode="Disabled")
        >>> worker = RolloutWorker(envs, envs.prototype.oracle(), env_id="agentgym/EZPoints-v0")
        >>> pool = RolloutPool(worker, TaskOrder(envs.tasks, seed=0), RolloutConfig(tasks=3, group_size=2))
        >>> [len(group.trajectories) for group in pool.collect(version=0).groups], pool.counts.pending
        ([2, 2, 2], 0)
    """

    def __init__(
        self, worker: RolloutWorker, order: TaskOrder, config: RolloutConfig, ranks: Ranks | None = None
    ):
        """Bind worker and task order; the worker's policy stamps completions with the weights' version.

        ``ranks`` play together, each its part; all get all groups. By default this process alone. Groups of a
        continuous stream cannot be divided among ranks.
        """
        self.ranks = ranks or Ranks()
        if config.max_staleness > 0 and config.tasks % self.ranks.size:
            raise UsageError(
                f"{config.tasks} tasks cannot be divided among {self.ranks.size} processes that play on "
                "during updates: choose a multiple"
            )
        self.worker = worker
        self.order = order
        self.config = config
        self.counts = PoolCounts()
        self._position = 0
        """Of the next group of all ranks, where no queue is open."""
        self._queue: GroupQueue | None = None
        self._playing: Iterator[Trajectory | None] = iter(())
        self._thread: Thread | None = None
        self._changed = Condition()
        """Guards the queue, the counts and what follows."""
        self._error: BaseException | None = None
        self._closing = False

    def collect(self, version: int) -> Collected:
        """Return the groups of one update.

        ``version``: of the weights that are about to be updated, which the policy has already.
        """
        config = self.config
        if config.max_staleness == 0:
            groups = dynamic_sampling(
                self._round,
                config.tasks,
                filter_on=config.filter_on,
                attempts=config.attempts,
                accuracy=config.accuracy,
            )
            self.counts.trained += len(groups)
            self.counts.left_out += self.counts.pending
            return Collected(groups)
        with self._changed:
            queue = self._queue or self._open()
            queue.update += 1
            self._changed.notify_all()
            if config.overlap:
                self._changed.wait_for(lambda: queue.ready or self._error is not None)
            elif not queue.ready:
                self._play(queue)
            if self._error is not None and not queue.ready:
                raise self._error
            own, sizes = queue.take(), queue.sizes()
        groups = self.ranks.gather(own)
        of_ranks = self.ranks.gather([sizes])
        report = {name: sum(each[name] for each in of_ranks) for name in sizes}
        return Collected(groups, diagnostics={"pool": {**report, "age": _age(groups, version)}})

    def leave_out(self, groups: int) -> None:
        """Count groups of all ranks that were collected but are not trained on."""
        whole_round = self.config.max_staleness == 0  # otherwise each rank counts its part
        if whole_round or self.ranks.is_first:
            with self._changed:
                self.counts.trained -= groups
                self.counts.left_out += groups

    @property
    def episodes(self) -> int:
        """Episodes played to their ends."""
        return self.counts.episodes

    def state_dict(self) -> dict[str, Any]:
        """Return the counts of the groups begun, and the position of the oldest pending one.

        Episodes are not part of it: a resumed run begins the pending groups anew. So does this one, to go on
        as that one does, unless a thread plays: then runs are not repeatable.
        """
        with self._changed:
            if self._queue is not None:
                self._position = self._queue.oldest - self.ranks.rank
                if self._thread is None:
                    self._queue = None
                    self.counts.dropped += self.counts.pending
            return {**asdict(self.counts), "position": self._position}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from `state_dict`; groups that were pending count as dropped, and begin anew."""
        counts = dict(state)
        self._position = counts.pop("position", counts["begun"])  # older versions never played them again
        self.counts = PoolCounts(**counts)
        self.counts.dropped += self.counts.pending

    def over_ranks(self) -> tuple[int, int]:
        """Return the numbers of untrained and of pending groups of all ranks, which all have to call."""
        own = {"lost": self.counts.dropped + self.counts.left_out, "pending": self.counts.pending}
        if self.config.max_staleness > 0:  # otherwise every rank counts the whole round
            own = {name: int(number) for name, number in self.ranks.sum(own).items()}
        return own["lost"], own["pending"]

    def close(self) -> None:
        """End what is being played ahead, if anything is."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # ---- inside -----------------------------------------------------------------------------

    def _round(self) -> list[Group]:
        """Play a round of groups to its end; return them in the order in which they were begun."""
        first, self._position = self._position, self._position + self.config.tasks
        self.counts.begun += self.config.tasks
        positions = self.ranks.share(range(first, self._position))
        specs = [spec for each in positions for spec in self.order.episodes(each, self.config.group_size)]
        members: dict[int, list[Trajectory]] = {spec.seed: [] for spec in specs}
        for trajectory in self.worker.run(specs):
            self.counts.episodes += 1
            members[trajectory.seed].append(trajectory)
        return self.ranks.gather([_group(each) for each in members.values()])

    def _open(self) -> GroupQueue:
        """Begin a stream, in a thread of its own where it plays on during updates."""
        self._queue = queue = GroupQueue(self.order, self.config, self.ranks, self.counts)
        queue.next += self._position
        self._playing = self._stream(queue)
        if self.config.overlap:
            self._thread = Thread(target=self._play_on, args=(queue,), name="rollouts", daemon=True)
            self._thread.start()
        return queue

    def _episodes(self, queue: GroupQueue) -> Iterator[EpisodeSpec | None]:
        while True:
            with self._changed:
                specs = queue.begin()
            yield from specs
            if not specs:
                yield None

    def _stream(self, queue: GroupQueue) -> Iterator[Trajectory | None]:
        """Yield episodes as they end; None where none is left and no group may begin."""
        episodes = self._episodes(queue)
        while True:
            yield from self.worker.run(episodes)
            yield None

    def _play(self, queue: GroupQueue) -> None:
        """Play until the groups of an update are complete."""
        for trajectory in self._playing:
            if trajectory is None:
                queue.check_progress()
            else:
                queue.add(trajectory)
            if queue.ready:
                return
        raise UsageError("the stream of episodes has ended: this pool's environment failed before")

    def _play_on(self, queue: GroupQueue) -> None:
        """Play until the pool is closed."""
        try:
            for trajectory in self._playing:
                with self._changed:
                    if trajectory is None:
                        queue.check_progress()
                        self._changed.wait_for(lambda: queue.admits or self._closing)
                    else:
                        queue.add(trajectory)
                        self._changed.notify_all()
                    if self._closing:
                        return
        except BaseException as error:  # noqa: BLE001  # raised to the next collector
            with self._changed:
                self._error = error
                self._changed.notify_all()
