"""Behaviour cloning through the command line."""

import json

import pytest

ENV = "agentgym/EZPoints-v0"
SMALL = ("--env", ENV, "--model", "tiny:0.1m", "--tasks", 4, "--epochs", 2, "--set", "held_out=4")


@pytest.fixture
def train(cli, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    return lambda *words: cli("train", "bc", *words)


def test_a_model_is_trained_and_goes_on_learning(train, tmp_path):
    changes = ("--set", "num_envs=4", "--set", "env_options.max_steps=9", "--set", "prompting.history=1")
    code, out, _ = train(*SMALL, "--seed", 3, *changes)
    assert code == 0
    assert out.splitlines()[0].endswith(" steps of the 4 episodes that the teacher won, of 4 played")
    assert "loss: " in out
    assert out.splitlines()[2].endswith(" of 4 tasks")
    assert out.splitlines()[-1] == "model: runs/bc-ezpoints-seed3"
    folder = tmp_path / "runs" / "bc-ezpoints-seed3"
    config = json.loads((folder / "cloning.json").read_text())["config"]
    assert (config["seed"], config["tasks"], config["epochs"], config["held_out"]) == (3, 4, 2, 4)
    assert config["env_options"] == {"max_steps": 9}
    assert config["prompting"]["history"] == 1
    assert config["learning_rate"] == 1e-3
    words = ("--env", ENV, "--model", folder, "--tasks", 2, "--epochs", 1, "--set", "held_out=0")
    code, out, _ = train(*words, "--out", tmp_path / "more")
    assert code == 0
    assert "held out" not in out
    config = json.loads((tmp_path / "more" / "cloning.json").read_text())["config"]
    assert config["learning_rate"] == 1e-5
    assert config["prompting"]["history"] == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the following arguments are required: --env"),
        (("--env", "agentgym/EZPoint-v0"), "unknown id 'agentgym/EZPoint-v0' (did you mean"),
        ((*SMALL, "--set", "epoch=1"), "unknown key 'epoch' (did you mean 'epochs'?)"),
        ((*SMALL, "--set", "batch=many"), "settings: batch: expected an integer, got 'many'"),
        ((*SMALL, "--set", "seed=1"), "option 'seed' has its own flag: use --seed"),
        ((*SMALL, "--set", "env_options=1"), "settings with parts are env_options.NAME and prompting.NAME"),
        ((*SMALL, "--set", "batch.size=1"), "settings with parts are env_options.NAME and prompting.NAME"),
        ((*SMALL, "--set", "prompting.histroy=1"), "unknown key 'histroy' (did you mean 'history'?)"),
        (("--env", ENV, "--model", "tiny:9b"), "unknown model 'tiny:9b'"),
        (("--env", ENV, "--model", "nowhere"), "nowhere does not exist"),
    ],
)
def test_bad_input_is_explained(refused, words, message):
    assert message in refused("train", "bc", *words)
