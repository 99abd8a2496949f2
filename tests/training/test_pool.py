import dataclasses
from heapq import heappop, heappush
from itertools import count

import gymnasium
import numpy as np
import pytest

import agentgym  # noqa: F401 (registers the environments)
from agentgym.agents.random import RandomPolicy
from agentgym.algos.filters import varies
from agentgym.core.types import Completion, Step, Trajectory
from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.errors import UsageError
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.collect.distinct_states import DistinctStates
from agentgym.training.collect.pool import RolloutPool
from agentgym.training.collect.task_order import TaskOrder
from agentgym.training.learner.distributed import Ranks
from tests.waiting import wait_until

ENV = "agentgym/EZPoints-v0"


class Versioned:
    """A random policy whose answers carry the version it is told."""

    def __init__(self):
        self.version = 0
        self.policy = RandomPolicy("enumerated")

    def act(self, requests):
        from dataclasses import replace

        return [replace(answer, version=self.version) for answer in self.policy.act(requests)]


@pytest.fixture
def make():
    opened = []

    def make(*, num_envs=8, ranks=None, policy=None, **settings):
        envs = gymnasium.make_vec(ENV, num_envs=num_envs, autoreset_mode="Disabled")
        worker = RolloutWorker(envs, policy or Versioned(), env_id=ENV)
        config = RolloutConfig(**{"tasks": 4, "group_size": 3, "num_envs": num_envs} | settings)
        opened.append(RolloutPool(worker, TaskOrder(envs.tasks, seed=5), config, ranks))
        return opened[-1]

    yield make
    for pool in opened:
        pool.close()
        pool.worker.envs.close()


def signature(groups):
    return [
        [(t.task_id, t.seed, t.rollout, [step.action for step in t.steps]) for t in group.trajectories]
        for group in groups
    ]


def test_without_staleness_the_pool_plays_what_the_worker_collects(make):
    pool = make()
    rounds = [pool.collect(version).groups for version in range(3)]
    order = TaskOrder(pool.worker.envs.tasks, seed=5)
    played = {
        (trajectory.seed, trajectory.rollout): trajectory
        for position in range(12)
        for trajectory in pool.worker.run(order.episodes(position, 3))
    }
    expected = [
        [played[spec.seed, spec.rollout] for spec in order.episodes(position, 3)] for position in range(12)
    ]
    assert signature([group for groups in rounds for group in groups]) == [
        [(t.task_id, t.seed, t.rollout, [step.action for step in t.steps]) for t in members]
        for members in expected
    ]


def test_what_is_collected_does_not_depend_on_the_number_of_slots(make):
    assert signature(make(num_envs=2).collect(0).groups) == signature(make(num_envs=12).collect(0).groups)


def test_every_task_is_played_once_before_any_is_played_again(make):
    pool = make()
    order, size = pool.order, len(pool.worker.envs.tasks)
    first = [order.episodes(position, 1)[0].task_id for position in range(size)]
    second = [order.episodes(position, 1)[0].task_id for position in range(size, 2 * size)]
    assert len(set(first)) == size == len(set(second))
    assert first != second


def test_ranks_play_parts_of_what_one_process_plays(make):
    whole = signature(make().collect(0).groups)

    class Part(Ranks):
        __slots__ = ()

        def gather(self, items):
            return list(items)  # of this rank alone

    parts = [signature(make(ranks=Part(rank, 2)).collect(0).groups) for rank in range(2)]
    assert [*parts[0], *parts[1]] == [whole[0], whole[2], whole[1], whole[3]]


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("staleness", [1, 3])
def test_every_group_begun_is_accounted_for(make, overlap, staleness):
    policy = Versioned()
    pool = make(policy=policy, max_staleness=staleness, overlap=overlap)
    trained = 0
    for version in range(12):
        policy.version = version
        groups = pool.collect(version).groups
        trained += len(groups)
        for group in groups:
            assert len({(t.task_id, t.seed) for t in group.trajectories}) == 1
            assert [t.rollout for t in group.trajectories] == [0, 1, 2]
            ages = [version - s.completion.version for t in group.trajectories for s in t.steps]
            assert max(ages) <= staleness
    counts = pool.counts
    assert trained == counts.trained == 48
    assert counts.left_out == 0 <= counts.pending == counts.begun - 48


