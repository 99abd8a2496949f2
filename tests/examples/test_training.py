"""The examples that need torch."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from agentgym.cli import main
from examples import minimal_gigpo, own_reward

ROOT = Path(__file__).parents[2]
SMALL = (
    *("--model", "tiny:0.1m", "--iterations", "2", "--log", "jsonl", "--out", "run"),
    *("--set", "rollout.tasks=2", "--set", "rollout.group_size=3", "--set", "rollout.num_envs=6"),
    *("--set", "evaluation.every=0", "--set", "patience=100"),
)


def test_a_model_is_trained_on_an_environment_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "gigpo", "--env", "examples.own_env:examples/NumberLine-v0", *SMALL]) == 0
    assert "finished after 2 iterations" in capsys.readouterr().out
    words = ["--agent", "model", "--agent-option", "path=run/checkpoints/000002/model"]
    assert main(["play", "examples.own_env:examples/NumberLine-v0", *words]) == 0


def test_a_model_is_trained_on_a_reward_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "gigpo", "--env", f"examples.own_reward:{own_reward.ENV_ID}", *SMALL]) == 0
    assert "finished after 2 iterations" in capsys.readouterr().out


def test_a_model_is_trained_by_a_loss_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    env = ("--env", "agentgym/EZPoints-v0")
    assert main(["train", "grpo", *env, "--loss", "examples.own_loss:cispo", *SMALL]) == 0
    config = json.loads(Path("run/config.json").read_text(encoding="utf-8"))
    assert config["objective"]["loss"] == "examples.own_loss:cispo"
    assert main(["train", "--config", "run/config.json", "--out", "again"]) == 2
    assert "give --allow examples.own_loss:NAME if you trust it" in capsys.readouterr().err


def test_a_model_is_trained_by_a_sampler_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    env = ("--env", "agentgym/EZPoints-v0")
    assert main(["train", "grpo", *env, "--sampler", "examples.own_sampler:min_p", *SMALL]) == 0
    config = json.loads(Path("run/config.json").read_text(encoding="utf-8"))
    assert config["rollout"]["sampler"] == "examples.own_sampler:min_p"
    more = ("--iterations", "1", "--log", "jsonl", "--out", "again")
    assert main(["train", "grpo", "--config", "run", *more]) == 2
    assert "give --allow examples.own_sampler:NAME if you trust it" in capsys.readouterr().err
    allowed = ("--allow", "examples.own_sampler:min_p")
    assert main(["train", "grpo", "--config", "run", *allowed, *more]) == 0


def test_a_model_is_trained_by_an_algorithm_of_ones_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    env = ("--env", "agentgym/EZPoints-v0")
    assert main(["train", "examples.own_algorithm:OPO", *env, *SMALL]) == 0
    assert "finished after 2 iterations" in capsys.readouterr().out


def test_the_minimal_loop_runs():
    """In a process of its own: plain padding takes 600 MB."""
    again = "train(iterations=1, seed=3)"
    code = f"from examples.minimal_gigpo import train; assert {again} == {again}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.count("iteration   1  loss") == 2


def test_the_minimal_loop_uses_nothing_of_the_trainer():
    assert "from agentgym.training" not in Path(minimal_gigpo.__file__).read_text()


@pytest.mark.slow
def test_the_minimal_loop_learns():
    """From 1 % to 79, 88 and 97 % after fifteen iterations, for seeds 0 to 2."""
    curve = minimal_gigpo.train(iterations=15, seed=0)
    assert curve[0] < 0.05
    assert np.mean(curve[-3:]) > 0.7
