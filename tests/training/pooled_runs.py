"""Runs that play, and runs that train on their groups; one that is killed."""

import os
import random
import signal
import time
import traceback
from functools import partial

import pytest
import torch.distributed as dist

from agentgym.rollout.datapool import DataPool
from agentgym.training.collect.pool import RolloutPool
from agentgym.training.run import resume, start
from agentgym.training.track.checkpoint import last_checkpoint
from tests.training.test_loop import EASY, config
from tests.waiting import wait_until

SHORT = {"evaluation__every": 0, "checkpoint_every": 1, "iterations": 2, "patience": 100}


def settings(algorithm="grpo", **changes):
    return config(algorithm, **EASY | SHORT | changes)


def played(run_settings, folder):
    """Run by playing; return the groups of each update."""
    updates, collect = [], RolloutPool.collect

    def collect_and_keep(self, version):
        collected = collect(self, version)
        updates.append(collected.groups)
        return collected

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RolloutPool, "collect", collect_and_keep)
        start(run_settings, folder, logs=["jsonl"])
    return updates


def store(folder, updates, **options):
    """Add the groups of updates to a pool, which is returned closed."""
    with DataPool(folder) as pool:
        for number, groups in enumerate(updates):
            for place, group in enumerate(groups):
                for member in group.trajectories:
                    size = len(group.trajectories)
                    pool.add(member, group=f"{number}-{place}", size=size, **options)
    return folder


def model_bytes(folder):
    return (last_checkpoint(folder) / "model" / "model.safetensors").read_bytes()


def forked(call):
    """Call a function in a process of its own, whose imports are done; return its id."""
    if dist.is_initialized():  # of one rank, by a test before: its threads would be missed in the child
        dist.destroy_process_group()
    child = os.fork()
    if child:
        return child
    try:
        code = call()
        os._exit(code if isinstance(code, int) else 0)
    except BaseException:  # noqa: BLE001  # nothing of the child goes on as the parent
        traceback.print_exc()
        os._exit(1)


def kill_at_random(folder, pool, seed, most):
    """Begin and resume a run until it is through; kill it up to so many times. Return how often."""
    draws, kills = random.Random(seed), 0
    run_settings = settings(iterations=4, checkpoint_every=2, rollout__pool=str(pool))
    while True:
        begun = (folder / "config.json").exists()
        go_on = partial(resume if begun else partial(start, run_settings), folder, logs=["jsonl"])
        child = forked(go_on)
        if kills < most:
            wait_until((folder / "config.json").exists)  # a run is killed at least once, however fast it is
            time.sleep(draws.random() * (0.1 + 0.5 * kills))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            assert status == 0, "a run failed"
            return kills
        kills += 1
