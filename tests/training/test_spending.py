"""The ledger of a run: what it cost, all sessions together."""

import json
import os
from dataclasses import asdict

import pytest

from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.training.config import TrainConfig, override
from agentgym.training.run import resume, start
from agentgym.training.track.spending import LEDGER_FILE, TrainingLedger, read_ledger

SMALL = {
    "model": "tiny:0.1m",
    "iterations": 2,
    "rollout.tasks": 2,
    "rollout.group_size": 2,
    "rollout.num_envs": 4,
    "evaluation.every": 0,
    "patience": 100,
}


def test_a_ledger_that_is_no_file_or_no_ledger_is_one_line(tmp_path):
    os.mkfifo(tmp_path / LEDGER_FILE)
    with pytest.raises(UsageError, match=r"^[^\n]*is not a regular file[^\n]*remove it to begin another$"):
        read_ledger(tmp_path)
    (tmp_path / LEDGER_FILE).unlink()
    for text in ("[" * 9_000, "{", "[]", '{"sessions": "two"}', '{"sessions": NaN}'):
        (tmp_path / LEDGER_FILE).write_text(text)
        with pytest.raises(UsageError, match=r"^[^\n]*remove it to begin another$"):
            read_ledger(tmp_path)


def test_a_resumed_run_goes_on_with_its_ledger(tmp_path):
    settings = override(TrainConfig(algorithm="grpo", env_id="agentgym/EZPoints-v0"), SMALL)
    assert read_ledger(tmp_path) is None
    start(settings, tmp_path, logs=["jsonl"])
    first = read_ledger(tmp_path)
    resume(tmp_path, logs=["jsonl"], iterations=3)
    ledger, lines = read_ledger(tmp_path), read_metrics(tmp_path)
    assert (first.sessions, first.iterations, ledger.sessions, ledger.iterations) == (1, 2, 2, 3)
    assert (ledger.device, ledger.devices) == ("cpu", 1)
    assert ledger.env_steps == lines[-1].env_steps
    assert ledger.episodes == lines[-1].episodes == 12
    assert ledger.tokens_in == sum(line.tokens_in for line in lines)
    assert ledger.tokens_out == sum(line.tokens_out for line in lines)
    assert ledger.seconds == ledger.device_seconds > sum(line.seconds.total for line in lines)
    assert ledger.peak_memory >= first.peak_memory > 50_000_000

    (tmp_path / "checkpoints" / "last").unlink()  # killed before it, so that all is played again
    (tmp_path / "metrics.jsonl").unlink()
    resume(tmp_path, logs=["jsonl"], iterations=1)
    again = read_ledger(tmp_path)
    assert (again.sessions, again.iterations, again.episodes) == (3, 4, 16)


def test_a_damaged_ledger_is_one_line(tmp_path):
    for text, message in (("{", "not JSON.*remove it"), (json.dumps({"devise": "cpu"}), "devise")):
        (tmp_path / LEDGER_FILE).write_text(text)
        with pytest.raises(UsageError, match=message) as raised:
            read_ledger(tmp_path)
        assert "\n" not in str(raised.value)
    (tmp_path / LEDGER_FILE).write_text(json.dumps(asdict(TrainingLedger(device="cpu"))))
    assert read_ledger(tmp_path) == TrainingLedger(device="cpu")
