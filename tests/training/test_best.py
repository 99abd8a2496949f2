"""Evaluation of several splits and types of tasks; the best checkpoint; early stopping."""

import os

import pytest

from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.history.metrics import Evaluated
from agentgym.history.run import read_metrics
from agentgym.inference.policy.saved import read_agent
from agentgym.registration import open_vector
from agentgym.rollout.worker import RolloutWorker
from agentgym.training.loop import Trainer
from agentgym.training.run import resume, start
from agentgym.training.track.checkpoint import last_checkpoint, load_checkpoint
from agentgym.training.track.evaluate import Evaluation, SplitEvaluation
from tests.training.test_loop import EZPOINTS, config, interrupt, logged, same, weights

BOTH = {"evaluation__split": ["valid", "test"]}
BEST = {"evaluation__keep_best": "success", "evaluation__every": 1, "checkpoint_every": 0, "keep": 1}


def of_oracle(split, tasks=12):
    envs = open_vector(EZPOINTS, 4, split=split)
    return SplitEvaluation.of(RolloutWorker(envs, envs.oracle(), env_id=EZPOINTS), tasks=tasks, seed=3)


@pytest.fixture
def evaluated(monkeypatch):
    """Let evaluations after each iteration come to given numbers; what was evaluated before counts not."""
    values = {0: 0.9}

    def result(trainer):
        return Evaluated(episodes=4, success=values[trainer.iteration], score=1 - values[trainer.iteration])

    monkeypatch.setattr(Trainer, "_evaluate", result)
    return lambda *numbers: values.update(enumerate(numbers, start=1))


def links(folder):
    checkpoints = folder / "checkpoints"
    kept = sorted(path.name for path in checkpoints.iterdir() if not path.is_symlink())
    return kept, {name: os.readlink(checkpoints / name) for name in ("best", "last")}


def test_splits_and_types_of_tasks_are_evaluated_side_by_side():
    evaluation = Evaluation({name: of_oracle(name) for name in ("valid", "test")})
    found = evaluation.run()
    assert list(found.splits) == ["valid", "test"]
    assert (found.success, found.types) == (1.0, found.splits["valid"].types)
    for name, split in evaluation.splits.items():
        tasks = split.worker.envs.tasks[:12]
        counts = {kind: sum(task.type == kind for task in tasks) for kind in ("product", "sum")}
        assert {kind: each.episodes for kind, each in found.splits[name].types.items()} == counts
    evaluation.close()


def test_a_single_split_of_one_type_has_its_numbers_alone():
    evaluation = Evaluation({"valid": of_oracle("valid", tasks=1)})
    found = evaluation.run()
    assert (found.episodes, found.types, found.splits) == (1, {}, {})
    assert isinstance(evaluation.manifests(), str)
    evaluation.check_measure("score")
    for unknown in ("splits/valid/score", "types/sum/score", "episodes"):
        with pytest.raises(UsageError, match=r"unknown evaluation\.keep_best .*choose one of success, score"):
            evaluation.check_measure(unknown)
    evaluation.close()


def test_a_further_split_changes_nothing_of_a_run(tmp_path):
    start(config("grpo", iterations=2), tmp_path / "one", logs=["jsonl"])
    start(config("grpo", iterations=2, **BOTH), tmp_path / "two", logs=["jsonl"])
    assert same(weights(tmp_path / "one"), weights(tmp_path / "two"))
    one, two = (read_metrics(tmp_path / name)[-1].evaluation for name in ("one", "two"))
    assert (one.success, one.score, one.types) == (two.success, two.score, two.types)
    assert set(two.splits) == {"valid", "test"}