def test_dynamic_sampling_keeps_groups_that_vary(make):
    pool = make(attempts=30, tasks=2, group_size=8)
    groups = pool.collect(0).groups
    assert len(groups) == 2
    assert all(varies(group) for group in groups)
    counts = pool.counts
    assert counts.left_out > 0
    assert counts.begun == counts.trained + counts.left_out


@pytest.mark.parametrize(
    "settings",
    [{}, {"attempts": 30}, {"max_staleness": 2, "overlap": False}],
    ids=["rounds", "left out", "ahead"],
)
def test_distinct_states_are_counted_over_a_run_whatever_is_trained_on(make, settings):
    class Listening(RolloutWorker):
        def run(self, episodes):
            for trajectory in super().run(episodes):
                met.update(trajectory.state_hashes)
                yield trajectory

    met, pool = set(), make(**settings)
    pool.worker.__class__ = Listening
    before, again, trained = 0, make(**settings), set()
    for version in range(6):
        collected = pool.collect(version)
        trained |= {
            state
            for group in collected.groups
            for member in group.trajectories
            for state in member.state_hashes
        }
        number = collected.diagnostics["states"]["by_hash"]
        assert number == len(met) > before
        before = number
        if version == 2:
            again.load_state_dict(pool.state_dict())
    assert trained < met if settings else trained == met
    numbers = [again.collect(version).diagnostics["states"]["by_hash"] for version in range(3, 6)]
    assert numbers[-1] == before


def test_states_are_merged_and_packed_as_a_set():
    states, plain = DistinctStates(), set()
    rng = np.random.default_rng(0)
    for size in (1, 5, 20_000, 3, 20_000):
        names = [f"{number:032x}" for number in rng.integers(0, 30_000, size)]
        states.add(names)
        plain.update(names)
        assert len(states) == len(plain)
    packed = states.to_bytes()
    assert len(packed) == 8 * len(plain)
    again = DistinctStates.from_bytes(packed)
    again.add(plain)
    assert again.to_bytes() == packed


def test_what_fails_while_playing_ahead_reaches_who_asks(make):
    class Failing(Versioned):
        def act(self, requests):
            raise RuntimeError("no answer")

    pool = make(policy=Failing(), max_staleness=1)
    with pytest.raises(RuntimeError, match="no answer"):
        pool.collect(0)


# ---- on a virtual clock ---------------------------------------------------------------------------


TASKS, SIZE = 4, 3


class VirtualWorker:
    """Plays without environments: who wins is over after 5 ticks, who loses after 50.

    A third of the groups each win by 5, 50 and 95 %.
    """

    def __init__(self, num_envs):
        self.num_envs = num_envs
        self.version = 0
        self.begun = []

    def run(self, episodes):
        queue, running, clock, number = iter(episodes), [], 0, count()
        while True:
            while len(running) < self.num_envs and (spec := next(queue, None)) is not None:
                if spec.rollout == 0:
                    self.begun.append(spec.seed)
                won = wins(spec)
                heappush(running, (clock + (5 if won else 50), next(number), won, self.version, spec))
            if not running:
                return
            clock, _, won, version, spec = heappop(running)
            yield episode(spec, won, version, self.version)


def wins(spec):
    rate = (0.05, 0.5, 0.95)[spec.seed % 3]
    return np.random.default_rng([spec.seed, spec.rollout]).random() < rate


def episode(spec, won, *versions):
    steps = tuple(
        Step("", "", (), Completion("", version=version), float(won), "", True, False, False)
        for version in versions
    )
    return Trajectory(
        ENV, spec.task_id, "", spec.seed, spec.rollout, "", steps, "", won, float(won), 0.0, "success"
    )


@pytest.fixture
def order():
    return TaskOrder(EZPointsEnv().tasks, seed=5)


@pytest.fixture
def virtual(order):
    opened = []

    def virtual(num_envs, ranks=None, **settings):
        config = RolloutConfig(**{"tasks": TASKS, "group_size": SIZE} | settings)
        opened.append(RolloutPool(VirtualWorker(num_envs), order, config, ranks))
        return opened[-1]

    yield virtual
    for pool in opened:
        pool.close()


