"""GRPO on the built-in SOTOPIA: finite, and resumed as if it had never stopped."""

import math

import torch

from agentgym.history.run import read_metrics
from agentgym.prompts.settings import Prompting
from agentgym.registration import suite_spec
from agentgym.training.config import TINY, override
from agentgym.training.run import resume, start
from tests.training.test_loop import weights

ENV = "agentgym/Sotopia-v0"
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
    return override(TINY.config("grpo", ENV, model="tiny:0.1m", seed=0), SMALL | changes)


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
        Prompting.default(suite_spec(ENV).prompt),
        Prompting.tiny(suite_spec(ENV).prompt),
    ):
        assert prompting.history == 0
    assert Prompting.default(suite_spec("agentgym/HotpotQA-v0").prompt).history == 2
