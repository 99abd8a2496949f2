"""An update gives a device all of its passes before it waits for one of their results.

On the meta device nothing can be read, so whatever a pass would wait for raises an error there.
"""

import copy
from itertools import groupby

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from agentgym.algos.objective import Objective
from agentgym.training.learner import attention, gradients, reward_model
from agentgym.training.learner.config import LearnerConfig, RewardModelConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.tree import PACKINGS
from agentgym.training.learner.update import Learner
from tests.training.batches import some_batch, some_rows

BUDGETS = {40: 3, 400: 1}
"""Token budgets, and how many packs they make of the rows."""


@pytest.fixture
def events(monkeypatch):
    """What is done with a device, in order: copies to it, passes, and reads, which it is waited for."""
    seen = []

    def attend(module, query, key, value, mask, **settings):
        return scaled_dot_product_attention(query, key, value, enable_gqa=True).transpose(1, 2), None

    def copied(column, device, real=gradients.on_device):
        seen.append("copy")
        return real(column, device)

    def read(tensor):
        seen.append("read")
        return torch.zeros(tensor.shape, dtype=tensor.dtype)

    monkeypatch.setattr(attention, "flex_attention_forward", attend)  # refuses the meta device
    monkeypatch.setattr(gradients, "on_device", copied)
    monkeypatch.setattr(reward_model, "on_device", copied)
    monkeypatch.setattr(torch.Tensor, "cpu", read)
    tolist = torch.Tensor.tolist
    monkeypatch.setattr(
        torch.Tensor, "tolist", lambda tensor: tolist(read(tensor) if tensor.is_meta else tensor)
    )
    return seen


@pytest.fixture(params=BUDGETS, ids=lambda budget: f"{budget} tokens")
def case(request, language_model, events):
    """Return a learner on the meta device, rows, their batch and packs."""
    settings = LearnerConfig(token_budget=request.param, chunk_logits=2000, importance_cap=2.0)
    model = copy.deepcopy(language_model.model)
    rows = some_rows()
    batch = some_batch(model, rows, valued="token")
    learner = Learner(model, Objective(kl_coefficient=0.1), settings, critic=Critic(model, "token"))
    watch(learner, events)
    packs = PACKINGS["tree"](rows, token_budget=request.param, device="meta")
    assert len(packs) == BUDGETS[request.param]
    events.clear()
    return learner, rows, batch, [(pack, True) for pack in packs]


def watch(learner, events):
    for part in filter(None, (learner._actor, learner._reference, learner.critic)):
        part.to("meta").register_forward_pre_hook(lambda *_: events.append("pass"))
    learner._device = torch.device("meta")


def collapsed(events):
    return [(name, len(list(run))) for name, run in groupby(events)]


def test_the_gradient_of_a_policy_is_read_once(case, events):
    learner, _, batch, packs = case
    gradients.policy_gradient(learner._actor, packs, batch, learner.objective, Ranks())
    copies, *rest = collapsed(events)
    assert copies[0] == "copy"
    assert rest == [("pass", len(packs)), ("read", 1)]


def test_the_gradient_of_a_critic_is_read_once(case, events):
    learner, _, batch, packs = case
    gradients.value_gradient(learner.critic, packs, batch, learner.config, Ranks())
    assert collapsed(events) == [("copy", 3 * len(packs)), ("pass", len(packs)), ("read", 1)]


@pytest.mark.parametrize("of", ["log_probs", "ref_log_probs", "values", "embeddings"])
def test_what_packs_are_asked_for_is_read_after_all_passes(case, events, of):
    learner, rows, _, packs = case
    getattr(learner, of)(rows)
    assert collapsed(events) == [("pass", len(packs)), ("read", len(packs))]


def test_a_reward_model_s_gradient_is_not_read(case, events, language_model):
    learner, rows, batch, packs = case
    model = copy.deepcopy(language_model.model)
    trained = reward_model.RewardModel(model, RewardModelConfig(), learner.config)
    watch(trained, events)
    trained.accumulate(rows, batch.old_log_probs)
    assert collapsed(events) == [("copy", len(packs)), ("pass", len(packs))]
