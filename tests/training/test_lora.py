import copy

import numpy as np
import pytest
import torch

from agentgym.errors import UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.standalone import open_engine
from agentgym.inference.models.language_model import copied, load_model
from agentgym.inference.models.lora import FOLDER, Adapter, has_adapter, without_adapter
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.update import Learner
from tests.training.batches import OBJECTIVES, all_log_probs, some_batch, some_rows, weights_of


@pytest.fixture
def model(language_model):
    return copy.deepcopy(language_model.model)


def learner_of(model, objective="token", **settings):
    given = {"learning_rate": 1e-2, "lora_rank": 4, "lora_alpha": 8.0, "token_budget": 30}
    return Learner(model, OBJECTIVES[objective], LearnerConfig(**given | settings))


def test_only_the_adapter_is_trained(model, language_model):
    rows = some_rows()
    batch = some_batch(model, rows)
    learner = learner_of(model)
    assert np.array_equal(learner.log_probs(rows), all_log_probs(language_model.model, rows, token_budget=30))
    learner.update(rows, batch, seed=0)
    moved = learner.log_probs(rows)
    assert np.abs(moved - batch.old_log_probs).max() > 1e-2
    trained = [weight for group in learner._optimizer.param_groups for weight in group["params"]]
    assert sum(weight.numel() for weight in trained) < 0.2 * sum(w.numel() for w in model.parameters())
    with without_adapter(model):
        still = all_log_probs(model, rows, token_budget=30)
    assert np.array_equal(still, all_log_probs(language_model.model, rows, token_budget=30))
    assert np.array_equal(learner.log_probs(rows), moved)


def test_an_adapter_has_its_rank_and_its_scale(model):
    Adapter(3, 6.0, ("q_proj",)).add_to(model)
    layers = [module for module in model.modules() if hasattr(module, "lora_A")]
    assert len(layers) == model.config.num_hidden_layers
    for layer in layers:
        assert layer.lora_A["default"].weight.shape[0] == layer.lora_B["default"].weight.shape[1] == 3
        assert layer.scaling == {"default": 2.0}


def test_without_its_adapter_a_policy_is_its_own_reference(model):
    rows = some_rows()
    learner = learner_of(model, "response")
    before = learner.log_probs(rows)
    assert learner.reference is None
    metrics = learner.update(rows, some_batch(model, rows, ref_log_probs=before), seed=0)
    assert metrics.ref_kl == pytest.approx(0.0, abs=1e-6)
    assert np.array_equal(learner.ref_log_probs(rows), before)
    again = learner.update(rows, some_batch(model, rows, ref_log_probs=before), seed=0)
    assert again.ref_kl > 1e-4


def test_engines_get_the_adapter_beside_its_base_and_directories_the_sum(model, language_model, tmp_path):
    rows = some_rows()
    engine = HfEngine(copied(model, torch.float32, adapter=Adapter(4, 8.0)))
    learner = learner_of(model)
    for seed in range(3):
        learner.update(rows, some_batch(model, rows), seed=seed)
    engine.sync(learner.weights(), 1)
    adapted = learner.log_probs(rows)
    assert np.array_equal(all_log_probs(engine.model, rows, token_budget=30), adapted)
    learner.save_model(tmp_path, language_model.tokenizer)
    saved = load_model(tmp_path)
    assert not has_adapter(saved.model)
    language_model.model.save_pretrained(tmp_path / "plain")
    configs = [(folder / "config.json").read_text() for folder in (tmp_path, tmp_path / "plain")]
    assert configs[0] == configs[1]
    assert np.abs(all_log_probs(saved.model, rows, token_budget=30) - adapted).max() < 1e-5
    beside = copied(language_model.model, torch.float32)
    beside.load_adapter(tmp_path / FOLDER)  # as `transformers` loads it
    assert np.array_equal(all_log_probs(beside, rows, token_budget=30), adapted)
    assert np.abs(adapted - all_log_probs(language_model.model, rows, token_budget=30)).max() > 1e-2


@pytest.fixture
def on_grid(model):
    """A model with weights of bfloat16, as published ones have."""
    for weight in model.parameters():
        weight.data = weight.data.bfloat16().float()
    return model


