"""Whatever episodes last, fail or are left out, groups are trained on in the order in which they began."""

from heapq import heappop, heappush
from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.collect.pool import RolloutPool
from agentgym.training.collect.task_order import TaskOrder
from tests.training.test_pool import episode

ORDER = TaskOrder(EZPointsEnv().tasks, seed=11)
UPDATES = 6


class BrokenError(Exception):
    """What an environment raises."""


class RandomWorker:
    """Plays on a virtual clock: how long an episode lasts and whether it is won follows from its seed."""

    def __init__(self, num_envs, lengths, rate, fails_at=None):
        self.num_envs, self.lengths, self.rate, self.fails_at = num_envs, lengths, rate, fails_at
        self.version = self.played = 0
        self.begun, self.least_idle = [], num_envs

    def won(self, spec):
        return np.random.default_rng([spec.seed, spec.rollout, 1]).random() < self.rate

    def run(self, episodes):
        queue, running, clock, number = iter(episodes), [], 0, count()
        while True:
            while len(running) < self.num_envs and (spec := next(queue, None)) is not None:
                if spec.rollout == 0:
                    self.begun.append(spec.seed)
                draw = np.random.default_rng([spec.seed, spec.rollout, 0])
                end = clock + int(draw.choice(self.lengths))
                heappush(running, (end, next(number), self.version, spec))
            self.least_idle = min(self.least_idle, self.num_envs - len(running))
            if not running:
                return
            clock, _, version, spec = heappop(running)
            self.played += 1
            if self.played == self.fails_at:
                raise BrokenError
            yield episode(spec, self.won(spec), version, self.version)


CASES = {
    "num_envs": st.integers(1, 60),
    "lengths": st.lists(st.integers(1, 1000), min_size=1, max_size=4),
    "rate": st.sampled_from((0.0, 0.1, 0.5, 1.0)),
    "staleness": st.integers(1, 3),
    "tasks": st.integers(1, 5),
    "size": st.integers(1, 4),
    "attempts": st.sampled_from((1, 2, 5)),
}


def expected(worker, tasks, size, attempts):
    """Yield the positions that are trained on: in order, but for so many alike a batch."""
    left = room = (attempts - 1) * tasks
    kept = 0
    for position in count():
        if left and len({worker.won(spec) for spec in ORDER.episodes(position, size)}) == 1:
            left -= 1
            continue
        yield position
        kept += 1
        left = room if kept % tasks == 0 else left


@settings(max_examples=25, deadline=None)
@given(st.fixed_dictionaries(CASES), st.lists(st.integers(1, UPDATES - 1), max_size=2), st.booleans())
def test_groups_are_trained_on_as_they_begin_and_none_is_lost(case, stops, overlap):
    """Stopped and resumed at some updates, too: by another pool, from what was saved."""
    tasks, size, staleness = (case[name] for name in ("tasks", "size", "staleness"))
    attempts = case["attempts"]
    config = RolloutConfig(
        tasks=tasks, group_size=size, max_staleness=staleness, attempts=attempts, overlap=overlap
    )

    def opened():
        worker = RandomWorker(case["num_envs"], case["lengths"], case["rate"])
        return RolloutPool(worker, ORDER, config)

    pool = opened()
    wanted = expected(pool.worker, tasks, size, attempts)
    for update in range(UPDATES):
        if update in stops:
            state = pool.state_dict()
            pool.close()
            pool = opened()
            pool.load_state_dict(state)
        pool.worker.version = update
        groups = pool.collect(update).groups
        trained = [group.trajectories[0].seed for group in groups]
        assert trained == [ORDER.episodes(next(wanted), 1)[0].seed for _ in range(tasks)]
        for member in (member for group in groups for member in group.trajectories):
            assert all(update - step.completion.version <= staleness for step in member.steps)
        with pool._changed:
            counts = pool.counts
            assert counts.trained == (update + 1) * tasks
            assert 0 <= counts.pending <= (staleness + 1) * tasks
            assert len(set(pool.worker.begun)) == len(pool.worker.begun)  # none is begun twice
            if case["num_envs"] <= tasks * size:
                assert pool.worker.least_idle == 0  # an update's groups fill as many slots
    pool.close()


@settings(max_examples=10, deadline=None)
@given(st.fixed_dictionaries(CASES), st.integers(1, 40), st.booleans())
def test_a_failure_ends_the_next_wait_and_takes_nothing_that_was_complete(case, fails_at, overlap):
    worker = RandomWorker(case["num_envs"], case["lengths"], 0.5, fails_at)
    config = RolloutConfig(
        tasks=case["tasks"], group_size=case["size"], max_staleness=case["staleness"], overlap=overlap
    )
    pool, handed_out = RolloutPool(worker, ORDER, config), 0

    def collect_all():
        nonlocal handed_out
        for worker.version in range(50):
            handed_out += len(pool.collect(worker.version).groups)

    with pytest.raises(BrokenError):
        collect_all()
    assert handed_out == pool.counts.trained <= pool.counts.episodes // case["size"]
    assert worker.played == fails_at
    pool.close()


@settings(max_examples=10, deadline=None)
@given(st.fixed_dictionaries(CASES), st.integers(1, 40), st.booleans())
def test_a_lost_episode_is_an_error_instead_of_an_endless_wait(case, lost, overlap):
    class LosingWorker(RandomWorker):
        def run(self, episodes):
            for trajectory in super().run(episodes):
                if self.played != lost:
                    yield trajectory

    worker = LosingWorker(case["num_envs"], case["lengths"], 0.5)
    config = RolloutConfig(
        tasks=case["tasks"], group_size=case["size"], max_staleness=case["staleness"], overlap=overlap
    )
    pool = RolloutPool(worker, ORDER, config)

    def collect_all():
        for worker.version in range(100):
            pool.collect(worker.version)

    with pytest.raises(RuntimeError, match=r"none may begin, but .* complete: the worker has lost episodes"):
        collect_all()
    pool.close()
