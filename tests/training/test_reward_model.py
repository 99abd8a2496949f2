"""A process reward model beside the policy: exact gradients, what it learns, and runs of iStar and PRIME."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch

from agentgym.algos.loss import TokenLayout
from agentgym.algos.process import implicit_rewards, outcome_loss, pool, preference_loss
from agentgym.algos.table import ALGORITHMS
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.inference.models.language_model import copied, load_model
from agentgym.inference.models.reward_model_file import read_reward_model
from agentgym.training.config import TINY, TrainConfig, override, read_config
from agentgym.training.learner.config import LearnerConfig, RewardModelConfig
from agentgym.training.learner.logprobs import response_log_probs
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.reward_model import Answers, RewardModel
from agentgym.training.learner.tree import PACKINGS
from agentgym.training.learner.update import DivergenceError
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.run import resume, start
from agentgym.training.setup import TrainingSetup, check_fits
from agentgym.training.stages.reward_model import OutcomeModelScorer, PreferenceScorer
from agentgym.training.track.checkpoint import last_checkpoint, load_checkpoint
from tests.training.batches import all_log_probs, some_rows
from tests.training.test_loop import logged, same, weights

SMALL = {
    "model": "tiny:0.1m",
    "iterations": 3,
    "checkpoint_every": 2,
    "rollout.tasks": 4,
    "rollout.group_size": 4,
    "rollout.num_envs": 16,
    "learner.learning_rate": 3e-3,
    "evaluation.every": 0,
    "patience": 100,
    "env_options.max_optimal": 2,
    "env_options.max_steps": 5,
    "env_options.reward": "sparse10",
    "env_options.effective_only": True,
}
"""Sokoban's shortest levels, which random weights win every other time."""

OWN = {"reward_model.learning_rate": 3e-3}
STALE = {"rollout.max_staleness": 1, "rollout.overlap": False, "seed": 2}


def config(algorithm="istar", **changes):
    given = {key.replace("__", "."): value for key, value in changes.items()}
    settings = SMALL | (OWN if ALGORITHMS[algorithm].reward_model else {}) | given
    return override(TrainConfig(algorithm=algorithm, env_id="agentgym/Sokoban-v0"), settings)


def reward_model(language_model, *, reference=False, dtype=torch.float32, **settings):
    learner = LearnerConfig(token_budget=settings.pop("token_budget", 30))
    given = {"learning_rate": 1e-3} | settings
    model = copied(language_model.model, dtype)
    return RewardModel(model, RewardModelConfig(**given), learner, reference=reference)


LOSSES = {"pairs": partial(PreferenceScorer.loss, None), "outcomes": partial(OutcomeModelScorer.loss, None)}


def some_answers(model):
    """Return eleven steps of six answers to two tasks, compared with a policy that differs a little."""
    rows = some_rows()
    now = all_log_probs(model, rows, token_budget=500)
    compared = now + 0.3 * np.random.default_rng(5).normal(size=len(now))
    answer = np.array([0, 0, 1, 2, 2, 2, 3, 4, 4, 5, 5])
    outcome, task = np.array([1.0, 0, 1, 0, 1, 0]), np.array([0, 0, 0, 1, 1, 1])
    return Answers(rows, compared, answer, outcome[answer], task[answer])


def test_no_step_has_no_tokens():
    none = np.zeros(0)
    answers = Answers([], none, none.astype(int), none, none.astype(int))
    assert len(answers.select(np.zeros(0, dtype=np.int64))) == len(answers.lengths) == 0


# ---- gradients and updates ------------------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["sum", "mean"])
@pytest.mark.parametrize("kind", LOSSES)
def test_two_passes_over_many_packs_are_the_gradient_of_one(language_model, kind, pooling):
    ours = reward_model(language_model, pooling=pooling, beta=0.5)
    answers = some_answers(ours.model)
    assert len(PACKINGS["tree"](answers.rows, token_budget=30)) > 2
    gradient, numbers = ours.token_gradient(answers, ours.log_probs(answers.rows), LOSSES[kind])
    ours.accumulate(answers.rows, gradient)

    model = copied(language_model.model, torch.float32)
    (pack,) = PACKINGS["rows"](answers.rows, token_budget=1000)
    packed, _ = response_log_probs(model, pack)
    log_probs = torch.zeros(len(packed)).index_put((torch.from_numpy(pack.tokens),), packed)
    layout = TokenLayout.packed(torch.from_numpy(answers.lengths))
    steps = implicit_rewards(log_probs, torch.from_numpy(answers.compared).float(), layout, beta=0.5)
    scores = pool(steps, torch.from_numpy(answers.answer), pooling)
    outcome, task = torch.tensor([1.0, 0, 1, 0, 1, 0]), torch.tensor([0, 0, 0, 1, 1, 1])
    pairs = preference_loss(scores, outcome, task)
    loss = pairs.loss if kind == "pairs" else outcome_loss(scores, outcome)
    loss.backward()
    assert numbers["loss"] == pytest.approx(loss.item(), abs=1e-6)
    assert numbers["count"] == (pairs.pairs if kind == "pairs" else 6)
    found = [
        (one.grad, other.grad) for one, other in zip(ours.model.parameters(), model.parameters(), strict=True)
    ]
    assert max(float(theirs.abs().max()) for _, theirs in found) > 1e-2
    assert max(float((mine - theirs).abs().max()) for mine, theirs in found) < 1e-6


