import copy
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.utils._python_dispatch import TorchDispatchMode

from agentgym.algos.objective import Objective
from agentgym.errors import UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.models.language_model import copied, load_model, save_model
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.head import ChunkedHead
from agentgym.training.learner.update import Learner
from tests.training.batches import OBJECTIVES, all_log_probs, some_batch, some_rows, weights_of

LOW = {"dtype": "bfloat16", "learning_rate": 1e-3, "max_grad_norm": None}


def test_bfloat16_computes_what_a_model_of_that_type_computes(language_model, tmp_path):
    rows, model = some_rows(), copy.deepcopy(language_model.model)
    exact = all_log_probs(model, rows, token_budget=2048)
    save_model(tmp_path, language_model)
    rounded = all_log_probs(load_model(tmp_path, dtype=torch.bfloat16).model, rows, token_budget=2048)
    learner = Learner(model, OBJECTIVES["response"], LearnerConfig(**LOW))
    ours = learner.log_probs(rows)
    engines = all_log_probs(copied(language_model.model, torch.bfloat16), rows, token_budget=2048)
    assert np.array_equal(engines, rounded)
    assert 1e-3 < np.abs(ours - exact).max() < 0.5
    assert np.array_equal(ours, rounded)
    assert np.array_equal(ours, learner.ref_log_probs(rows))
    learner.update(rows, some_batch(language_model.model, rows), seed=0)
    assert np.abs(learner.log_probs(rows) - ours).max() > 1e-3
    assert np.array_equal(ours, learner.ref_log_probs(rows))


