import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from agentgym.algos.batch import StepBatch
from agentgym.algos.table import ALGORITHMS
from agentgym.algos.tokens import Batch
from agentgym.core.types import Group
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.inference.models.language_model import load_model
from agentgym.inference.policy.saved import read_agent
from agentgym.training.collect.task_order import TaskOrder
from agentgym.training.config import TrainConfig, config_to_json, override, read_config
from agentgym.training.learner.gradients import Actor
from agentgym.training.learner.packing import sampled_log_probs, step_rows
from agentgym.training.learner.update import DivergenceError
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.run import resume, start
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages import Stateless, stages_of
from agentgym.training.track.checkpoint import last_checkpoint, load_checkpoint
from tests.waiting import wait_until

EZPOINTS = "agentgym/EZPoints-v0"
SMALL = {
    "model": "tiny:0.1m",
    "iterations": 4,
    "checkpoint_every": 2,
    "rollout.tasks": 3,
    "rollout.group_size": 4,
    "rollout.num_envs": 6,
    "learner.learning_rate": 3e-3,
    "learner.critic_learning_rate": 3e-3,
    "learner.minibatches": 2,
    "evaluation.every": 2,
    "evaluation.tasks": 3,
    "patience": 100,
}


def config(algorithm="gigpo", **changes):
    plain = TrainConfig(algorithm=algorithm, env_id=EZPOINTS)
    return override(plain, SMALL | {key.replace("__", "."): value for key, value in changes.items()})


EASY = {"env_id": "agentgym/Sokoban-v0", "env_options.max_optimal": 2, "env_options.max_steps": 5}
"""Boards that random weights win now and then."""


def weights(folder, name="model"):
    model = load_model(last_checkpoint(folder) / name).model
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def interrupt(monkeypatch, settings, folder, iteration):
    """Begin a run that is interrupted in an iteration."""

    def broken(trainer):
        if trainer.iteration == iteration:
            raise KeyboardInterrupt
        return collect(trainer)

    collect = Trainer._collect
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_collect", broken)
        with pytest.raises(KeyboardInterrupt):
            start(settings, folder, logs=["jsonl"])


def logged(folder):
    """Return the metrics of a run, but the times."""
    return [
        {key: value for key, value in line.to_json().items() if key not in ("seconds", "tokens_per_second")}
        for line in read_metrics(folder)
    ]


@pytest.mark.parametrize("algorithm", [name for name, algorithm in ALGORITHMS.items() if algorithm.trainable])
def test_every_algorithm_trains_and_saves_a_policy(tmp_path, algorithm):
    kept = {"rollout__accuracy": [0.0, 1.0]}  # PRIME would leave out what random weights lose
    outcome = start(config(algorithm, iterations=2, **kept), tmp_path, logs=["jsonl"])
    assert outcome.end == "finished"
    first, last = read_metrics(tmp_path)
    branching = ALGORITHMS[algorithm].snapshot  # an iteration's steps are then not those of its episodes
    assert (first.iteration, last.iteration) == (1, 2)
    assert first.seconds.env > 0
    assert last.seconds.env > 0  # the policy's seconds are those of its own iteration
    assert branching or last.version == 2
    assert first.logp_diff < 1e-4
    assert last.logp_diff < 1e-4
    assert first.evaluation_before is not None
    assert last.evaluation is not None
    assert branching or sum(last.step_groups.values()) == round(last.steps_per_episode * 12)
    assert (last.explained_variance is None) == (ALGORITHMS[algorithm].critic is None) or last.success == 0
    saved = read_agent(outcome.checkpoint / "model")
    assert saved.training.algorithm == algorithm
    assert saved.training.episodes == last.episodes
    assert branching or last.episodes == 24
    assert saved.training.tokens > 0


def test_a_run_whose_weights_wait_in_main_memory_is_the_same(tmp_path):
    for offload in (False, True):
        start(config("grpo", iterations=2, learner__offload=offload), tmp_path / str(offload), logs=["jsonl"])
    plain, offloaded = (weights(tmp_path / name) for name in ("False", "True"))
    assert all(torch.allclose(tensor, offloaded[name], atol=1e-5) for name, tensor in plain.items())


