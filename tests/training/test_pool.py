import gymnasium
import pytest

import agentgym  # noqa: F401 (registers the environments)
from agentgym.agents.random import RandomPolicy
from agentgym.algos.filters import varies
from agentgym.errors import UsageError
from agentgym.rollout import RolloutWorker
from agentgym.training.config import RolloutConfig
from agentgym.training.learner.distributed import Ranks
from agentgym.training.pool import Ahead, RolloutPool, TaskOrder

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
    assert counts.begun == counts.trained + counts.dropped + counts.left_out + counts.pending
    assert counts.pending >= 0


def test_groups_that_are_too_old_are_dropped_and_counted(make):
    policy = Versioned()
    pool = make(policy=policy, max_staleness=1, overlap=False, num_envs=12)
    pool.collect(0)
    running = pool.counts.pending
    assert running > 0
    policy.version = 5
    assert all(
        s.completion.version == 5 for g in pool.collect(5).groups for t in g.trajectories for s in t.steps
    )
    assert pool.counts.dropped == running


def test_dynamic_sampling_keeps_groups_that_vary(make):
    pool = make(attempts=30, tasks=2, group_size=8)
    groups = pool.collect(0).groups
    assert len(groups) == 2
    assert all(varies(group) for group in groups)
    counts = pool.counts
    assert counts.left_out > 0
    assert counts.begun == counts.trained + counts.left_out


def test_what_fails_while_playing_ahead_reaches_who_asks(make):
    class Failing(Versioned):
        def act(self, requests):
            raise RuntimeError("no answer")

    pool = make(policy=Failing(), max_staleness=1)
    with pytest.raises(RuntimeError, match="no answer"):
        pool.collect(0)


def test_playing_ahead_stops_at_its_bound():
    taken = []

    def numbers():
        for number in range(100):
            taken.append(number)
            yield number

    ahead = Ahead(numbers(), 3)
    assert [next(ahead), next(ahead)] == [0, 1]
    ahead.close()
    assert len(taken) <= 7


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
