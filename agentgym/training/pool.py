"""The rollout pool: which episodes are played, and when their groups are trained on.

With ``max_staleness`` 0 a round of groups is played to its end before it is trained on. With more, the
pool keeps its slots busy throughout the run: an update waits for the first groups that are complete, the
episodes still running continue with the new weights, and a group is dropped when its oldest step was sampled
more than ``max_staleness`` updates ago (cf. AReaL, Fu et al., 2025, arXiv:2505.24298).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import count, islice
from queue import Full, Queue
from threading import Event, Thread
from typing import Any

import numpy as np

from agentgym.algos.filters import dynamic_sampling, varies
from agentgym.arrays import Ints
from agentgym.errors import UsageError
from agentgym.rollout import EpisodeSpec, RolloutWorker
from agentgym.tasks import TaskSet
from agentgym.training.collected import Collected
from agentgym.training.config import RolloutConfig
from agentgym.training.learner.distributed import Ranks
from agentgym.types import Group, Trajectory

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
        """Fix the order.

        Args:
            tasks: what is played.
            seed: of the order and of the episodes' environments.
        """
        self.tasks = tasks
        self.seed = seed
        self._epoch = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> Ints:
        draws = np.random.default_rng(np.random.SeedSequence([self.seed, _SHUFFLE, epoch]))
        return draws.permutation(len(self.tasks))

    def episodes(self, position: int, group_size: int) -> list[EpisodeSpec]:
        """Return the episodes of a group, which share task and environment seed.

        Args:
            position: of the group, from 0.
            group_size: how many.
        """
        epoch, place = divmod(position, len(self.tasks))
        task = self.tasks[int(self._epoch(epoch)[place])].id
        stream = np.random.SeedSequence([self.seed, _EPISODE, position])
        seed = int(stream.generate_state(1, np.uint64)[0])
        return [EpisodeSpec(task, seed, member) for member in range(group_size)]


@dataclass(slots=True)
class PoolCounts:
    """What became of the groups begun: ``begun = trained + dropped + left_out + pending``."""

    begun: int = 0
    episodes: int = 0
    """Played to their ends."""
    trained: int = 0
    """Handed out."""
    dropped: int = 0
    """Too old, or lost where a run was stopped and continued."""
    left_out: int = 0
    """By dynamic sampling: alike, or more than were wanted."""

    @property
    def pending(self) -> int:
        """Running, or complete and waiting."""
        return self.begun - self.trained - self.dropped - self.left_out


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
        """Bind who plays, and what.

        Args:
            worker: its policy stamps completions with the version of the weights.
            order: of the tasks.
            config: how many, and how old they may be.
            ranks: that play together, each its part; all get all groups. By default this process alone.

        Raises:
            UsageError: groups of a continuous stream cannot be divided among the ranks.
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
        self._stream: Iterator[Group] | None = None
        self._ahead: Ahead | None = None

    def collect(self, version: int) -> Collected:
        """Return the groups of one update.

        Args:
            version: of the weights that are about to be updated.

        Raises:
            UsageError: what the policy or the environment raises.
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
        if self._stream is None:
            self._stream = self._groups(self._endless())
            if config.overlap:
                wanted = config.tasks * config.max_staleness // self.ranks.size
                self._stream = self._ahead = Ahead(self._stream, wanted)
        own = list(islice(self._fresh(self._stream, version), config.tasks // self.ranks.size))
        return Collected(self.ranks.gather(own))

    def leave_out(self, groups: int) -> None:
        """Count groups of all ranks that were handed out as left out: nobody trains on them."""
        whole_round = self.config.max_staleness == 0  # otherwise each rank counts its part
        if whole_round or self.ranks.is_first:
            self.counts.trained -= groups
            self.counts.left_out += groups

    @property
    def episodes(self) -> int:
        """Episodes played to their ends."""
        return self.counts.episodes

    def state_dict(self) -> dict[str, Any]:
        """Return what became of the groups begun.

        Groups that are being played are not resumed, so they are dropped here too, and a resumed run goes on
        as this one does; but for those that a thread plays, whose runs are not repeatable.
        """
        if self._ahead is None and self._stream is not None:
            self._stream = None
            self.counts.dropped += self.counts.pending
        return asdict(self.counts)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from `state_dict`; groups that were being played are not resumed and count as dropped."""
        self.counts = PoolCounts(**state)
        self.counts.dropped += self.counts.pending

    def over_ranks(self) -> tuple[int, int]:
        """Return how many groups of all ranks were not trained on, and are pending; all ranks have to ask."""
        own = {"lost": self.counts.dropped + self.counts.left_out, "pending": self.counts.pending}
        if self.config.max_staleness > 0:  # otherwise every rank counts the whole round
            own = {name: int(number) for name, number in self.ranks.sum(own).items()}
        return own["lost"], own["pending"]

    def close(self) -> None:
        """End what is being played ahead, if anything is."""
        if self._ahead is not None:
            self._ahead.close()

    # ---- inside -----------------------------------------------------------------------------

    def _round(self) -> list[Group]:
        """Play a round of groups to its end; return them in the order in which they were begun."""
        begin = self.counts.begun
        self.counts.begun += self.config.tasks
        positions = self.ranks.share(range(begin, self.counts.begun))
        episodes = [spec for position in positions for spec in self._episodes(position)]
        place = {spec.seed: number for number, spec in enumerate(episodes)}
        own = sorted(self._groups(iter(episodes)), key=lambda group: place[group.trajectories[0].seed])
        return self.ranks.gather(own)

    def _episodes(self, position: int) -> list[EpisodeSpec]:
        return self.order.episodes(position, self.config.group_size)

    def _endless(self) -> Iterator[EpisodeSpec]:
        for turn in count(self.counts.begun):
            self.counts.begun += 1
            yield from self._episodes(turn * self.ranks.size + self.ranks.rank)

    def _groups(self, episodes: Iterator[EpisodeSpec]) -> Iterator[Group]:
        """Yield each group when its last episode is over; a group's seed is its own."""
        open_groups: dict[int, list[Trajectory]] = {}
        for trajectory in self.worker.run(episodes):
            self.counts.episodes += 1
            members = open_groups.setdefault(trajectory.seed, [])
            members.append(trajectory)
            if len(members) == self.config.group_size:
                del open_groups[trajectory.seed]
                members.sort(key=lambda member: member.rollout)
                yield Group(members[0].task_id, members[0].initial_hash, tuple(members))

    def _fresh(self, groups: Iterator[Group], version: int) -> Iterator[Group]:
        """Yield groups that are young enough, and vary if they have to; give up on variety after a while."""
        config, alike = self.config, 0
        for group in groups:
            if version - oldest(group, version) > config.max_staleness:
                self.counts.dropped += 1
                continue
            kept = varies(group, config.filter_on, config.accuracy)
            if alike < (config.attempts - 1) * config.tasks and not kept:
                alike += 1
                self.counts.left_out += 1
                continue
            self.counts.trained += 1
            yield group
        raise UsageError("the stream of episodes has ended: this pool's environment failed before")