def after_a_small_step(model):
    """Return a learner in bfloat16 after a step of which weights of bfloat16 keep next to nothing."""
    settings = {"dtype": "bfloat16", "learning_rate": 1e-5, "old_log_probs": "recompute"}
    learner = learner_of(copy.deepcopy(model), **settings)
    learner.update(some_rows(), some_batch(model, some_rows()), seed=0)
    return learner


def test_an_engine_in_bfloat16_moves_as_the_learner_does(on_grid):
    engine = HfEngine(copied(on_grid, torch.bfloat16, adapter=Adapter(4, 8.0)))
    assert {weight.dtype for weight in engine.model.parameters()} == {torch.bfloat16}
    before = all_log_probs(engine.model, some_rows(), token_budget=30)
    learner = after_a_small_step(on_grid)
    engine.sync(learner.weights(), 1)
    after = all_log_probs(engine.model, some_rows(), token_budget=30)
    assert np.array_equal(after, learner.log_probs(some_rows()))
    assert np.abs(after - before).mean() > 1e-5


def test_a_saved_model_has_the_whole_of_a_small_step(on_grid, language_model, tmp_path):
    learner, before = after_a_small_step(on_grid), on_grid.state_dict()
    learner.save_model(tmp_path, language_model.tokenizer)
    saved = load_model(tmp_path).model.state_dict()
    layers = {name: part for name, part in learner.model.named_modules() if hasattr(part, "lora_A")}
    assert layers
    for name, layer in layers.items():
        a, b = (each["default"].weight.full_tensor() for each in (layer.lora_A, layer.lora_B))
        step, change = 2.0 * b @ a, saved[f"{name}.weight"] - before[f"{name}.weight"]
        assert ((change * step).sum() / step.square().sum()).item() == pytest.approx(1.0, abs=0.02)
    for opened in (load_model, lambda path, dtype: open_engine(str(path), "vllm", dtype=dtype)):
        with pytest.raises(UsageError, match=r"a base and an adapter, which .*bfloat16 would round away"):
            opened(tmp_path, dtype=torch.bfloat16)


def test_gradient_checkpointing_changes_nothing(model):
    rows = some_rows()
    batch = some_batch(model, rows)
    updated = []
    for switch in (False, True):
        learner = learner_of(copy.deepcopy(model), gradient_checkpointing=switch)
        learner.update(rows, batch, seed=0)
        updated.append(weights_of(learner.model))
    assert torch.equal(*updated)
    assert not torch.equal(updated[0], weights_of(learner_of(copy.deepcopy(model)).model))


def test_a_run_with_an_adapter_continues_to_the_bit(model):
    rows = some_rows()
    batch = some_batch(model, rows)
    learner, other = learner_of(copy.deepcopy(model)), learner_of(copy.deepcopy(model))
    learner.update(rows, batch, seed=0)
    other.load_state_dict(copy.deepcopy(learner.state_dict()))
    assert learner.update(rows, batch, seed=1) == other.update(rows, batch, seed=1)
    assert torch.equal(weights_of(learner.model), weights_of(other.model))


def test_adapters_are_the_same_draws_and_leave_torchs_generator_alone(model):
    before = torch.get_rng_state()
    ours, theirs = copy.deepcopy(model), copy.deepcopy(model)
    Adapter(2, 1.0).add_to(ours)
    torch.randn(3, generator=torch.Generator())
    Adapter(2, 1.0).add_to(theirs)
    assert torch.equal(weights_of(ours), weights_of(theirs))
    assert torch.equal(torch.get_rng_state(), before)


def test_only_the_layers_named_are_adapted(model):
    Adapter(2, 1.0, ("q_proj", "v_proj")).add_to(model)
    adapted = {name.split(".")[-4] for name, _ in model.named_parameters() if ".lora_" in name}
    assert adapted == {"q_proj", "v_proj"}
    assert all(".lora_" in name for name, weight in model.named_parameters() if weight.requires_grad)


def test_layers_that_do_not_exist_and_second_adapters_are_refused(model):
    with pytest.raises(UsageError, match=r"no linear layers query; choose lora_targets from .*q_proj"):
        Adapter(2, 1.0, ("q_proj", "query")).add_to(model)
    assert not has_adapter(model)
    Adapter(2, 1.0).add_to(model)
    with pytest.raises(UsageError, match="has an adapter already"):
        Adapter(2, 1.0).add_to(model)