@pytest.mark.parametrize("algorithm", ["gigpo", "ppo", "dapo", "g2po", "sampo", "vine", "exact"])
def test_a_seed_decides_a_run_and_a_resumed_one_is_the_same(tmp_path, algorithm):
    whole, again, parts = (tmp_path / name for name in ("whole", "again", "parts"))
    start(config(algorithm), whole, logs=["jsonl"])
    if algorithm == "ppo":  # what has most that a seed decides
        start(config(algorithm), again, logs=["jsonl"])
        assert same(weights(whole), weights(again))
        assert logged(whole) == logged(again)
        start(config(algorithm, seed=1), tmp_path / "other", logs=[])
        assert not same(weights(whole), weights(tmp_path / "other"))

    start(config(algorithm, iterations=2), parts, logs=["jsonl"])
    outcome = resume(parts, logs=["jsonl"], iterations=4)
    assert outcome.iterations == 4
    assert same(weights(whole), weights(parts))
    expected = logged(whole)
    expected[1]["evaluation"] = logged(parts)[1]["evaluation"]  # of the last iteration of the first part
    assert logged(parts) == expected


def test_the_loop_is_what_its_parts_do_one_after_the_other(tmp_path):
    """Collect, score, minimise, hand over: written out, without a pool, for three iterations."""
    settings = config(
        "grpo", iterations=3, evaluation__every=0, checkpoint_every=0, objective__kl_coefficient=0.0
    )
    start(settings, tmp_path, logs=[])
    setup = TrainingSetup.open(resolve(settings))
    order = TaskOrder(setup.worker.envs.tasks, settings.seed)
    for iteration in range(3):
        groups = []
        for position in range(3 * iteration, 3 * iteration + 3):
            members = list(setup.worker.run(order.episodes(position, 4)))
            members.sort(key=lambda member: member.rollout)
            groups.append(Group(members[0].task_id, members[0].initial_hash, tuple(members)))
        steps = StepBatch.from_groups(groups)
        batch = Batch.of(
            steps,
            ALGORITHMS["grpo"].advantage(steps),
            credit="step",
            old_log_probs=sampled_log_probs(groups),
        )
        rows = step_rows(groups, setup.speller)
        seed = int(np.random.SeedSequence([settings.seed, 2, iteration + 1]).generate_state(1)[0])
        setup.learner.update(rows, batch, seed=seed)
        setup.engine.sync(setup.learner.weights(), iteration + 1)
    setup.close()
    saved = weights(tmp_path)
    assert all(torch.equal(tensor, saved[name]) for name, tensor in setup.learner.weights())


def test_a_control_that_shuffles_advantages_gets_the_same_episodes_and_other_weights(tmp_path):
    class Shuffled(Stateless):
        def __init__(self, inner):
            self.inner, self.draws = inner, np.random.default_rng(0)

        def score(self, rollouts):
            scores = self.inner.score(rollouts)
            return replace(scores, advantages=self.draws.permutation(scores.advantages))

    metrics = []
    for control in (False, True):
        settings = config("grpo", rollout__tasks=4, rollout__num_envs=16, evaluation__every=0)
        settings = override(settings, EASY)
        setup = TrainingSetup.open(resolve(settings))
        scorer = stages_of("grpo").scorer(setup)
        trainer = Trainer(setup, tmp_path, scorer=Shuffled(scorer) if control else None)
        metrics.append([trainer.iterate() for _ in range(2)])
        setup.close()
    assert metrics[0][0].success == metrics[1][0].success
    assert any(one.usable_fraction > 0 for one in metrics[0])
    assert metrics[0][-1].loss != metrics[1][-1].loss


def test_a_run_without_a_usable_group_ends_early_and_says_so(tmp_path):
    settings = config("grpo", rollout__group_size=2, rollout__tasks=2, patience=2, iterations=50)
    outcome = start(settings, tmp_path, logs=["jsonl"])
    assert outcome.end == "no signal"
    assert outcome.iterations < 50
    tail = read_metrics(tmp_path)[-2:]
    assert all(metrics.usable_fraction == 0 for metrics in tail)
    assert last_checkpoint(tmp_path) == outcome.checkpoint


@pytest.mark.parametrize(
    ("algorithm", "algorithm_options", "group_size", "learns"),
    [
        ("grpo", {"singleton": "raw"}, 1, True),
        ("grpo", {}, 2, False),
        ("reinforce_pp", {}, 2, True),
        ("steppo", {}, 2, True),
    ],
)
def test_outcomes_are_compared_as_the_algorithm_does(
    tmp_path, algorithm, algorithm_options, group_size, learns
):
    settings = config(
        algorithm, rollout__group_size=group_size, algorithm_options=algorithm_options, evaluation__every=0
    )
    setup = TrainingSetup.open(resolve(settings))
    trainer = Trainer(setup, tmp_path)
    steps = StepBatch.of(group=[0, 1], trajectory=[0, 1], state="ab", reward=[0, 1])  # groups alike within
    assert trainer._signal(steps) is learns
    setup.close()


