"""A sampler of one's own: what the engine draws from is what the learner computes."""

import copy
import sys

import numpy as np
import pytest
import torch

from agentgym.algos.objective import Objective
from agentgym.checking import ContractError
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.sampling import check_sampler, find_sampler
from agentgym.inference.engines.types import GenerationRequest, Sampling
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.config import TINY
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.logprobs import response_log_probs
from agentgym.training.learner.packing import StepRow, pack_rows
from agentgym.training.learner.update import Learner
from agentgym.training.run import read_config, resume, start
from examples.own_sampler import min_p
from tests.training.batches import some_batch

ACTIONS = ("look", "go to shelf", "go to drawer", "open fridge", "take cup from shelf")


def two_likeliest(logits):
    return logits.masked_fill(logits < logits.topk(2).values[:, 1:], -torch.inf)


def test_the_example_keeps_the_contract():
    check_sampler(min_p)
    kept = min_p(torch.tensor([[0.0, -2.9, -3.1]]))  # log(0.05) is -3.0
    assert kept.tolist() == [[0.0, pytest.approx(-2.9), -torch.inf]]
    check_sampler(two_likeliest)
    check_sampler(lambda logits: logits)


def in_place(logits):
    return logits.masked_fill_(logits < 0, -torch.inf)


def top_p_with_nan(logits):
    return torch.where(logits < 0, torch.nan, logits)


def without_gradient(logits):
    return min_p(logits).detach()


@pytest.mark.parametrize(
    ("sampler", "reason"),
    [
        (in_place, "changes its input"),
        (lambda logits: logits + torch.rand_like(logits), "the same logits lead to others"),
        (top_p_with_nan, "NaN or infinite"),
        (lambda logits: logits.masked_fill(logits == logits.amax(1, keepdim=True), -torch.inf), "likeliest"),
        (lambda logits: torch.where(logits < logits.max() - 9, -torch.inf, logits), "the rows beside it"),
        (lambda logits: logits + torch.arange(logits.shape[1]), "the order of columns"),
        (lambda logits: logits - logits.clamp(min=-50).mean(1, keepdim=True), "fill a row up"),
        (without_gradient, "no gradient"),
        (
            lambda logits: torch.sqrt(logits - logits.amin(1, keepdim=True)),
            "gradient is not finite|fill a row",
        ),
    ],
)
def test_the_contract_names_what_is_not_so(sampler, reason):
    with pytest.raises(ContractError, match=reason):
        check_sampler(sampler)


def test_another_shape_or_type_is_one_line():
    for wrong in (lambda logits: logits[:, 1:], lambda logits: logits.double()):
        with pytest.raises(UsageError, match=r"rollout\.sampler returned"):
            check_sampler(wrong)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("constrained", [False, True])
def test_the_learner_computes_the_distribution_that_was_drawn_from(
    language_model, speller, constrained, temperature
):
    trie = speller.trie(ACTIONS) if constrained else None
    sampling = Sampling(temperature=temperature, max_tokens=12, stop_ids=language_model.stop_ids)
    asked = [GenerationRequest(tuple(range(5, 9 + seed % 3)), trie, sampling, seed) for seed in range(12)]
    drawn = HfEngine(language_model.model, sampler=two_likeliest).generate(asked)
    rows = [
        StepRow(request.prompt_ids, one.ids, trie and trie.allowed_along(one.ids))
        for request, one in zip(asked, drawn, strict=True)
    ]
    (pack,) = pack_rows(rows, token_budget=1000)
    given = {"temperature": temperature, "chunk_logits": 4000}
    with torch.no_grad():
        found, entropies = response_log_probs(language_model.model, pack, sampler=two_likeliest, **given)
        whole, wider = response_log_probs(language_model.model, pack, **given)
    sampled = np.concatenate([one.logprobs for one in drawn])
    assert np.abs(found.numpy() - sampled[pack.tokens]).max() < 1e-4
    assert (found - whole).max() > 0.1  # of two tokens, not of all
    assert (entropies <= np.log(2) + 1e-6).all()
    assert (entropies < wider - 0.1).any()


def test_a_token_that_has_left_the_distribution_has_a_finite_probability_and_a_gradient(language_model):
    """Drawn under older weights, it counts as if it alone were let in as well."""
    model = language_model.model
    logits = model(input_ids=torch.tensor([[1, 2, 3]])).logits[0, -1]
    order = logits.argsort(descending=True).tolist()
    (pack,) = pack_rows([StepRow((1, 2, 3), (order[4],))], token_budget=9)
    found, _ = response_log_probs(model, pack, sampler=two_likeliest)
    let_in = logits[[order[0], order[1], order[4]]].log_softmax(0)[2]
    assert found.item() == pytest.approx(let_in.item(), abs=1e-5)
    weight = model.get_output_embeddings().weight
    (ours,) = torch.autograd.grad(found.sum(), weight)
    (theirs,) = torch.autograd.grad(let_in, weight)
    assert torch.allclose(ours, theirs, atol=1e-5)
    model.zero_grad()


def test_an_update_with_tokens_outside_is_finite(language_model):
    model = copy.deepcopy(language_model.model)
    rows = [StepRow((1, 2), (k, 3 * k)) for k in range(3, 20)]  # hardly any is one of the two likeliest
    learner = Learner(
        model, Objective(kl_coefficient=0.1), LearnerConfig(learning_rate=1e-3), sampler=two_likeliest
    )
    given = {"old_log_probs": learner.log_probs(rows), "ref_log_probs": learner.ref_log_probs(rows)}
    metrics = learner.update(rows, some_batch(model, rows, **given), seed=0)
    assert np.isfinite([metrics.loss, metrics.kl, metrics.logp_diff, metrics.grad_norm]).all()
    assert metrics.grad_norm > 0
    assert metrics.entropy < np.log(2)


def test_engines_that_cannot_apply_it_are_refused():
    for settings in ({"engine": "vllm"}, {"engine": "vllm", "servers": ("http://a:1",)}, {"pool": "x"}):
        with pytest.raises(UsageError, match=r"rollout\.sampler needs responses drawn by rollout\.engine=hf"):
            RolloutConfig(sampler="examples.own_sampler:min_p", **settings)
    assert find_sampler("") is None
    with pytest.raises(UsageError, match=r"rollout\.sampler=examples\.own_sampler:SHARE is not a function"):
        find_sampler("examples.own_sampler:SHARE")


def test_a_run_draws_by_it_and_a_changed_one_is_not_resumed(tmp_path, monkeypatch):
    module = tmp_path / "sampler_of_test.py"
    kept = "logits.masked_fill(logits < logits.amax(1)[:, None] - 1, -float('inf'))"
    source = f"def two(logits):\n    return {kept}\n"
    module.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    sizes = {"rollout.tasks": 2, "rollout.group_size": 2, "evaluation.every": 0, "iterations": 1}
    changes = {**sizes, "rollout.sampler": "sampler_of_test:two"}
    config = TINY.config("grpo", "agentgym/EZPoints-v0", changes, model="tiny:0.1m")
    start(config, tmp_path / "run", logs=("jsonl",))
    assert len(read_config(tmp_path / "run").rollout.sampler_sha256) == 64
    (metrics,) = read_metrics(tmp_path / "run")
    assert metrics.logp_diff < 1e-4
    module.write_text(source.replace("- 1", "- 2"))
    del sys.modules["sampler_of_test"]
    with pytest.raises(UsageError, match=r"the source of rollout\.sampler=sampler_of_test:two has changed"):
        resume(tmp_path / "run", logs=(), iterations=1)