def test_the_best_checkpoint_stays_beside_the_newest(tmp_path, evaluated):
    evaluated(0.1, 0.5, 0.5, 0.2)
    outcome = start(config("grpo", **BEST), tmp_path, logs=[])
    assert links(tmp_path) == (
        ["000002", "000004"],
        {"best": "000002", "last": "000004"},
    )  # not the equal one
    assert outcome.best_checkpoint == tmp_path / "checkpoints" / "000002"
    assert (outcome.best.value, outcome.best.iteration) == (0.5, 2)
    rules = [
        read_agent(tmp_path / "checkpoints" / name / "model").training.checkpoint
        for name in links(tmp_path)[0]
    ]
    assert rules == ["best by evaluation/success", "last"]


def test_a_better_one_takes_its_place(tmp_path, evaluated):
    evaluated(0.5, 0.4, 0.6, 0.6)
    start(config("grpo", **BEST | {"checkpoint_every": 1}), tmp_path, logs=[])
    assert links(tmp_path) == (["000003", "000004"], {"best": "000003", "last": "000004"})


def test_a_run_without_a_measure_has_no_best(tmp_path):
    outcome = start(config("grpo", iterations=1), tmp_path, logs=[])
    assert outcome.best_checkpoint is None
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["000001", "last"]
    assert read_agent(last_checkpoint(tmp_path) / "model").training.checkpoint == "last"


def test_a_resumed_run_knows_the_best_and_stops_where_the_whole_one_does(tmp_path, evaluated, monkeypatch):
    evaluated(0.1, 0.5, 0.3, 0.5, 0.4, 0.9)
    settings = config(
        "grpo", **BEST | {"checkpoint_every": 1, "evaluation__early_stopping": 3, "iterations": 9}
    )
    whole = start(settings, tmp_path / "whole", logs=["jsonl"])
    assert (whole.end, whole.iterations, whole.best.since) == ("stopped early", 5, 3)
    interrupt(monkeypatch, settings, tmp_path / "parts", 3)
    assert links(tmp_path / "parts") == (["000002", "000003"], {"best": "000002", "last": "000003"})
    outcome = resume(tmp_path / "parts", logs=["jsonl"])
    assert (outcome.end, outcome.iterations, outcome.best) == (whole.end, whole.iterations, whole.best)
    assert links(tmp_path / "parts") == links(tmp_path / "whole")
    assert same(weights(tmp_path / "parts"), weights(tmp_path / "whole"))
    assert logged(tmp_path / "parts") == logged(tmp_path / "whole")
    again = resume(tmp_path / "parts", logs=["jsonl"])  # has stopped already
    assert (again.end, again.iterations) == ("stopped early", 5)
    assert load_checkpoint(again.checkpoint)["best"]["since"] == 3


def test_a_run_that_stops_early_says_so(tmp_path, evaluated, capsys):
    evaluated(0.25, 0.1)
    settings = config("grpo", **BEST | {"evaluation__early_stopping": 1, "iterations": 2})
    start(settings, tmp_path, logs=["jsonl"])
    assert main(["train", "--resume", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert (
        "stopped early after 2 iterations: none of the last 1 evaluations was better than that of "
        "iteration 1 (0.25)" in said
    )
    assert "best model:" in said
    assert "checkpoints/000001/model" in said


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"evaluation__split": []}, r"evaluation\.split is one split or several"),
        ({"evaluation__split": ["valid", "valid"]}, r"evaluation\.split is one split or several, each once"),
        ({"evaluation__early_stopping": 2}, r"set evaluation\.keep_best, too"),
        ({"evaluation__keep_best": "success", "evaluation__every": 0}, r"set evaluation\.every"),
        ({"evaluation__keep_best": "sucess"}, r"did you mean 'success'"),
        (BOTH | {"evaluation__keep_best": "splits/tests/score"}, r"did you mean 'splits/test/score'"),
        ({"evaluation__split": ["valid", "tset"]}, r"did you mean 'test'"),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path, changes, message):
    with pytest.raises(UsageError, match=message) as error:
        start(config("grpo", **changes), tmp_path, logs=[])
    assert "\n" not in str(error.value)
