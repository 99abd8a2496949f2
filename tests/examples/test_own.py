"""The examples of an environment and an agent of one's own run as their first lines say."""

import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from agentgym.agents import make_agent
from agentgym.algos.batch import StepBatch
from agentgym.checking import check_agent_env, check_agent_vector_env
from agentgym.errors import UntrustedReferenceError
from agentgym.evaluation.log.runfiles import read_episodes
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.verify.verification import verify_run
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.vector.serial import SerialVectorEnv
from examples import own_algorithm, own_env

ROOT = Path(__file__).resolve().parents[2]
NUMBER_LINE = f"examples.own_env:{own_env.ENV_ID}"


def run(*words):
    """Run a program from the checkout's root; return what it printed."""
    done = subprocess.run([sys.executable, *words], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_environment_checks_itself():
    expected = "the contract is kept; the oracle wins 8 of 8 test tasks\n"
    assert run("examples/own_env.py") == expected


def test_the_reward_pays_for_boxes_and_checks_itself():
    page = (ROOT / "docs" / "tutorials" / "own-reward.md").read_text(encoding="utf-8")
    shown = run("examples/own_reward.py")
    assert shown.startswith("the contract holds; the oracle earns [0.0, ")
    assert f"```\n{shown}```\n" in page


def test_the_environment_keeps_the_contract_in_both_forms():
    check_agent_env(own_env.ENV_ID)
    check_agent_vector_env(partial(SerialVectorEnv, env_class=own_env.NumberLine))


def test_the_environment_is_played_on_the_command_line():
    shown = run(
        "-m", "agentgym", "play", NUMBER_LINE, "--agent", "oracle", "--task", "2 to 5", "--split", "train"
    )
    assert "success after 3 steps" in shown


def test_the_suite_ranks_the_agent_above_chance(tmp_path):
    suite = tmp_path / "suites" / "own_suite.toml"
    suite.parent.mkdir()
    shutil.copy(ROOT / "examples" / "own_suite.toml", suite)
    folders = run_bench(suite, tmp_path / "results")
    with pytest.raises(UntrustedReferenceError, match=r"give --allow examples\.own_env:NAME if you trust it"):
        verify_run(folders[0], suite=suite)
    allow = load_suite(suite).references
    assert all(verify_run(folder, suite=suite, allow=allow).ok for folder in folders)
    won = {
        folder.name.rpartition("-")[0]: np.mean([e.won for e in read_episodes(folder)]) for folder in folders
    }
    assert won["random"] < won["least-tried"] < won["oracle"] == 1


def test_the_agent_forgets_what_is_long_past():
    envs = open_vector(NUMBER_LINE, 4, split="train")
    played = [
        RolloutWorker(envs, make_agent("examples.own_agent:make", envs, memory=memory), env_id=NUMBER_LINE)
        for memory in (0, 100)
    ]
    forgetful, mindful = (worker.collect(envs.tasks.ids, group_size=2, seed=0) for worker in played)

    def success(groups):
        return np.mean([episode.won for group in groups for episode in group.trajectories])

    assert success(forgetful) < success(mindful)


def test_the_agent_refuses_actions_with_slots():
    envs = open_vector("agentgym/WebShop-v0", 1)
    with pytest.raises(ValueError, match="plays no actions with free slots"):
        make_agent("examples.own_agent:make", envs)


def test_the_algorithms_baseline_is_weighted_by_length():
    """Episodes of 1 + 3 and 4 tokens return 2 and 0; one of 5 tokens is alone in its group."""
    batch = StepBatch.of(
        group=[0, 0, 0, 1], trajectory=[0, 0, 1, 2], state=list("abac"), reward=[0.0, 2.0, 0.0, 3.0],
        tokens=[1, 3, 12, 5],
    )  # fmt: skip
    np.testing.assert_allclose(own_algorithm.advantage(batch), [1.5, 1.5, -0.5, 0.0])