@pytest.mark.parametrize("adapter", [{}, {"lora_rank": 4}])
def test_what_is_saved_are_the_learner_s_numbers_of_which_the_engine_has_the_nearest(
    language_model, tmp_path, adapter
):
    rows, model = some_rows(), copy.deepcopy(language_model.model)
    config = LearnerConfig(**LOW, **adapter)
    engine = HfEngine(copied(model, torch.bfloat16, adapter=config.adapter))
    learner = Learner(model, Objective(), config)
    learner.update(rows, some_batch(language_model.model, rows), seed=0)
    engine.sync(learner.weights(), 1)
    learner.save_model(tmp_path, language_model.tokenizer)
    tensors = load_file(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
    assert tensors.keys() == {name for name, _ in language_model.model.named_parameters()}
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float32"
    theirs = all_log_probs(engine.model, rows, token_budget=99)
    assert np.array_equal(theirs, learner.log_probs(rows))
    saved = load_model(tmp_path).model
    if adapter:
        assert np.abs(all_log_probs(saved, rows, token_budget=99) - theirs).max() < 0.2
    else:
        assert all(torch.equal(saved.get_parameter(name), tensor) for name, tensor in learner.weights())
        rounded = copied(saved, torch.bfloat16)
        assert np.array_equal(all_log_probs(rounded, rows, token_budget=99), theirs)
    assert saved.generation_config.to_dict() == language_model.model.generation_config.to_dict()


@pytest.mark.parametrize("settings", [{"dtype": "bfloat16"}, {"offload": True}])
def test_sharded_weights_take_fused_steps_like_those_one_by_one(language_model, settings):
    rows, found = some_rows(), []
    batch = some_batch(language_model.model, rows)
    for fused in (None, False):
        config = LearnerConfig(old_log_probs="recompute", fused=fused, learning_rate=1e-3, **settings)
        learner = Learner(copy.deepcopy(language_model.model), Objective(), config)
        assert bool(learner._optimizer.defaults["fused"]) is (fused is None)
        learner.update(rows, batch, seed=0)
        found.append(dict(learner.weights()))
    ours, theirs = found
    assert max(float((ours[name] - theirs[name]).abs().max()) for name in theirs) < 1e-6
    plain = Learner(copy.deepcopy(language_model.model), Objective(), LearnerConfig())
    assert not plain._optimizer.defaults["fused"]


def test_a_model_is_not_saved_with_weights_missing(language_model, tmp_path):
    with pytest.raises(UsageError, match=r"weights are missing, for example model\."):
        save_model(tmp_path, language_model, {})


def test_steps_smaller_than_bfloat16_resolves_add_up(language_model):
    rows, model = some_rows(), copy.deepcopy(language_model.model)
    critic = Critic(model, "step")
    batch = some_batch(model, rows)
    before = {name: tensor.clone() for name, tensor in model.named_parameters()}
    rates = {"learning_rate": 1e-6, "critic_learning_rate": 1e-6}
    learner = Learner(model, Objective(), LearnerConfig(**LOW | rates), critic=critic)
    for seed in range(3):
        learner.update(rows, batch, seed=seed)
    after = dict(learner.weights())
    assert {tensor.dtype for tensor in after.values()} == {torch.float32}
    for name, tensor in after.items():
        assert 0 < (tensor - before[name]).abs().max() < 4e-6, name
    moments = learner.state_dict()["optimizer"]["state"]
    assert {entry["exp_avg"].dtype for entry in moments.values()} == {torch.float32}


@pytest.mark.parametrize("checkpointing", [False, True])
def test_gradients_in_bfloat16_are_near_those_in_float32(language_model, checkpointing):
    rows = some_rows()
    batch = some_batch(language_model.model, rows)
    gradients = []
    for dtype in ("float32", "bfloat16"):
        model = copy.deepcopy(language_model.model)
        critic = Critic(model, "step")
        torch.nn.init.constant_(critic.head.weight, 0.1)
        config = LearnerConfig(
            dtype=dtype, max_grad_norm=None, gradient_checkpointing=checkpointing, token_budget=30
        )
        metrics = Learner(model, OBJECTIVES["response"], config, critic=critic).update(rows, batch, seed=0)
        gradients.append(np.array([metrics.grad_norm, metrics.critic_grad_norm, metrics.loss]))
    assert np.abs(gradients[1] / gradients[0] - 1).max() < 0.05


def test_weights_of_bfloat16_are_trained_in_float32_whatever_computes(language_model):
    model = copy.deepcopy(language_model.model).bfloat16()
    learner = Learner(model, Objective(), LearnerConfig())
    assert {weight.dtype for weight in learner.model.parameters()} == {torch.float32}
    assert weights_of(model).isfinite().all()


def test_the_head_s_gradient_adds_up_over_many_chunks():
    generator = torch.Generator().manual_seed(0)
    states = torch.randn(400, 8, generator=generator).bfloat16()
    weight = torch.randn(30, 8, generator=generator).bfloat16()
    places, targets = torch.arange(400), torch.zeros(400, dtype=torch.long)

    def gradient(weight, rows):
        weight = weight.clone().requires_grad_()
        chunks = [(slice(begin, begin + rows), places[begin : begin + rows]) for begin in range(0, 400, rows)]
        log_probs, _ = ChunkedHead.apply(
            states.to(weight.dtype), weight, None, places, targets, None, 1.0, chunks
        )
        return torch.autograd.grad(log_probs.sum(), weight)[0].float()

    exact = gradient(weight.float(), 400)
    error = [float((gradient(weight, rows) - exact).norm() / exact.norm()) for rows in (1, 20, 400)]
    assert max(error) < 4e-3


def test_the_head_s_gradient_is_of_products_in_the_type_that_is_computed_in():
    """A product in float32 takes 15 times as long on an H100."""
    states, weight = torch.randn(40, 8).bfloat16(), torch.randn(30, 8).bfloat16().requires_grad_()
    places, targets = torch.arange(40), torch.zeros(40, dtype=torch.long)
    chunks = [(slice(begin, begin + 10), places[begin : begin + 10]) for begin in range(0, 40, 10)]
    log_probs, _ = ChunkedHead.apply(states, weight, None, places, targets, None, 1.0, chunks)
    with Products() as products:
        log_probs.sum().backward()
    assert products.types == {torch.bfloat16}


class Products(TorchDispatchMode):
    """Notes the types of what is multiplied."""

    def __init__(self):
        super().__init__()
        self.types = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket in (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.addmm_):
            self.types |= {each.dtype for each in args[-2:]}
        return function(*args, **kwargs or {})
