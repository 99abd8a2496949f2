"""Rollout pool, the replay buffer: the order of episodes, and the age of their groups at training.

With ``max_staleness`` 0 a round of groups is played to its end before it is trained on (`_round`). With more,
the pool plays on: episodes still running continue with the new weights. Groups are trained on in the order
in which they begin, and none begins that would be too old by its turn (`GroupQueue`), so none is dropped. To
take those that end first, and drop the old ones, would train on short episodes: often those that are won.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from threading import Condition, Thread
from typing import Any

from agentgym.algos.filters import dynamic_sampling, varies
from agentgym.core.types import Group, Trajectory
from agentgym.errors import UsageError
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.collect.distinct_states import DistinctStates
from agentgym.training.collect.rollout_batch import Collected
from agentgym.training.collect.task_order import TaskOrder
from agentgym.training.learner.distributed import Ranks


@dataclass(slots=True)
class PoolCounts:
    """Counts of the groups begun: ``begun = trained + left_out + pending``."""

    begun: int = 0
    episodes: int = 0
    """Number of finished episodes."""
    trained: int = 0
    """Number of groups handed out."""
    left_out: int = 0
    """Number of groups left out by dynamic sampling, for equal returns or beyond the wanted number."""

    @property
    def pending(self) -> int:
        """Running, or complete and waiting."""
        return self.begun - self.trained - self.left_out


@dataclass(frozen=True, slots=True)
class QueueStart:
    """Start of all ranks' queues; by default that of a new run."""

    position: int = 0
    done: frozenset[int] = frozenset()
    """Later positions whose groups are trained or left out."""
    again: PoolCounts = field(default_factory=PoolCounts)
    """Counts of groups that this rank will repeat after a resumption, and that are counted already."""


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

    def __init__(
        self,
        order: TaskOrder,
        config: RolloutConfig,
        ranks: Ranks,
        counts: PoolCounts,
        start: QueueStart | None = None,
    ):
        """Begin with nothing, for update -1; each rank has a queue of its part, and updates ``counts``."""
        start = start or QueueStart()
        self.update = -1
        self.size = config.tasks // ranks.size
        self._order, self._config, self._ranks, self._counts = order, config, ranks, counts
        self._done = set(start.done)
        self._again = replace(start.again)
        self._next = start.position + (ranks.rank - start.position) % ranks.size
        """Position of the next group in the order, unless it is done."""
        self._since: deque[int] = deque()
        """Positions begun, from the oldest that is not handed out; those left out later are among them."""
        self._begun = 0
        self._open: dict[int, tuple[int, list[Trajectory]]] = {}
        """Positions and episodes, by seed: a group's seed is its own."""
        self._complete: deque[tuple[int, Group]] = deque()
        self._alike = 0
        self.visited: set[str] = set()
        """Hashes of the states that episodes have been in since the last `take`."""

    @property
    def admits(self) -> bool:
        """Whether another group may begin."""
        return self._begun < (self.update + self._config.max_staleness + 1) * self.size

    @property
    def ready(self) -> bool:
        """Whether the groups of an update are complete."""
        return len(self._complete) >= self.size

    @property
    def start(self) -> tuple[int, PoolCounts]:
        """Position from which a resumed run begins, with the counts that it must not repeat.

        From a batch's first group on, dynamic sampling decides again as it did.
        """
        complete, running = len(self._complete), len(self._open)
        left_out = len(self._since) - complete - running
        over = (complete + left_out) * self._config.group_size
        over += sum(len(members) for _, members in self._open.values())
        again = PoolCounts(
            begun=self._again.begun + len(self._since),
            episodes=self._again.episodes + over,
            left_out=self._again.left_out + left_out,
        )
        return self._since[0] if self._since else self.following(), again

    def begin(self) -> list[EpisodeSpec]:
        """Return the episodes of the next group; none while it may not begin."""
        if not self.admits:
            return []
        position = self.following()
        specs = self._order.episodes(position, self._config.group_size)
        self._open[specs[0].seed] = position, []
        self._since.append(position)
        self._next = position + self._ranks.size
        self._begun += 1
        self._count("begun")
        return specs

    def add(self, trajectory: Trajectory) -> None:
        """Take an episode that is over.

        Dynamic sampling, too, looks at groups in their order: those that it keeps because it gives up would
        be the long ones otherwise.
        """
        config = self._config
        self._count("episodes")
        self.visited.update(trajectory.state_hashes)
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
                self._count("left_out")

    def check_progress(self) -> None:
        """Raise RuntimeError where, with no episode running, an update's groups can never be complete."""
        if not (self.ready or self.admits):
            raise RuntimeError(
                f"no episode is running and none may begin, but {len(self._complete)} of an update's "
                f"{self.size} groups are complete: the worker has lost episodes"
            )

    def sizes(self) -> dict[str, int]:
        """Return the numbers of groups by their state; ``lost`` is 0 except after errors."""
        running, waiting = len(self._open), len(self._complete)
        lost = self._counts.pending - self._again.pending - running - waiting
        return {"running": running, "waiting": waiting, "lost": lost}

    def take(self) -> list[Group]:
        """Return the groups of an update, once they are ready."""
        self.visited = set()
        self._counts.trained += self.size
        taken = [self._complete.popleft() for _ in range(self.size)]
        while self._since and self._since[0] <= taken[-1][0]:
            self._since.popleft()
        return [group for _, group in taken]

    def following(self) -> int:
        """Return the position of the next group."""
        while self._next in self._done:
            self._next += self._ranks.size
        return self._next

    def _count(self, name: str) -> None:
        """Count one more, where it is not counted already."""
        again = getattr(self._again, name)
        if again:
            setattr(self._again, name, again - 1)
        else:
            setattr(self._counts, name, getattr(self._counts, name) + 1)


