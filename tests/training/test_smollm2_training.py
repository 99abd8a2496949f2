"""The benchmark that trains a pretrained model: what it is resumed from and what its page says."""

import json

import pytest

from agentgym.errors import UsageError
from agentgym.history.metrics import IterationMetrics
from benchmarks import smollm2_training


def test_the_page_says_what_was_played(monkeypatch):
    monkeypatch.setattr(smollm2_training, "PLAYS", {"a": ("test",), "b": ("valid",)})
    row = smollm2_training._row("x", {"x: a": [True, False], "x: b": [False] * 4})
    assert row == "| x | 50.0 [9.5, 90.5] of 2 | 0.0 [0.0, 49.0] of 4 |"


def test_a_model_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(UsageError, match="is no model directory: python -m"):
        smollm2_training.main([str(tmp_path)])


def test_stages_that_are_done_are_not_done_again(tmp_path, monkeypatch):
    monkeypatch.setattr(smollm2_training, "FOLDER", tmp_path)
    monkeypatch.setattr(smollm2_training, "CLONE", tmp_path / "clone")
    monkeypatch.setattr(smollm2_training, "read_metrics", lambda folder: [IterationMetrics] * 3)
    commands = []
    monkeypatch.setattr(smollm2_training, "_timed", lambda stage, words: commands.append(words) or 0)
    assert smollm2_training.train("grpo", 4) == 0
    (tmp_path / "ezpoints-grpo" / "checkpoints" / "last").mkdir(parents=True)
    assert smollm2_training.train("grpo", 4) == smollm2_training.train("grpo", 3) == 0
    assert smollm2_training.clone(tmp_path) == 0
    (tmp_path / "clone").mkdir()
    (tmp_path / "clone" / "cloning.json").write_text(json.dumps({}))
    assert smollm2_training.clone(tmp_path) == 0
    assert [words[:3] for words in commands] == [
        ["train", "grpo", "--env"],
        ["train", "grpo", "--resume"],
        ["train", "bc", "--env"],
    ]
    assert "prompting.choice=constrained" in commands[2]
