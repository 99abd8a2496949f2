"""Compiled layers and head, beside the eager ones."""

import copy

import numpy as np
import pytest
import torch
from torch._dynamo.utils import counters

from agentgym.errors import UsageError
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.update import Learner
from tests.training.batches import OBJECTIVES, all_log_probs, some_batch, some_rows, weights_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of PyTorch about its own code

FORMS = {
    "plain": {},
    "checkpointing": {"gradient_checkpointing": True},
    "adapter": {"lora_rank": 4},
    "sharded": {"offload": True},
    "chunks, entropy bonus, temperature": {
        "chunk_logits": 600,
        "entropy_coefficient": 0.1,
        "temperature": 0.7,
    },
}


def learner_of(model, *, with_critic, **settings):
    own = copy.deepcopy(model)
    critic = Critic(own, "step") if with_critic else None
    config = LearnerConfig(learning_rate=1e-3, minibatches=2, **settings)
    return Learner(own, OBJECTIVES["response"], config, critic=critic)


@pytest.mark.parametrize("form", FORMS)
def test_compiled_layers_compute_what_eager_ones_do(language_model, form):
    with_critic = form == "plain"
    eager, compiled = (
        learner_of(language_model.model, with_critic=with_critic, compile=switch, **FORMS[form])
        for switch in (False, True)
    )
    names = [list(dict(learner.model.named_parameters())) for learner in (eager, compiled)]
    assert names[0] == names[1]
    assert list(eager.model.state_dict()) == list(compiled.model.state_dict())
    graphs = []
    for seed, count in enumerate((3, 12, 30, 7)):
        rows = some_rows(count, seed=seed)
        assert np.abs(eager.log_probs(rows) - compiled.log_probs(rows)).max() < 1e-5
        assert np.abs(eager.ref_log_probs(rows) - compiled.ref_log_probs(rows)).max() < 1e-5
        batch = some_batch(language_model.model, rows)
        ours, theirs = (learner.update(rows, batch, seed=seed) for learner in (compiled, eager))
        for name in ("loss", "entropy", "grad_norm"):
            assert getattr(ours, name) == pytest.approx(getattr(theirs, name), rel=1e-4, abs=1e-6), name
        graphs.append(counters["stats"]["unique_graphs"])
    # AdamW's first steps are of the gradient's sign, whatever its size
    ours, theirs = (torch.cat([each.flatten() for _, each in one.weights()]) for one in (compiled, eager))
    assert (ours - theirs).abs().mean() < 1e-5
    assert 0 < graphs[0]
    assert graphs[-1] - graphs[0] <= 4  # lengths are symbols: further packs make no graphs of their own


def test_an_eager_learner_goes_on_from_a_compiled_ones_state(language_model, tmp_path):
    first, second = (
        learner_of(language_model.model, with_critic=False, compile=switch) for switch in (True, False)
    )
    rows = some_rows(3)
    first.update(rows, some_batch(first.model, rows), seed=0)
    first.save_state(tmp_path)
    second.load_state(tmp_path)
    assert np.abs(first.log_probs(rows) - second.log_probs(rows)).max() < 1e-5
    assert np.array_equal(weights_of(first.model), weights_of(second.model))


def test_a_copy_of_a_compiled_model_has_weights_of_its_own(language_model):
    learner, rows = learner_of(language_model.model, with_critic=False, compile=True), some_rows(3)
    before = learner.log_probs(rows)
    copied = copy.deepcopy(learner.model)
    for weight in copied.parameters():
        weight.data.zero_()
    uniform = -np.log(copied.config.vocab_size)
    assert all_log_probs(copied, rows, token_budget=99) == pytest.approx(uniform, abs=1e-5)
    assert np.array_equal(learner.log_probs(rows), before)


def test_a_missing_compiler_is_one_line(language_model, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UsageError, match=r"learner\.compile needs no-such-compiler"):
        learner_of(language_model.model, with_critic=False, compile=True)