PROMPT, RIGHT, WRONG, BOTH = (5, 6), (10, 11), (20, 21), (30,)


def two_paths():
    """Return two successes and two failures of one task: a step that all take, then two on either path."""
    rows, answer, outcome = [], [], []
    for episode, path in enumerate((RIGHT, WRONG, RIGHT, WRONG)):
        rows.append(StepRow(PROMPT, BOTH))
        rows += [StepRow((*PROMPT, 7 + place), (token,)) for place, token in enumerate(path)]
        answer += [episode] * 3
        outcome += [float(path is RIGHT)] * 3
    return rows, np.array(answer), np.array(outcome)


@pytest.mark.parametrize("kind", LOSSES)
def test_successful_steps_rank_above_failing_ones_after_twenty_updates(language_model, kind):
    model = reward_model(language_model, reference=kind == "outcomes", token_budget=100)
    rows, answer, outcome = two_paths()
    old = model.log_probs(rows)
    answers = Answers(rows, old, answer, outcome, np.zeros(12, dtype=np.int64))
    first = model.fit(answers, LOSSES[kind], seed=0)
    for seed in range(1, 20):
        last = model.fit(answers, LOSSES[kind], seed=seed)
    assert last["loss"] < first["loss"] - 0.01
    assert last["accuracy"] == 1.0
    rewards = 0.05 * (model.log_probs(rows) - old)
    own = np.arange(12) % 3 > 0  # not the step that all take
    assert rewards[own & (outcome == 1)].min() > 0.01
    assert rewards[own & (outcome == 0)].max() < -0.01
    if kind == "outcomes":
        assert np.array_equal(model.ref_log_probs(rows), old)


def test_groups_without_a_pair_move_nothing(language_model):
    model = reward_model(language_model)
    answers = some_answers(model.model)
    model.fit(answers, LOSSES["pairs"], seed=0)
    before = [weight.clone() for weight in model.model.parameters()]
    alike = Answers(answers.rows, answers.compared, answers.answer, 0 * answers.outcome, answers.group)
    assert model.fit(alike, LOSSES["pairs"], seed=1) == {"count": 0.0}
    assert all(map(torch.equal, before, model.model.parameters()))


def test_mini_batches_are_whole_groups(language_model):
    model = reward_model(language_model, minibatches=5, epochs=2)
    measured = model.fit(some_answers(model.model), LOSSES["pairs"], seed=0)
    assert measured["count"] == 2 + 2  # as many pairs as there are in both groups together


def test_what_is_not_a_number_takes_no_step(language_model):
    model = reward_model(language_model)
    answers = some_answers(model.model)
    before = [weight.clone() for weight in model.model.parameters()]
    broken = Answers(answers.rows, answers.compared * np.nan, answers.answer, answers.outcome, answers.group)
    with pytest.raises(DivergenceError, match=r"lower reward_model.learning_rate"):
        model.fit(broken, LOSSES["pairs"], seed=0)
    assert all(map(torch.equal, before, model.model.parameters()))


# ---- runs -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("istar", {"algorithm_options.prm_reward": "after"}),
        ("istar", STALE),
        ("prime", {"rollout.attempts": 2}),
    ],
)
def test_a_resumed_run_is_the_same_in_both_models(tmp_path, algorithm, changes):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    settings = override(config(algorithm), changes)
    start(settings, whole, logs=["jsonl"])
    start(override(settings, {"iterations": 2}), parts, logs=["jsonl"])
    begun = {name: weights(parts, name) for name in ("model", "reward_model")}
    resume(parts, logs=["jsonl"], iterations=3)
    for name in begun:
        assert same(weights(whole, name), weights(parts, name))
        assert not same(weights(whole, name), begun[name])
    assert not same(weights(whole), weights(whole, "reward_model"))
    assert logged(whole) == logged(parts)
    if "rollout.max_staleness" in changes:
        assert any(line.staleness > 0 and line.pending > 0 for line in read_metrics(whole))
    lines = [line.diagnostics["reward_model"] for line in read_metrics(whole)]
    assert all(np.isfinite(list(line.values())).all() for line in lines)
    assert sum(line["count"] for line in lines) > 0
    outcome = "won" if algorithm == "prime" else "return"
    assert read_config(whole).reward_model == RewardModelConfig(learning_rate=3e-3, outcome=outcome)
    state = load_checkpoint(last_checkpoint(whole))["scorer"]["reward_model"]
    assert {"model", "optimizer"} <= state.keys()
    saved = read_reward_model(last_checkpoint(whole) / "reward_model")
    assert saved.compared_with == ("reference" if algorithm == "prime" else "policy")
    if algorithm == "prime":
        assert not same(weights(whole, "reward_model/reference"), weights(whole, "reward_model"))
        assert same(weights(whole, "reward_model/reference"), weights(parts, "reward_model/reference"))