def oldest(group: Group, version: int) -> int:
    """Return the version of the weights that a group's first tokens were sampled with.

    Args:
        group: completed.
        version: of the weights now, for a group without a step.
    """
    versions = (step.completion.version for member in group.trajectories for step in member.steps)
    return min(versions, default=version)


class Ahead:
    """Takes from an iterator in a thread of its own, a few items ahead of whoever asks.

    Example:
        >>> ahead = Ahead(iter("abc"), 2)
        >>> list(ahead)
        ['a', 'b', 'c']
    """

    def __init__(self, items: Iterator[Group], most: int):
        """Begin to take.

        Args:
            items: used by the thread alone from now on.
            most: how many are kept at a time; at least 1.
        """
        self._items = items
        self._queue: Queue[Group | BaseException] = Queue(max(most, 1))
        self._closing = Event()
        self._thread = Thread(target=self._take, name="rollouts", daemon=True)
        self._thread.start()

    def _take(self) -> None:
        try:
            for item in self._items:
                if not self._put(item):
                    return
            self._put(StopIteration())
        except BaseException as error:  # noqa: BLE001  # whoever asks next gets it
            self._put(error)

    def _put(self, item: Group | BaseException) -> bool:
        while not self._closing.is_set():
            try:
                self._queue.put(item, timeout=0.1)
                return True
            except Full:
                continue
        return False

    def __iter__(self) -> Iterator[Group]:
        """Return itself."""
        return self

    def __next__(self) -> Group:
        """Return the next item, waiting for it; raise what the thread met with."""
        item = self._queue.get()
        if isinstance(item, BaseException):
            self._queue.put(item)
            raise item
        return item

    def close(self) -> None:
        """Take no more, and wait for the thread."""
        self._closing.set()
        self._thread.join()