def _group(members: list[Trajectory]) -> Group:
    members = sorted(members, key=lambda member: member.rollout)
    return Group(members[0].task_id, members[0].initial_hash, tuple(members))


def age(groups: Iterable[Group], version: int) -> int:
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
        self.states = DistinctStates()
        """Distinct states of all ranks' episodes, including those of groups that are left out."""
        self._position = 0
        """Position of the next round's first group."""
        self._start = QueueStart()
        self._queue: GroupQueue | None = None
        self._playing: Iterator[Trajectory | None] = iter(())
        self._thread: Thread | None = None
        self._changed = Condition()
        """Guards the queue, the counts and what follows."""
        self._error: BaseException | None = None
        self._closing = False

    def collect(self, version: int) -> Collected:
        """Return the groups of one update of the weights of ``version``, which the policy has already."""
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
            return self._report(Collected(groups, diagnostics={"states": {"by_hash": len(self.states)}}))
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
            visited = sorted(queue.visited)
            own, sizes = queue.take(), queue.sizes()
        groups = self.ranks.gather(own)
        self.states.add(self.ranks.gather(visited))
        of_ranks = self.ranks.gather([sizes])
        report = {name: sum(each[name] for each in of_ranks) for name in sizes}
        diagnostics: dict[str, dict[str, float]] = {
            "pool": {**report, "age": age(groups, version)},
            "states": {"by_hash": len(self.states)},
        }
        return self._report(Collected(groups, diagnostics=diagnostics))

    def leave_out(self, groups: int) -> None:
        """Count groups of all ranks that were collected but are not trained on."""
        whole_round = self.config.max_staleness == 0  # each rank counts its own part under staleness
        if whole_round or self.ranks.is_first:
            with self._changed:
                self.counts.trained -= groups
                self.counts.left_out += groups

    @property
    def episodes(self) -> int:
        """Episodes played to their ends."""
        return self.counts.episodes

    def state_dict(self) -> dict[str, Any]:
        """Return counts, and the positions from which groups begin again where they are pending.

        Episodes are not part of it: `agentgym.training.collect.rollout_journal` has their answers. This run
        begins pending groups again, too, to go on as a resumed one does, unless a thread plays: then runs are
        not repeatable. All ranks have to call it.
        """
        with self._changed:
            position, again = (self._queue or self._new_queue()).start
            if self.config.max_staleness == 0:
                position = self._position
            own = self.ranks.rank, position, asdict(self.counts), asdict(again)
        ranks = self.ranks.gather([own])
        first, size = min(position for _, position, *_ in ranks), self.ranks.size
        state = {
            "position": first,
            "done": [
                done for rank, top, *_ in ranks for done in range(first + (rank - first) % size, top, size)
            ],
            "counts": [counts for _, _, counts, _ in ranks],
            "again": [again for *_, again in ranks],
            "states": self.states.to_bytes(),
            "order": self.order.state_dict(),
        }
        if self._thread is None:
            self.load_state_dict(state)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Resume from `state_dict`, on any number of ranks; groups that were pending begin again."""
        counts, again = (self._own_counts(state[name]) for name in ("counts", "again"))
        self.states = DistinctStates.from_bytes(state["states"])
        with self._changed:
            self.counts, self._queue = counts, None
            self._position = state["position"]
            self.order.load_state_dict(state.get("order", {}))
            self._start = QueueStart(state["position"], frozenset(state["done"]), again)

    def _own_counts(self, of_ranks: Sequence[Mapping[str, int]]) -> PoolCounts:
        """Return the counts of this rank; where there were fewer or more, the first has those of all."""
        if len(of_ranks) == self.ranks.size:
            return PoolCounts(**of_ranks[self.ranks.rank])
        if self.config.max_staleness == 0:  # every rank counts whole rounds
            return PoolCounts(**of_ranks[0])
        totals = Counter[str]()
        for each in of_ranks if self.ranks.is_first else ():
            totals.update(each)
        return PoolCounts(**totals)

    def over_ranks(self) -> tuple[int, int]:
        """Return the numbers of untrained and of pending groups of all ranks, which all have to call."""
        own = {"lost": self.counts.left_out, "pending": self.counts.pending}
        if self.config.max_staleness > 0:  # every rank counts the whole round without staleness
            own = {name: int(number) for name, number in self.ranks.sum(own).items()}
        return own["lost"], own["pending"]

    def close(self) -> None:
        """End the rollouts that are being played ahead, if any."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    # ---- inside -----------------------------------------------------------------------------

    def _report(self, collected: Collected) -> Collected:
        """Tell the curriculum, if there is one, of an update's episodes; all ranks have to."""
        curriculum, ended = self.order.curriculum, collected.episode_ends
        if curriculum is None:
            return collected
        diagnostics = {**collected.diagnostics, "curriculum": curriculum.describe()}
        if ended and curriculum.report(sum(end.won for end in ended) / len(ended)):
            with self._changed:
                own = self._position if self._queue is None else self._queue.following()
            start = max(self.ranks.gather([own]))  # all begun groups keep their tasks
            with self._changed:
                curriculum.begin_next(start)
        return replace(collected, diagnostics=diagnostics)

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
        groups = self.ranks.gather([_group(each) for each in members.values()])
        self.states.add(
            state for group in groups for each in group.trajectories for state in each.state_hashes
        )
        return groups

    def _open(self) -> GroupQueue:
        """Begin a stream, in a thread of its own where it plays on during updates."""
        self._queue = queue = self._new_queue()
        self._playing = self._stream(queue)
        if self.config.overlap:
            self._thread = Thread(target=self._play_on, args=(queue,), name="rollouts", daemon=True)
            self._thread.start()
        return queue

    def _new_queue(self) -> GroupQueue:
        return GroupQueue(self.order, self.config, self.ranks, self.counts, self._start)

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
        raise UsageError("this pool's environment failed before: mend its error, and --resume the run")

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