def collect(pool, version):
    """Return the seeds of an update's groups, and the age of their oldest step."""
    pool.worker.version = version
    groups = pool.collect(version).groups
    assert all([member.rollout for member in group.trajectories] == list(range(SIZE)) for group in groups)
    steps = [step for group in groups for member in group.trajectories for step in member.steps]
    return [group.trajectories[0].seed for group in groups], max(
        version - step.completion.version for step in steps
    )


def seeds(order, count):
    return [order.episodes(position, 1)[0].seed for position in range(count)]


def alike(order, position):
    return len({wins(spec) for spec in order.episodes(position, SIZE)}) == 1


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("attempts", [1, 100])
@pytest.mark.parametrize("staleness", range(5))
@pytest.mark.parametrize("num_envs", [1, 7, 5 * TASKS * SIZE, 300])
def test_what_is_trained_on_and_what_runs_is_what_was_begun_first(
    virtual, order, num_envs, staleness, attempts, overlap
):
    pool = virtual(num_envs, max_staleness=staleness, attempts=attempts, overlap=overlap)
    wanted = [p for p in range(400) if attempts == 1 or not alike(order, p)]
    known, trained = seeds(order, 400), []
    for version in range(10):
        groups, age = collect(pool, version)
        trained += groups
        assert age <= staleness
        if staleness == 0 and attempts > 1:  # whole rounds, whose surplus is left out
            continue
        assert trained == [known[position] for position in wanted[: TASKS * (version + 1)]]
        with pool._changed:  # while no thread plays on
            begun, counts = len(pool.worker.begun), dataclasses.replace(pool.counts)
        assert pool.worker.begun[:begun] == known[:begun]
        assert begun - counts.left_out <= TASKS * (version + staleness + 1)
        assert 0 <= counts.pending <= TASKS * (staleness + 1)
        assert counts.begun == counts.trained + counts.left_out + counts.pending


def test_the_pool_says_what_has_become_of_the_groups(virtual):
    pool = virtual(9, max_staleness=2, overlap=False)
    ages = []
    for version in range(12):
        pool.worker.version = version
        collected = pool.collect(version)
        report = collected.diagnostics["pool"]
        assert set(report) == {"running", "waiting", "lost", "age"}
        assert report["running"] + report["waiting"] == pool.counts.pending
        assert report["running"] <= 9
        assert report["lost"] == 0
        ages.append(report["age"])
    assert ages[0] == 0
    assert 1 <= max(ages) <= 2
    pool._queue._open.popitem()  # as if a worker had lost it
    assert pool._queue.sizes()["lost"] == 1
    assert set(virtual(9).collect(0).diagnostics) == {"states"}  # rounds leave nothing behind


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("num_envs", "staleness"), [(24, 1), (300, 1), (300, 4)])
def test_long_episodes_are_trained_on_as_often_as_short_ones(virtual, order, num_envs, staleness, overlap):
    pool, updates = virtual(num_envs, max_staleness=staleness, overlap=overlap), 60
    trained = []
    for version in range(updates):
        pool.worker.version = version
        trained += [m.won for group in pool.collect(version).groups for m in group.trajectories]
    true = [wins(spec) for position in range(updates * TASKS) for spec in order.episodes(position, SIZE)]
    assert np.mean(trained) == np.mean(true)
    assert 0.4 < np.mean(true) < 0.6


@pytest.mark.parametrize("attempts", [1, 2])
def test_several_ranks_train_on_what_was_begun_first(virtual, order, attempts):
    class Part(Ranks):
        __slots__ = ()

        def gather(self, items):
            return list(items)  # of this rank alone

    known, left_out = seeds(order, 200), 0
    for rank in range(2):
        pool = virtual(50, Part(rank, 2), max_staleness=2, attempts=attempts, overlap=False)
        trained, expected, position = [], [], rank
        for version in range(8):
            trained += collect(pool, version)[0]
            tries, kept = TASKS // 2 if attempts > 1 else 0, 0
            while kept < TASKS // 2:
                if tries and alike(order, position):
                    tries, left_out = tries - 1, left_out + 1
                else:
                    expected.append(known[position])
                    kept += 1
                position += 2
        assert trained == expected
    assert bool(left_out) == (attempts > 1)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("attempts", [1, 100])
