import copy
import dataclasses

import numpy as np
import pytest
import torch

from agentgym.algos.loss import TokenLayout, kl_loss, policy_loss
from agentgym.algos.objective import Objective
from agentgym.errors import UsageError
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.gradients import policy_gradient
from agentgym.training.learner.packing import StepRow, pack_rows
from agentgym.training.learner.update import DivergenceError, Learner
from tests.training.batches import OBJECTIVES, all_log_probs, some_batch, some_rows, weights_of


def learner_of(model, objective=None, critic=None, **settings):
    given = {"learning_rate": 1e-3, "critic_learning_rate": 1e-3, "max_grad_norm": None} | settings
    return Learner(model, objective or Objective(), LearnerConfig(**given), critic=critic)


@pytest.fixture
def model(language_model):
    return copy.deepcopy(language_model.model)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_update_is_the_same_whatever_the_token_budget(model, name):
    model = model.double()
    rows = some_rows()
    batch = some_batch(model, rows)
    sampled = batch.old_log_probs + 0.3 * np.cos(np.arange(len(batch.old_log_probs)))
    batch = dataclasses.replace(batch, rollout_log_probs=sampled)
    updates = []
    for budget in (1, 30, 1000):
        own = copy.deepcopy(model)
        critic = Critic(own, "step")
        torch.nn.init.constant_(critic.head.weight, 0.1)
        learner = learner_of(
            own,
            OBJECTIVES[name],
            critic,
            token_budget=budget,
            minibatches=2,
            epochs=2,
            entropy_coefficient=0.01,
            max_grad_norm=0.5,
            value_clip=0.5,
            importance_cap=1.2,
        )
        metrics = learner.update(rows, batch, seed=5)
        updates.append((weights_of(own), weights_of(critic), metrics))
    assert (updates[0][0] - weights_of(model)).abs().max() > 1e-4
    for policy, critic, metrics in updates[1:]:
        assert (policy - updates[0][0]).abs().max() < 1e-6
        assert (critic - updates[0][1]).abs().max() < 1e-6
        for field, value in dataclasses.asdict(metrics).items():
            assert value == pytest.approx(getattr(updates[0][2], field), abs=1e-6), field


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_gradient_is_that_of_the_algorithm_s_loss_on_the_whole_batch(model, name):
    model, objective, rows = model.double(), OBJECTIVES[name], some_rows()
    batch = some_batch(model, rows)
    learner = learner_of(copy.deepcopy(model), objective)
    packs = [(pack, True) for pack in pack_rows(rows, token_budget=30)]
    policy_gradient(learner._actor, packs, batch, objective, Ranks())
    layout = TokenLayout.packed(*(torch.from_numpy(x) for x in (batch.lengths, batch.mask, batch.trajectory)))
    parts = []
    for row in rows:
        ids = torch.tensor([[*row.prompt_ids, *row.response_ids]])
        logits = model(input_ids=ids, use_cache=False).logits[0, len(row.prompt_ids) - 1 : -1]
        parts.append(logits.log_softmax(-1).gather(1, torch.tensor(row.response_ids).long()[:, None])[:, 0])
    log_probs = torch.cat(parts)
    old, advantages, reference = (
        torch.from_numpy(x) for x in (batch.old_log_probs, batch.advantages, batch.ref_log_probs)
    )
    loss = policy_loss(log_probs, old, advantages, layout, objective).loss
    (loss + objective.kl_coefficient * kl_loss(log_probs, reference, layout, objective)).backward()
    for own, plain in zip(learner.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(own.grad, plain.grad, rtol=1e-6, atol=1e-9)


def test_good_responses_become_likelier_and_bad_ones_less_likely(model):
    rows = some_rows()[:-1]
    learner = learner_of(model, learning_rate=3e-4)
    before = learner.log_probs(rows)
    advantages = np.where(np.arange(len(rows)) % 2 == 0, 1.0, -1.0)
    batch = some_batch(model, rows, advantages=advantages, old_log_probs=before, mask=None)
    for _ in range(3):
        learner.update(rows, batch, seed=0)
    change = np.add.reduceat(learner.log_probs(rows) - before, np.cumsum(batch.lengths) - batch.lengths)
    assert (change * advantages > 0).all()


@pytest.mark.parametrize("ratio", ["token", "step_product"])
def test_terms_are_weighted_by_what_was_sampled_up_to_the_cap(model, ratio):
    model, rows = model.double(), some_rows()[:-1]
    batch = some_batch(model, rows, mask=None)
    objective = Objective(ratio=ratio, aggregation="token-mean" if ratio == "token" else "step-mean")
    capped = np.arange(len(rows)) % 2 == 0
    logs = np.where(capped, 1.0, -0.25)  # of the weights before they are truncated at 1.5
    shift = np.repeat(logs if ratio == "token" else logs / batch.lengths, batch.lengths)
    weights = np.where(capped, 1.5, np.exp(-0.25))
    updates = []
    for cap, columns in (
        (1.5, {"rollout_log_probs": batch.old_log_probs - shift}),
        (None, {"advantages": batch.advantages * weights}),
    ):
        own = copy.deepcopy(model)
        learner = learner_of(own, objective, importance_cap=cap)
        metrics = learner.update(rows, dataclasses.replace(batch, **columns), seed=0)
        updates.append((weights_of(own), metrics))
    assert (updates[0][0] - updates[1][0]).abs().max() < 1e-9
    assert (updates[0][0] - weights_of(model)).abs().max() > 1e-4
    terms = batch.lengths if ratio == "token" else np.ones(len(rows))
    assert updates[0][1].truncated == pytest.approx(np.average(capped, weights=terms))
    assert updates[0][1].importance == pytest.approx(np.average(weights, weights=terms))
    assert updates[1][1].truncated is updates[1][1].importance is None


@pytest.mark.parametrize("ratio", ["token", "step_geomean"])
def test_without_old_log_probs_terms_are_weighted_by_ratios_to_the_engine_s(model, ratio):
    model, rows = model.double(), some_rows()[:-1]
    batch = some_batch(model, rows, mask=None)
    objective = Objective(ratio=ratio, aggregation="token-mean" if ratio == "token" else "step-mean")
    now = learner_of(copy.deepcopy(model)).log_probs(rows)
    capped = np.arange(len(rows)) % 2 == 0
    logs = np.where(capped, 1.0, -0.5)  # beyond what is clipped, on both sides
    weights = np.where(capped, 2.0, np.exp(-0.5))
    updates = []
    for source, columns in (
        ("bypass", {"old_log_probs": now - np.repeat(logs, batch.lengths)}),
        ("recompute", {"advantages": batch.advantages * weights}),
    ):
        own = copy.deepcopy(model)
        learner = learner_of(own, objective, old_log_probs=source)
        metrics = learner.update(rows, dataclasses.replace(batch, **columns), seed=0)
        updates.append((weights_of(own), metrics))
    assert (updates[0][0] - updates[1][0]).abs().max() < 1e-9
    assert (updates[0][0] - weights_of(model)).abs().max() > 1e-4
    assert updates[0][1].logp_diff == pytest.approx(1.0)
    assert updates[0][1].kl > 0.1
    assert 0.4 < updates[0][1].truncated < 0.6 or ratio == "token"


def test_masked_tokens_have_no_importance(model):
    rows = some_rows()
    batch = some_batch(model, rows)
    updates = []
    for fill in (0.0, -np.inf, np.inf):
        own = copy.deepcopy(model)
        sampled = np.where(batch.mask, batch.old_log_probs - 0.1, fill)
        given = dataclasses.replace(batch, rollout_log_probs=sampled)
        metrics = learner_of(own, importance_cap=2.0).update(rows, given, seed=0)
        assert metrics.importance == pytest.approx(np.exp(0.1))
        assert metrics.truncated == 0.0
        updates.append(weights_of(own))
    assert torch.equal(updates[0], updates[1])
    assert torch.equal(updates[0], updates[2])


def test_the_change_since_sampling_is_that_to_the_engine(model):
    rows = some_rows()
    learner = learner_of(model)
    now = learner.log_probs(rows)
    batch = some_batch(model, rows, old_log_probs=now, rollout_log_probs=now + 0.25, mask=None)
    metrics = learner.update(rows, batch, seed=0)
    assert metrics.logp_diff == pytest.approx(0.25, abs=1e-5)
    assert metrics.kl == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("credit", ["step", "token"])
def test_as_many_steps_as_tokens_train_like_the_steps_that_have_tokens(model, credit):
    rows = [StepRow((3, 4), (5, 6)), StepRow((3, 7), ()), StepRow((8,), (9,))]
    batch = some_batch(model, rows, mask=None, valued="token", credit=credit)
    assert len(batch) == len(batch.advantages) == len(batch.values)
    updates = []
    for kept in (np.array([0, 1, 2]), np.array([0, 2])):
        own = copy.deepcopy(model)
        critic = Critic(own, "token")
        some, part = [rows[row] for row in kept], batch.select(kept)
        learner_of(own, critic=critic, token_budget=100).update(some, part, seed=0)
        updates.append(torch.cat([weights_of(own), weights_of(critic)]))
    assert (updates[0] - updates[1]).abs().max() < 1e-6
    assert (updates[0][: len(weights_of(model))] - weights_of(model)).abs().max() > 1e-4


@pytest.mark.parametrize("packing", ["rows", "tree"])
def test_a_mini_batch_without_tokens_is_passed_over(model, packing, monkeypatch):
    rows = [*some_rows(6)[:6], *[StepRow((), ())] * 6]
    batch = some_batch(model, rows, mask=None, ref_log_probs=None)
    config = LearnerConfig(learning_rate=1e-3, packing=packing)
    learners = [Learner(copy.deepcopy(model), OBJECTIVES["token"], config) for _ in range(2)]
    halves = {0: np.arange(6), 1: np.arange(6, 12)}
    monkeypatch.setattr(learners[0], "_minibatches", lambda count, seed: iter(halves.values()))
    monkeypatch.setattr(learners[1], "_minibatches", lambda count, seed: iter([halves[0]]))
    metrics = [learner.update(rows, batch, seed=0) for learner in learners]
    assert torch.equal(*(weights_of(learner.model) for learner in learners))
    assert metrics[0] == metrics[1]
    monkeypatch.setattr(learners[0], "_minibatches", lambda count, seed: iter([halves[1]]))
    nothing = learners[0].update(rows, batch, seed=0)
    assert (nothing.loss, nothing.grad_norm, nothing.tokens) == (0.0, 0.0, 0)
    assert torch.equal(*(weights_of(learner.model) for learner in learners))


@pytest.mark.parametrize("steps", [0, 2])
def test_a_batch_of_fewer_steps_than_mini_batches_takes_a_step_for_each(model, steps):
    rows = some_rows(6)[:steps]
    batch = some_batch(model, rows, mask=None, ref_log_probs=None)
    trained = []
    for parts in (4, max(steps, 1)):
        learner = learner_of(copy.deepcopy(model), minibatches=parts)
        metrics = learner.update(rows, batch, seed=0)
        assert (metrics.tokens > 0) == (steps > 0)
        trained.append(weights_of(learner.model))
    assert torch.equal(*trained)
    assert torch.equal(trained[0], weights_of(model)) == (steps == 0)


@pytest.mark.parametrize("valued", ["step", "token"])
def test_a_critic_learns_the_returns(model, valued):
    rows = some_rows()[:-1]
    critic = Critic(model, valued)
    learner = learner_of(model, critic=critic, critic_learning_rate=3e-3)
    assert (critic.values(rows, token_budget=50) == 0).all()
    batch = some_batch(model, rows, valued=valued, mask=None)
    first = learner.update(rows, batch, seed=0)
    assert first.value_loss == pytest.approx(np.square(batch.returns).mean() / 2)
    for _ in range(40):
        last = learner.update(rows, batch, seed=0)
    assert last.value_loss < 0.05 * first.value_loss
    assert np.abs(critic.values(rows, token_budget=50) - batch.returns).max() < 0.6


def test_a_step_s_value_is_at_the_end_of_its_prompt_and_a_token_s_before_it(model):
    critic = Critic(model, "token")
    torch.nn.init.constant_(critic.head.weight, 0.1)
    rows = some_rows()
    tokens = critic.values(rows, token_budget=40)
    steps = critic.values(rows, token_budget=1000, unit="step")
    begins = np.cumsum([0, *(len(row.response_ids) for row in rows[:-2])])
    assert np.abs(tokens[begins] - steps[:-1]).max() < 1e-5
    prompts = [StepRow(row.prompt_ids, ()) for row in rows]
    assert np.abs(critic.values(prompts, token_budget=9, unit="step") - steps).max() < 1e-5
    assert critic.values([StepRow((), ())], token_budget=9, unit="step").tolist() == [0.0]


def test_masked_tokens_teach_neither_policy_nor_critic(model):
    rows = some_rows()
    mask = some_batch(model, rows).mask
    updates = []
    for shift in (0.0, 5.0):
        own = copy.deepcopy(model)
        critic = Critic(own, "token")
        batch = some_batch(own, rows, valued="token")
        changed = {
            name: np.where(mask, column, column + shift)
            for name in ("old_log_probs", "values", "returns")
            for column in [getattr(batch, name)]
        }
        learner_of(own, critic=critic).update(rows, dataclasses.replace(batch, **changed), seed=0)
        updates.append((weights_of(own), weights_of(critic)))
    assert torch.equal(updates[0][0], updates[1][0])
    assert torch.equal(updates[0][1], updates[1][1])


def test_metrics_say_what_happened(model):
    rows = some_rows()
    old = all_log_probs(model, rows, token_budget=500)
    batch = some_batch(model, rows, old_log_probs=old + 0.01, ref_log_probs=old, mask=None)
    learner = learner_of(model, OBJECTIVES["response"], Critic(model, "step"), token_budget=30)
    metrics = learner.update(rows, batch, seed=0)
    assert metrics.logp_diff == pytest.approx(0.01, abs=1e-5)
    assert metrics.kl == pytest.approx(np.exp(0.01) - 0.01 - 1, abs=1e-6)
    assert metrics.ref_kl == pytest.approx(0.0, abs=1e-6)
    assert metrics.clip_fraction == 0.0
    assert metrics.tokens == sum(map(len, rows))
    residual = 1 - np.var(batch.returns - batch.values) / np.var(batch.returns)
    assert metrics.explained_variance == pytest.approx(residual)
    moved = learner.update(rows, batch, seed=0)
    assert moved.logp_diff > metrics.logp_diff
    without = learner_of(model, minibatches=2, epochs=2)
    again = without.update(rows, dataclasses.replace(batch, values=None, returns=None), seed=0)
    assert (again.ref_kl, again.value_loss, again.critic_grad_norm, again.explained_variance) == (None,) * 4
    assert again.tokens == 2 * metrics.tokens


@pytest.mark.parametrize("aggregation", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum"])
def test_metrics_are_averages_also_where_the_loss_is_a_sum(model, aggregation):
    rows = some_rows()
    old = all_log_probs(model, rows, token_budget=500)
    batch = some_batch(model, rows, old_log_probs=old - 1.0, advantages=np.ones(len(rows)), mask=None)
    learner = learner_of(model, Objective(aggregation=aggregation), token_budget=30)
    metrics = learner.update(rows, batch, seed=0)
    assert metrics.clip_fraction == pytest.approx(1.0)
    assert metrics.kl == pytest.approx(np.exp(-1.0), rel=1e-4)
    assert 0 < metrics.entropy < np.log(model.config.vocab_size)


def test_the_reference_is_the_policy_as_it_was(model):
    rows = some_rows()
    learner = learner_of(model, OBJECTIVES["response"])
    before = learner.ref_log_probs(rows)
    assert np.array_equal(before, learner.log_probs(rows))
    learner.update(rows, some_batch(model, rows), seed=0)
    assert np.array_equal(learner.ref_log_probs(rows), before)
    assert np.abs(learner.log_probs(rows) - before).max() > 1e-3


def test_gradient_checkpointing_changes_nothing(model):
    rows = some_rows()
    batch = some_batch(model, rows)
    updated = []
    for switch in (False, True):
        own = copy.deepcopy(model)
        critic = Critic(own, "step")
        learner = learner_of(own, critic=critic, gradient_checkpointing=switch)
        passes = [count_passes(body.layers[0].mlp) for body in (own.model, critic.body)]
        learner.update(rows, batch, seed=0)
        updated.append(torch.cat([weights_of(own), weights_of(critic)]))
        assert not own.training
        assert not critic.training
        assert [len(seen) for seen in passes] == [2 if switch else 1] * 2
    assert torch.equal(*updated)


def count_passes(module):
    seen = []
    module.register_forward_pre_hook(lambda *_: seen.append(None))
    return seen


def test_dropout_is_refused_where_checkpointing_would_turn_it_on(model):
    model.config.attention_dropout = 0.1
    with pytest.raises(UsageError, match=r"attention_dropout is 0\.1"):
        learner_of(model, gradient_checkpointing=True)


@pytest.mark.parametrize("column", ["advantages", "old_log_probs", "returns"])
def test_what_is_not_a_number_stops_before_the_step(model, column):
    rows = some_rows()
    batch = some_batch(model, rows, mask=None)
    critic = Critic(model, "step")
    learner = learner_of(model, critic=critic)
    learner.update(rows, batch, seed=0)
    before = copy.deepcopy(learner.state_dict())
    broken = getattr(batch, column).copy()
    broken[1] = np.nan
    with pytest.raises(DivergenceError, match="no step was taken"):
        learner.update(rows, dataclasses.replace(batch, **{column: broken}), seed=0)
    after = learner.state_dict()
    for part in ("model", "critic"):
        assert all(torch.equal(after[part][name], tensor) for name, tensor in before[part].items())
    learner.update(rows, batch, seed=0)
    fresh = learner_of(copy.deepcopy(model), critic=Critic(model, "step"))
    fresh.load_state_dict(before)
    fresh.update(rows, batch, seed=0)
    assert torch.equal(weights_of(fresh.model), weights_of(learner.model))


def test_a_run_continues_from_its_state_to_the_bit(model):
    rows = some_rows()
    batch = some_batch(model, rows)
    learner = learner_of(model, OBJECTIVES["response"], Critic(model, "step"), minibatches=3)
    learner.update(rows, batch, seed=0)
    state = copy.deepcopy(learner.state_dict())
    other = learner_of(copy.deepcopy(model), OBJECTIVES["response"], Critic(model, "step"), minibatches=3)
    other.load_state_dict(state)
    assert learner.update(rows, batch, seed=1) == other.update(rows, batch, seed=1)
    for name in ("model", "critic", "reference"):
        ours, theirs = (each.state_dict()[name] for each in (learner, other))
        assert all(torch.equal(ours[key], theirs[key]) for key in ours)
    with pytest.raises(UsageError, match="continue with the algorithm it was saved with"):
        learner_of(copy.deepcopy(model)).load_state_dict(state)


def test_rate_scales_the_step(model):
    rows = some_rows()
    batch = some_batch(model, rows)
    still = copy.deepcopy(model)
    learner_of(still).update(rows, batch, seed=0, rate=0.0)
    assert torch.equal(weights_of(still), weights_of(model))


def test_missing_columns_and_other_rows_are_refused(model):
    rows = some_rows()
    batch = some_batch(model, rows)
    with pytest.raises(UsageError, match="give the same steps"):
        learner_of(model).update(rows[1:], batch, seed=0)
    with pytest.raises(UsageError, match=r"fill it from Learner\.ref_log_probs"):
        learner_of(model, OBJECTIVES["step"]).update(
            rows, dataclasses.replace(batch, ref_log_probs=None), seed=0
        )
    for valued, name in (("step", "values"), ("token", "returns")):
        critic = Critic(model, valued)
        missing = dataclasses.replace(some_batch(model, rows, valued=valued), **{name: None})
        with pytest.raises(UsageError, match=f"{name} must hold one number per {valued} .* is missing"):
            learner_of(model, critic=critic).update(rows, missing, seed=0)
    with pytest.raises(UsageError, match=r"one number per token .* has one per step"):
        learner_of(model, critic=Critic(model, "token")).update(rows, batch, seed=0)
    with pytest.raises(UsageError, match="rollout_log_probs is missing"):
        learner_of(model, importance_cap=2.0).update(rows, batch, seed=0)
    with pytest.raises(UsageError, match="there is no critic"):
        learner_of(model).values(rows)
    with pytest.raises(UsageError, match="there is no reference"):
        learner_of(model).ref_log_probs(rows)


@pytest.mark.parametrize(
    "setting",
    [
        {"learning_rate": 0.0},
        {"learning_rate": float("nan")},
        {"epochs": 0},
        {"token_budget": -1},
        {"temperature": -1.0},
        {"temperature": 0.0},
        {"max_grad_norm": 0.0},
        {"value_clip": -1.0},
        {"importance_cap": 0.0},
        {"lora_rank": 0},
        {"lora_alpha": 0.0},
        {"dtype": "float16"},
        {"betas": (0.9, 1.0)},
    ],
)
def test_settings_that_cannot_be_trained_with_are_refused(setting):
    with pytest.raises(UsageError, match=next(iter(setting))):
        LearnerConfig(**setting)
