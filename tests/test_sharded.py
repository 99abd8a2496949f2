"""The process form: equal to the in-process form, and clear about its failures."""

from __future__ import annotations

import multiprocessing
import os
import signal
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

import agentgym  # noqa: F401 (registers the environments)
from agentgym import UsageError
from agentgym.checking import check_agent_vector_env
from agentgym.checking.evidence import first_difference
from agentgym.rollout.process_env import ShardedVectorEnv, WorkerError, _limit_transfers
from tests.waiting import PATIENCE

IDS = ["agentgym/Sokoban-v0", "agentgym/VisualSokoban-v0", "agentgym/EZPoints-v0"]


@pytest.fixture
def quick_start(monkeypatch):
    """Fork workers from one process that has imported what they need; others here are spawned as usual."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["agentgym.rollout.process_env", "agentgym.envs.ezpoints.env"])
    monkeypatch.setattr(
        "agentgym.rollout.process_env.multiprocessing", SimpleNamespace(get_context=lambda _: context)
    )


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


@pytest.mark.usefixtures("quick_start")
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


@pytest.fixture
def sharded(quick_start):
    envs = ShardedVectorEnv(IDS[2], 4, num_workers=2, autoreset_mode="Disabled")
    envs.reset(seed=0)
    yield envs
    envs.close()


def assert_starts_anew(sharded):
    """What follows equals the form that nothing happened to."""
    with pytest.raises(ResetNeeded, match=r"call reset\(\)"):
        sharded.step(["1"] * 4)
    with pytest.raises(ResetNeeded):
        sharded.snapshot(0)
    local = gymnasium.make_vec(IDS[2], num_envs=4, autoreset_mode="Disabled")
    assert_same(sharded.reset(seed=5), local.reset(seed=5))
    assert_same(sharded.step(["1", "2", "x", "*"]), local.step(["1", "2", "x", "*"]))
    assert_same(sharded.snapshot(3), local.unwrapped.snapshot(3))


def test_what_cannot_be_sent_is_refused_before_anything_is(sharded):
    """Once, the worker asked first answered the next call with this one's answer."""

    class Local(str):
        """Of a class that pickle cannot find."""

    before = [sharded.snapshot(i) for i in range(4)]
    with pytest.raises(UsageError, match="must be picklable"):
        sharded.step(["1", "1", "1", Local("1")])
    with pytest.raises(UsageError, match="must be picklable"):
        sharded.restore(1, Local("1"))
    assert [sharded.snapshot(i) for i in range(4)] == before
    assert sharded.step(["1"] * 4)[4]["turn"].tolist() == [1] * 4


def test_a_dead_worker_is_reported_and_replaced(sharded):
    for call in (
        lambda: sharded.step(["1"] * 4),
        lambda: sharded.snapshot(3),
        lambda: sharded.reset_at([0, 1]),
    ):
        os.kill(sharded._workers[1]._process.pid, signal.SIGKILL)
        sharded._workers[1]._process.join()
        with pytest.raises(WorkerError, match="a worker process ended with exit code -9") as caught:
            call()
        assert "\n" not in str(caught.value)
        assert_starts_anew(sharded)


def test_a_reset_of_all_slots_replaces_a_worker_that_died_unnoticed(sharded):
    os.kill(sharded._workers[0]._process.pid, signal.SIGKILL)
    sharded._workers[0]._process.join()
    assert sharded.reset(seed=1)[1]["turn"].tolist() == [0] * 4


@pytest.mark.parametrize("resumed", [True, False])
def test_an_interrupt_leaves_no_answer_behind(sharded, monkeypatch, resumed):
    """Ctrl-C while a worker is waited for: whether it answers later or never, nothing gets out of step."""
    if not resumed:
        monkeypatch.setattr("agentgym.rollout.process_env.RECOVERY_SECONDS", 0.5)
    process = sharded._workers[1]._process
    os.kill(process.pid, signal.SIGSTOP)
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    with pytest.raises(KeyboardInterrupt):
        sharded.step(["1"] * 4)
    if resumed:
        os.kill(process.pid, signal.SIGCONT)
    assert_starts_anew(sharded)
    assert (sharded._workers[1]._process is process) == resumed


def test_a_worker_that_hangs_is_given_up():
    sharded = ShardedVectorEnv(IDS[2], 4, num_workers=2, autoreset_mode="Disabled", worker_timeout=PATIENCE)
    sharded.reset(seed=0)
    sharded._workers[0]._timeout = 0.3
    os.kill(sharded._workers[0]._process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerError, match=r"did not answer within 0.3 seconds: raise worker_timeout"):
        sharded.step(["1"] * 4)
    assert_starts_anew(sharded)
    sharded.close()


def test_a_message_too_long_for_a_hung_worker_is_given_up(monkeypatch):
    monkeypatch.setattr("agentgym.rollout.process_env.RECOVERY_SECONDS", 0.5)
    sharded = ShardedVectorEnv(IDS[2], 2, num_workers=1, worker_timeout=PATIENCE)
    sharded.reset(seed=0)
    _limit_transfers(sharded._workers[0]._pipe, 0.5)
    os.kill(sharded._workers[0]._process.pid, signal.SIGSTOP)
    with pytest.raises(WorkerError, match="did not answer"):
        sharded._call("restore", 0, "x" * 10_000_000)
    assert sharded.reset(seed=0)[1]["turn"].tolist() == [0, 0]
    sharded.close()


def test_one_worker_s_refusal_undoes_the_other_s_reset(sharded, monkeypatch):
    sharded.step(["1", "2", "x", "*"])
    before = [sharded.snapshot(i) for i in range(4)]
    monkeypatch.setattr(ShardedVectorEnv, "_check_tasks", lambda self, slots, tasks: None)
    with pytest.raises(UsageError, match="no task 'nowhere'"):
        sharded.reset_at([0, 2], [sharded.tasks[0].id, "nowhere"], [1, 2])
    assert [sharded.snapshot(i) for i in range(4)] == before


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        ("agentgym/Sokobann-v0", {}, "did you mean 'agentgym/Sokoban-v0'"),
        ("CartPole-v1", {}, "is not an AgentEnv"),
        (IDS[0], {"num_workers": 0}, "num_workers must be at least 1"),
        (IDS[0], {"num_workers": 1.5}, "num_workers must be at least 1 and whole"),
        (IDS[0], {"worker_timeout": 0}, "worker_timeout is a number of seconds above 0"),
        (IDS[0], {"worker_timeout": float("nan")}, "worker_timeout is a number of seconds above 0"),
        (IDS[0], {"num_envs": 0}, "num_envs must be at least 1"),
    ],
)
def test_bad_input(env_id, options, message):
    with pytest.raises(UsageError, match=message):
        ShardedVectorEnv(env_id, **options)