def test_a_run_that_was_stopped_plays_pending_groups_again(virtual, order, attempts, overlap):
    wanted = [p for p in range(400) if attempts == 1 or not alike(order, p)]
    settings = {"max_staleness": 2, "attempts": attempts, "overlap": overlap}
    first, again = virtual(30, **settings), virtual(30, **settings)
    trained = [seed for version in range(5) for seed in collect(first, version)[0]]
    wait_until(lambda: first.counts.pending)  # a thread that plays ahead may not have begun yet
    again.load_state_dict(first.state_dict())
    assert again.counts.pending > 0
    trained += [seed for version in range(5, 10) for seed in collect(again, version)[0]]
    known = seeds(order, 400)
    assert trained == [known[position] for position in wanted[: 10 * TASKS]]
    if not overlap:  # then it is a run that goes on after a checkpoint, too
        rest = [seed for version in range(5, 10) for seed in collect(first, version)[0]]
        assert rest == trained[5 * TASKS :]
        assert first.counts == again.counts


def test_a_failed_stream_does_not_wait_for_ever(make):
    class Failing(Versioned):
        def act(self, requests):
            raise RuntimeError("no answer")

    pool = make(policy=Failing(), max_staleness=1, overlap=False)
    with pytest.raises(RuntimeError, match="no answer"):
        pool.collect(0)
    with pytest.raises(UsageError, match="failed before"):
        pool.collect(1)


def test_what_was_ready_before_a_failure_is_handed_out(virtual):
    pool = virtual(300, max_staleness=1)
    collect(pool, 0)
    wait_until(lambda: pool.counts.episodes >= 2 * TASKS * SIZE)
    pool.close()  # what plays ahead ends, as with a failure, or it might play the third update's groups, too
    pool._error = RuntimeError("no answer")
    assert len(pool.collect(1).groups) == TASKS
    with pytest.raises(RuntimeError, match="no answer"):
        pool.collect(2)


def test_a_thread_plays_no_further_than_it_may(virtual):
    pool = virtual(300, max_staleness=2)
    collect(pool, 0)
    wait_until(lambda: pool._changed._waiters)  # it waits for the next update
    assert len(pool.worker.begun) == 3 * TASKS == pool.counts.begun
    assert pool.counts.episodes == 3 * TASKS * SIZE


def test_ranks_that_play_on_need_a_multiple_of_tasks(make):
    with pytest.raises(UsageError, match="cannot be divided among 3 processes"):
        make(ranks=Ranks(0, 3), max_staleness=1)


def test_groups_that_are_lost_or_waiting_are_those_of_all_ranks(make):
    class Pair(Ranks):
        __slots__ = ()

        def gather(self, items):
            return [*items, *items]

        def sum(self, numbers):
            return {name: 2 * number for name, number in numbers.items()}  # two ranks that do the same

    alone = make(max_staleness=1, overlap=False, num_envs=12)
    alone.collect(0)
    assert alone.counts.pending > 0
    assert alone.over_ranks() == (0, alone.counts.pending)
    both = make(ranks=Pair(0, 2), max_staleness=1, overlap=False, num_envs=12)
    both.collect(0)
    assert both.over_ranks() == (0, 2 * both.counts.pending)
    rounds = make(ranks=Pair(0, 2))
    rounds.collect(0)
    assert rounds.over_ranks() == (0, 0)


@pytest.mark.parametrize(("rank", "staleness", "counted"), [(0, 0, 2), (1, 0, 2), (0, 1, 2), (1, 1, 0)])
def test_what_is_left_out_later_is_counted_by_all_or_by_the_first(make, rank, staleness, counted):
    """Every rank knows the whole of a round; of what is played ahead each counts its part."""
    pool = make(ranks=Ranks(rank, 2), max_staleness=staleness, overlap=False, num_envs=12)
    pool.leave_out(2)
    assert (pool.counts.left_out, pool.counts.trained) == (counted, -counted)
