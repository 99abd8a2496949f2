"""GRPO on the built-in SOTOPIA: finite, and resumed as if it had never stopped."""

import math

import torch

from agentgym.history.run import read_metrics
from agentgym.prompts.settings import Prompting
from agentgym.registration import suite_spec
from agentgym.training.checkpoint import last_checkpoint
from agentgym.training.config import TINY, override
from agentgym.training.models.models import load_model
from agentgym.training.run import resume, start
from benchmarks import sotopia_learning

SMALL = {
    "iterations": 2,
    "checkpoint_every": 1,
    "rollout.tasks": 2,
    "rollout.group_size": 4,
    "rollout.num_envs": 8,
    "evaluation.every": 0,
    "env_options.max_turns": 4,
    "decay": "constant",
}


def config(**changes):
    return override(TINY.config("grpo", sotopia_learning.ENV, model="tiny:0.1m", seed=0), SMALL | changes)


def weights(folder):
    return load_model(last_checkpoint(folder) / "model").model.state_dict()


def test_two_iterations_are_finite_and_resumed(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert start(config(), whole, logs=["jsonl"]).end == "finished"
    for line in read_metrics(whole):
        assert all(math.isfinite(value) for value in (line.loss, line.kl, line.logp_diff, line.grad_norm))
    start(config(iterations=1), parts, logs=["jsonl"])
    assert resume(parts, logs=["jsonl"], iterations=2).iterations == 2
    found, expected = weights(parts), weights(whole)
    assert all(torch.equal(found[name], weight) for name, weight in expected.items())
    assert all(bool(torch.isfinite(weight).all()) for weight in expected.values())


def test_prompts_tell_the_conversation_once():
    for prompting in (
        Prompting.default(suite_spec(sotopia_learning.ENV).prompt),
        Prompting.tiny(suite_spec(sotopia_learning.ENV).prompt),
    ):
        assert prompting.history == 0
    assert Prompting.default(suite_spec("agentgym/HotpotQA-v0").prompt).history == 2


def test_the_benchmark_plays_with_the_presets_options():
    tiny = TINY.config("grpo", sotopia_learning.ENV, model="tiny:0.1m", seed=0)
    assert dict(tiny.env_options) == sotopia_learning.OPTIONS


def test_everybody_plays_the_test_tasks(monkeypatch):
    monkeypatch.setattr(sotopia_learning, "TESTED", 28)
    found = {
        name: sotopia_learning.play(lambda envs, name=name: sotopia_learning.make_agent(name, envs))
        for name in ("random", "rules", "oracle")
    }
    assert found["random"]["goal"] < found["rules"]["goal"] < found["oracle"]["goal"]
    page = sotopia_learning.report(12.5, found)
    assert all(f"| {name} | {row['success']:.1%} |" in page for name, row in found.items())
