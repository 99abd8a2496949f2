"""The process form: equal to the in-process form, and clear about its failures."""

from __future__ import annotations

import os
import signal

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

import agentgym  # noqa: F401 (registers the environments)
from agentgym import UsageError
from agentgym.checking import check_agent_vector_env
from agentgym.checking.evidence import first_difference
from agentgym.sharded import ShardedVectorEnv

IDS = ["agentgym/Sokoban-v0", "agentgym/VisualSokoban-v0", "agentgym/EZPoints-v0"]


def assert_same(ours, theirs):
    assert first_difference(ours, theirs) is None


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("env_id", IDS)
def test_equals_the_process_form(env_id, mode):
    sharded = ShardedVectorEnv(env_id, 5, num_workers=2, autoreset_mode=mode, max_steps=4)
    local = gymnasium.make_vec(env_id, num_envs=5, autoreset_mode=mode, max_steps=4)
    rng = np.random.default_rng(7)
    assert_same(sharded.reset(seed=3), local.reset(seed=3))
    for _ in range(12):
        if mode is AutoresetMode.DISABLED and local._over.any():
            mask = local._over.copy()
            assert_same(*(e.reset(options={"reset_mask": mask}) for e in (sharded, local)))
        actions = [str(rng.choice(["up", "down", "left", "2", "6", "*", "=", "nonsense"])) for _ in range(5)]
        assert_same(sharded.step(actions), local.step(actions))
    sharded.close()


def test_keeps_the_contract():
    made = []

    def make(num_envs, **options):
        made.append(ShardedVectorEnv(IDS[2], num_envs, num_workers=2, **options))
        return made[-1]

    check_agent_vector_env(make)
    for envs in made:
        envs.close()


def test_partial_steps_and_snapshots_cross_processes():
    sharded = ShardedVectorEnv(IDS[0], 4, num_workers=2, autoreset_mode="Disabled")
    tasks = sharded.tasks.ids[:2]
    _, infos = sharded.reset(options={"tasks": [tasks[0], tasks[1], tasks[0], tasks[1]]})
    assert infos["state_hash"][0] == infos["state_hash"][2]
    observations, *_ = sharded.step_at([3, 0], ["up", "down"])
    assert len(observations) == 2
    observation, info = sharded.copy(0, 3)  # slots 0 and 3 live in different processes
    assert info["task_id"] == tasks[0]
    assert observation == observations[1]
    assert sharded.snapshot(0) == sharded.snapshot(3)
    sharded.close()


def test_errors_come_home_and_leave_the_workers_in_step():
    sharded = ShardedVectorEnv(IDS[2], 4, num_workers=2, autoreset_mode="Disabled")
    sharded.reset(seed=0)
    with pytest.raises(UsageError, match="no task 'nowhere'"):
        sharded.reset_at([0, 3], ["nowhere", "nowhere"])
    before = sharded.snapshot(1)
    with pytest.raises(ValueError, match="cannot restore a snapshot of suite 'sokoban'"):
        sharded.restore(2, gymnasium_snapshot())
    assert sharded.snapshot(1) == before
    sharded.close()


def gymnasium_snapshot():
    env = gymnasium.make(IDS[0]).unwrapped
    env.reset(seed=0)
    return env.snapshot()


def test_a_dead_worker_is_reported():
    sharded = ShardedVectorEnv(IDS[2], 2, num_workers=2)
    sharded.reset(seed=0)
    os.kill(sharded._workers[1]._process.pid, signal.SIGKILL)
    with pytest.raises(RuntimeError, match="a worker process ended with exit code -9"):
        sharded.step(["1", "1"])
    sharded.close()


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        ("agentgym/Sokobann-v0", {}, "did you mean 'agentgym/Sokoban-v0'"),
        ("CartPole-v1", {}, "is not an AgentEnv"),
        (IDS[0], {"num_workers": 0}, "num_workers must be at least 1"),
        (IDS[0], {"num_envs": 0}, "num_envs must be at least 1"),
    ],
)
def test_bad_input(env_id, options, message):
    with pytest.raises(UsageError, match=message):
        ShardedVectorEnv(env_id, **options)