def test_without_its_weight_istar_is_its_base(tmp_path):
    trained = []
    for algorithm, changes in (
        ("istar", {"algorithm_options__alpha": 0.0, "algorithm_options__base": "rloo"}),
        ("rloo", {}),
    ):
        objective = {"objective__ratio": "token", "objective__aggregation": "token-mean"}
        given = {**objective, "objective__kl_coefficient": 0.0, "iterations": 2, **changes}
        start(config(algorithm, **given), tmp_path / algorithm, logs=[])
        trained.append(weights(tmp_path / algorithm))
    assert same(*trained)


@pytest.mark.parametrize("source", ["reward", "progress"])
def test_ground_truth_takes_the_place_of_a_model(tmp_path, source):
    settings = config(algorithm_options__process=source, iterations=1, keep_rollouts=1)
    setup = TrainingSetup.open(resolve(settings))
    assert setup.reward_model is None
    trainer = Trainer(setup, tmp_path)
    collected = trainer.collector.collect(0)
    rollouts = trainer._rollouts(collected)
    steps = [step for group in collected.groups for member in group.trajectories for step in member.steps]
    scores = trainer.scorer.score(rollouts)
    assert scores.process_rewards.tolist() == [getattr(step, source) for step in steps]
    members = [member for group in collected.groups for member in group.trajectories]
    assert [sum(step.progress for step in member.steps) for member in members] == pytest.approx(
        [member.progress for member in members]
    )
    setup.close()


def test_the_reward_model_scores_before_or_after_its_update(tmp_path):
    first = {}
    for order in ("before", "after"):
        settings = config(algorithm_options__prm_reward=order)
        setup = TrainingSetup.open(resolve(settings))
        trainer = Trainer(setup, tmp_path)
        rollouts = trainer._rollouts(trainer.collector.collect(0))
        first[order] = trainer.scorer.score(rollouts).process_rewards
        setup.close()
    assert np.abs(first["before"]).max() < 1e-6  # it is the policy still, so A^S is 0
    assert np.abs(first["after"]).max() > 1e-3


def test_a_reward_model_may_be_of_another_size(tmp_path):
    settings = config(reward_model__model="tiny:0.8m", iterations=1, rollout__tasks=1, rollout__num_envs=4)
    start(settings, tmp_path, logs=[])
    policy, reward = (load_model(last_checkpoint(tmp_path) / name) for name in ("model", "reward_model"))
    assert reward.model.num_parameters() > 4 * policy.model.num_parameters()
    assert reward.tokenizer.get_vocab() == policy.tokenizer.get_vocab()


def test_a_reward_model_that_reads_other_tokens_is_refused(language_model):
    policy = TrainingSetup.open(resolve(config()))
    with pytest.raises(UsageError, match="another tokenizer than the policy") as raised:
        check_fits(language_model, policy.language_model, "other")
    assert "\n" not in str(raised.value)
    policy.close()


def test_prompts_outside_the_range_of_accuracy_are_left_out_and_counted(tmp_path):
    settings = config("prime", rollout__accuracy=[0.5, 0.5], iterations=3)
    start(settings, tmp_path, logs=["jsonl"])
    lines = read_metrics(tmp_path)
    left = [line.diagnostics["prompts"]["played"] - line.diagnostics["prompts"]["kept"] for line in lines]
    assert 0 < sum(left) < 12
    assert [line.dropped for line in lines] == left
    assert lines[-1].episodes == 48
    fitted = [
        line.diagnostics["reward_model"]["count"] for line in lines if "reward_model" in line.diagnostics
    ]
    assert sum(fitted) == 48 - 4 * sum(left)


def test_prime_refuses_graded_outcomes(tmp_path):
    graded = config("prime", env_options__reward="native", reward_model__outcome="return")
    with pytest.raises(UsageError, match=r"set reward_model.outcome=won, or env_options.reward=sparse10"):
        start(graded, tmp_path / "graded", logs=[])


def test_prime_learns_from_wins_unless_it_is_set_otherwise(tmp_path):
    settings = config("prime", env_options__reward="native", iterations=1)
    assert start(settings, tmp_path / "won", logs=[]).end == "finished"
    assert read_config(tmp_path / "won").reward_model.outcome == "won"
    assert config("istar").reward_settings.outcome == "return"


def test_iterations_without_a_pair_are_warned_about_once(tmp_path):
    settings = config(reward_model__threshold=100.0, reward_model__patience=2, iterations=3)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start(settings, tmp_path, logs=[])
    (warning,) = (each for each in caught if "reward model" in str(each.message))
    assert "learned nothing for 2 iterations" in str(warning.message)
    assert "\n" not in str(warning.message)


def test_the_tiny_preset_suits_the_reward_model_too():
    made = TINY.config("istar", "agentgym/Sokoban-v0", model="tiny:0.1m")
    assert made.reward_model == RewardModelConfig(learning_rate=3e-3)
    assert TINY.config("grpo", "agentgym/Sokoban-v0", model="tiny:0.1m").reward_model is None
