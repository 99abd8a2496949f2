"""Training runs of 3SPO: their trees, resuming in the middle of them, and settings that make no sense."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.history.rollouts import read_rollouts
from agentgym.history.run import read_metrics
from agentgym.training.config import TrainConfig, override
from agentgym.training.machine.resources import resolve
from agentgym.training.run import resume, start
from agentgym.training.setup import TrainingSetup
from agentgym.training.track.checkpoint import last_checkpoint, load_checkpoint
from tests.training.test_loop import logged, weights

SOKOBAN = "agentgym/Sokoban-v0"

SMALL = {
    "model": "tiny:0.1m",
    "iterations": 6,
    "checkpoint_every": 3,
    "rollout.tasks": 2,
    "rollout.group_size": 4,
    "rollout.num_envs": 4,
    "learner.learning_rate": 3e-3,
    "learner.minibatches": 2,
    "objective.kl_coefficient": 0.0,
    "evaluation.every": 0,
    "patience": 100,
    "keep_rollouts": 1,
    "algorithm_options.alpha": 1.0,
    "algorithm_options.budget": 60,
    "env_options.dim_room": [6, 6],
    "env_options.num_boxes": 1,
    "env_options.max_steps": 4,
}


def config(**changes):
    plain = TrainConfig(algorithm="spo3", env_id=SOKOBAN)
    return override(plain, SMALL | {key.replace("__", "."): value for key, value in changes.items()})


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("spo3") / "whole"
    start(config(), folder, logs=["jsonl"])
    return folder


def test_a_run_changes_weights_and_tells_of_its_trees(whole):
    metrics = read_metrics(whole)
    taught = [line.usable_fraction > 0 for line in metrics]
    assert [line.version for line in metrics] == np.cumsum(taught).tolist()
    assert all(np.isfinite(line.loss) and line.logp_diff < 1e-4 for line in metrics)
    assert any(line.usable_fraction > 0 and line.grad_norm > 0 for line in metrics)
    last = metrics[-1]
    assert last.number("diagnostics/k/8") == last.diagnostics["k"]["8"]
    assert last.env_steps == last.diagnostics["states"]["samples"]
    assert last.diagnostics["states"]["by_hash"] >= last.diagnostics["states"]["by_text"] > 10
    assert last.pending == 2
    assert last.steps_per_episode >= 0  # 0 where no episode has ended yet
    kept = read_rollouts(whole, max(line.iteration for line in metrics if line.usable_fraction > 0))
    assert {len(episode.trajectory.steps) for episode in kept} == {1}
    assert {"depth", "k", "visits", "successes", "score", "next_score", "reward"} == set(kept[0].notes)


def test_a_run_resumes_in_the_middle_of_trees(whole, tmp_path):
    parts = tmp_path / "parts"
    start(config(iterations=3), parts, logs=["jsonl"])
    state = load_checkpoint(last_checkpoint(parts))["pool"]
    assert any(tree and tree["follows"] and tree["nodes"] for tree in state["trees"])
    assert all(isinstance(n["snapshot"], bytes) for tree in state["trees"] if tree for n in tree["nodes"])
    resume(parts, logs=["jsonl"], iterations=6)
    one, other = weights(whole), weights(parts)
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert logged(parts) == logged(whole)


def older_visits(pool):
    pool["visits"] = pool["visits"]["states"]  # version 0.1 kept the rows alone


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (older_visits, "TypeError: list indices"),
        (lambda pool: pool.pop("turns"), "KeyError: 'turns'"),
        (lambda pool: pool.update(ends=[{"won": True}]), "TypeError: EpisodeEnd"),
    ],
    ids=["visits", "turns", "ends"],
)
def test_a_checkpoint_of_another_version_is_refused_in_a_line(whole, tmp_path, capsys, change, reason):
    run = tmp_path / "run"
    shutil.copytree(whole, run, symlinks=True)
    checkpoint = last_checkpoint(run)
    state = load_checkpoint(checkpoint)
    change(state["pool"])
    torch.save(state, checkpoint / "state.pt")
    assert main(["train", "spo3", "--resume", str(run), "--iterations", "7"]) == 2
    *_, line = capsys.readouterr().err.strip().splitlines()
    assert line.startswith(f"agentgym: cannot resume from {checkpoint}: another version of agentgym wrote it")
    assert reason in line
    assert f"begin anew in another folder, with --model {checkpoint / 'model'} from its weights" in line


def test_k_of_one_makes_no_update(tmp_path):
    outcome = start(
        config(algorithm_options__fixed=1, patience=2, iterations=5), tmp_path / "run", logs=["jsonl"]
    )
    assert (outcome.end, outcome.iterations) == ("no signal", 2)
    metrics = read_metrics(tmp_path / "run")
    assert [line.version for line in metrics] == [0, 0]
    assert all(line.loss == 0 and line.env_steps > 0 for line in metrics)
    opened = TrainingSetup.open(resolve(config()))
    one, other = weights(tmp_path / "run"), opened.language_model.model.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_the_papers_preset_plays_its_batches_of_whole_searches(tmp_path):
    """By the command line: the paper's preset, with a tiny model and fewer batches."""
    small = {
        "algorithm_options.batches": 3,
        "algorithm_options.budget": 12,
        "rollout.tasks": 2,
        "env_options.dim_room": [6, 6],
        "env_options.num_boxes": 1,
        "env_options.max_steps": 3,
        "prompting.max_tokens": 2,
        "learner.dtype": "float32",
        "objective.kl_coefficient": 0.0,
        "evaluation.tasks": 1,
        "evaluation.split": "test",
    }
    options = [word for name, value in small.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    words = ["train", "spo3", "--env", SOKOBAN, "--preset", "paper", "--model", "tiny:0.1m"]
    assert main([*words, *options, "--log", "jsonl", "--out", str(tmp_path / "run")]) == 0
    metrics = read_metrics(tmp_path / "run")
    assert len(metrics) < 400 * 12
    assert sum(line.number("diagnostics/trees/ended") for line in metrics) == 3 * 2
    assert (metrics[-1].number("diagnostics/trees/batches"), metrics[-1].pending) == (3, 0)
    assert metrics[-1].env_steps <= 3 * 2 * 12
    assert metrics[-1].evaluation is not None  # after the last batch, as after a last iteration
    resume(tmp_path / "run", logs=["jsonl"])
    assert len(read_metrics(tmp_path / "run")) == len(metrics)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"algorithm_options__match": "similar"}, "visits are counted by 'state' or 'text'"),
        ({"rollout__max_staleness": 1}, "rollout.max_staleness is 1, but 3SPO trains on every wave"),
        ({"rollout__attempts": 3}, "rollout.attempts is 3"),
        ({"algorithm_options__largest": 0}, "largest must be a whole number of at least 1"),
        (
            {"algorithm_options__schedule": "age"},
            "unknown schedule .*choose one of depth, visits, global",
        ),
        ({"algorithm_options__scope": "all"}, "hashes are of one task: set algorithm_options.match=text"),
        ({"algorithm_options__alfa": 1.0}, "did you mean 'alpha'"),
    ],
)
def test_what_makes_no_sense_is_one_line(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message) as raised:
        start(config(**changes), tmp_path / "run", logs=[])
    assert "\n" not in str(raised.value)