def test_a_loss_that_is_not_a_number_leaves_the_last_good_weights(tmp_path):
    class Poisoned(Stateless):
        def __init__(self, inner):
            self.inner, self.calls = inner, 0

        def score(self, rollouts):
            self.calls += 1
            scores = self.inner.score(rollouts)
            return replace(scores, advantages=scores.advantages * np.nan) if self.calls == 2 else scores

    settings = config("grpo", rollout__tasks=6)
    setup = TrainingSetup.open(resolve(settings))
    trainer = Trainer(setup, tmp_path, scorer=Poisoned(stages_of("grpo").scorer(setup)))
    trainer.iterate()
    good = {name: tensor.clone() for name, tensor in setup.learner.weights()}
    with pytest.raises(DivergenceError, match=r"iteration 2: .*/before-divergence-000002$") as raised:
        trainer.iterate()
    assert "\n" not in str(raised.value)
    saved = tmp_path / "checkpoints" / "before-divergence-000002"
    found = load_model(saved / "model").model.state_dict()
    assert all(torch.equal(tensor, found[name]) for name, tensor in good.items())
    assert load_checkpoint(saved)["totals"]["iteration"] == 1
    setup.close()


def test_importance_weights_are_logged_where_groups_may_be_old(tmp_path):
    settings = config(
        "grpo",
        rollout__max_staleness=2,
        rollout__overlap=False,
        learner__importance_cap=2.0,
        iterations=5,
        learner__learning_rate=1e-2,
    )
    start(settings, tmp_path, logs=["jsonl"])
    lines = read_metrics(tmp_path)
    assert any(line.staleness > 0 for line in lines)
    assert all(line.importance is not None for line in lines)
    assert any(line.pending > 0 for line in lines)


def test_what_is_played_during_an_update_is_counted_too(tmp_path, monkeypatch):
    settings = config("grpo", rollout__max_staleness=1, iterations=3, evaluation__every=0)
    setup = TrainingSetup.open(resolve(settings))
    trainer = Trainer(setup, tmp_path)
    update = setup.learner.update

    def slow_update(*arguments, **options):
        wait_until(lambda: trainer.collector._changed._waiters)  # the thread's queue is full
        return update(*arguments, **options)

    monkeypatch.setattr(setup.learner, "update", slow_update)
    lines = [trainer.iterate() for _ in range(3)]
    trainer.close()
    played, counted = trainer.collector.counts.episodes, trainer._metered["episodes"]
    assert lines[-1].episodes == counted <= played
    assert lines[-1].episodes >= 3 * 12
    assert lines[1].tokens_out + lines[2].tokens_out + lines[0].tokens_out == trainer._metered["tokens_out"]
    assert lines[-1].env_steps == trainer._metered["steps"]
    assert all(line.seconds.env >= 0 for line in lines)
    setup.close()


def test_only_so_many_checkpoints_stay(tmp_path):
    start(config("grpo", checkpoint_every=1, keep=2, iterations=4), tmp_path, logs=[])
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["000003", "000004", "last"]


def test_the_folder_says_what_was_run(tmp_path):
    start(config("steppo", iterations=1), tmp_path, logs=[])
    table = json.loads((tmp_path / "config.json").read_text())
    assert table["algorithm"] == "steppo"
    assert table["objective"]["ratio"] == "step_geomean"
    assert table["prompting"]["choice"] == "constrained"
    assert len(table["made_with"]["template"]["sha256"]) == 64
    assert len(table["made_with"]["tasks_sha256"]) == 64
    read = read_config(tmp_path)
    assert read.objective == ALGORITHMS["steppo"].objective
    start(read, tmp_path / "again", logs=[])
    assert same(weights(tmp_path), weights(tmp_path / "again"))


def test_a_configuration_written_by_hand_is_resumed_as_it_would_have_been_started(tmp_path):
    settings = config("istar", iterations=1)
    written = tmp_path / "written"
    written.mkdir()
    (written / "config.json").write_text(json.dumps(config_to_json(settings)))
    assert (settings.objective, settings.prompting, settings.learner.dtype) == (None, None, "auto")
    resume(written, logs=[])
    start(settings, tmp_path / "started", logs=[])
    assert same(weights(written), weights(tmp_path / "started"))
    assert read_config(written) == read_config(tmp_path / "started")
    (written / "config.json").write_text(json.dumps(config_to_json(settings)))
    assert resume(written, logs=[], iterations=2).iterations == 2  # from its checkpoint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"algorithm": "gigppo"}, "did you mean 'gigpo'"),
        ({"algorithm": "prime", "algorithm_options__beta": 0.1}, "leave out algorithm_options.beta"),
        ({"reward_model__beta": 0.1}, "gigpo trains no reward model"),
        ({"algorithm": "istar", "reward_model__beta": 0.0}, "reward_model: beta must be a number above 0"),
        ({"algorithm": "istar", "reward_model__model": "/nowhere"}, "does not exist"),
        (
            {"algorithm": "istar", "algorithm_options__base": "gigpo"},
            "unknown base 'gigpo' .*choose one of grpo, rloo",
        ),
        (
            {"algorithm": "istar", "algorithm_options__prm_reward": "later"},
            "choose one of before, after",
        ),
        (
            {
                "algorithm": "istar",
                "algorithm_options__process": "progress",
                "algorithm_options__credit": "token",
            },
            "set algorithm_options.credit to step or merged",
        ),
        ({"algorithm": "istar", "algorithm_options__credit": "token"}, "set objective.ratio=token"),
        ({"rollout__accuracy": [0.8, 0.2]}, "two shares in ascending order"),
        ({"env_id": "agentgym/EZPoint-v0"}, "unknown id"),
        ({"model": "/nowhere"}, "does not exist"),
        ({"model": "tiny:3m"}, "tiny:0.8m"),
        ({"algorithm_options__gama": 1}, "did you mean 'gamma'"),
        ({"rollout__group_size": 0}, "group_size must be a whole number of at least 1"),
        (
            {"rollout__group_size": 1},
            "^gigpo compares .* rollout.group_size is 1: set it to 2",
        ),
        ({"rollout__groupsize": 2}, "did you mean 'group_size'"),
        ({"learner__learning_rate": "fast"}, "expected a number"),
        ({"prompting__budget": 20}, "raise it"),
        ({"prompting__wording": "shop"}, "wording"),
        ({"evaluation__split": "dev"}, "split"),
        ({"env_options__dim_room": [6, 6]}, "unknown option 'dim_room'"),
        ({"decay": "exponential"}, "must be one of"),
    ],
)
def test_bad_settings_are_one_line_that_names_the_fix(tmp_path, change, message):
    with pytest.raises(UsageError, match=message) as raised:
        start(config(**change), tmp_path / "run", logs=[])
    assert "\n" not in str(raised.value)


def test_a_folder_holds_one_run(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        resume(tmp_path, logs=[])
    start(config("grpo", iterations=1), tmp_path, logs=[])
    with pytest.raises(UsageError, match="holds a run already"):
        start(config("grpo", iterations=1), tmp_path, logs=[])


@pytest.mark.parametrize("algorithm", ["grpo", "gspo", "ppo"])
def test_a_run_that_bypasses_old_log_probs_saves_a_pass_and_ends_at_the_same_weights(
    tmp_path, monkeypatch, algorithm
):
    passes = Counter()
    forward = Actor.forward
    monkeypatch.setattr(
        Actor, "forward", lambda *args, **given: passes.update([source]) or forward(*args, **given)
    )
    small = {"iterations": 2, "objective.kl_coefficient": 0.0}
    # AdamW takes as large a step along a gradient that is rounding alone, but for its epsilon
    small |= {"learner.learning_rate": 1e-4, "learner.epsilon": 1e-2}
    small |= {"objective.clip_low": 0.5, "objective.clip_high": 0.5}  # which none of these steps reaches
    trained = []
    for source in ("recompute", "bypass"):
        settings = override(config(algorithm, learner__old_log_probs=source), EASY | small)
        start(settings, tmp_path / source, logs=["jsonl"])
        trained.append(weights(tmp_path / source))
    assert max((one - trained[1][name]).abs().max() for name, one in trained[0].items()) < 1e-5
    assert passes["bypass"] < 0.7 * passes["recompute"]
    setup = TrainingSetup.open(resolve(settings))
    begun = dict(setup.learner.weights())
    setup.close()
    assert max((one - trained[0][name]).abs().max() for name, one in begun.items()) > 2e-4
    lines = read_metrics(tmp_path / "bypass")
    assert [line.truncated for line in lines] == [line.clip_fraction for line in lines] == [0.0, 0.0]
    assert all(line.logp_diff < 1e-5 and line.importance == pytest.approx(1, abs=0.1) for line in lines)
    with pytest.raises(UsageError, match="old_log_probs"):
        config(learner__old_log_probs="bypassed")
