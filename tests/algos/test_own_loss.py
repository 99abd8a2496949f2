"""A loss of one's own, by hand-made numbers, in the trainer's place of the surrogate."""

import sys
from dataclasses import replace
from math import log

import pytest
import torch

from agentgym.algos.loss import TokenLayout, clipped_surrogate, policy_loss
from agentgym.algos.objective import Objective
from agentgym.algos.own_loss import LossCase, check_loss, find_loss, with_source
from agentgym.checking import ContractError
from agentgym.errors import UsageError
from examples.own_loss import cispo

# ratios 1, 2, 0.5 against the old policy
CASE = LossCase(
    log_probs=[-1.0, log(0.4), log(0.1)],
    old_log_probs=[-1.0, log(0.2), log(0.2)],
    advantages=[2.0, 1.0, -1.0],
    terms=[2.0, -1.2 * log(0.4), 0.5 * log(0.1)],
    lengths=[1, 2],
)
STEPS = Objective(ratio="step_product", aggregation="step-mean")


def ppo(given):
    return clipped_surrogate(given.log_ratio, given.advantages, given.objective)


def test_cispo_has_its_numbers():
    check_loss(cispo, [CASE])


def test_a_loss_of_steps():
    case = LossCase(
        log_probs=[-1.0, log(0.4), log(0.1)],
        old_log_probs=[-1.0, log(0.2), log(0.1)],
        advantages=[2.0, 1.0],
        terms=[-2.0, -1.2],  # a ratio of 1, and one of 2 that is clipped
        lengths=[1, 2],
    )
    check_loss(ppo, [case], objective=STEPS)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (lambda given: -given.advantages * given.log_probs, r"case 0: the terms are \[2\.0, 0\.9"),
        (lambda given: cispo(given)[0].detach(), "case 0: the terms have no gradient"),
        (lambda given: cispo(given)[0].mean(), r"terms of shape \(\), not \(3,\): return one per token"),
        (
            lambda given: (
                -given.log_ratio.detach().exp().clamp(max=1.2) * given.advantages * given.log_probs
                + (given.log_ratio * 3).exp() * 1e-9
            ),
            r"ratios of e\^50 and e\^-50: a term or its gradient is not finite",
        ),
        (
            lambda given: cispo(given)[0] + (len(given.advantages) - 3),
            "a step's terms depend on the steps beside it",
        ),
        (lambda given: given.advantages.mul_(1) and cispo(given), None),
    ],
)
def test_what_is_wrong_is_one_line(loss, reason):
    if reason is None:  # a change in place

        def loss(given):
            found = cispo(given)
            given.advantages.zero_()
            return found

        reason = "the loss changes its inputs"
    with pytest.raises((ContractError, UsageError), match=reason):
        check_loss(loss, [CASE])


def test_there_must_be_a_case():
    with pytest.raises(ContractError, match="needs a case"):
        check_loss(cispo, [])


def test_the_surrogate_as_a_loss_of_ones_own_is_the_surrogate():
    draws = torch.Generator().manual_seed(0)
    now, old, advantages = (torch.randn(40, generator=draws) for _ in range(3))
    now.requires_grad_(True)
    layout = TokenLayout.packed(torch.tensor([10, 5, 25]))
    plain = policy_loss(now, old, advantages, layout, Objective(), credit="token")
    own = policy_loss(now, old, advantages, layout, Objective(), credit="token", loss=ppo)
    assert torch.equal(plain.loss, own.loss)
    assert torch.equal(plain.terms, own.terms)
    assert own.clip_fraction == 0  # the function does not say


def test_a_loss_says_what_it_clips_and_reads_the_engines_numbers():
    layout, old = TokenLayout.packed(torch.tensor([3])), torch.tensor(CASE.old_log_probs)
    now = torch.tensor(CASE.log_probs, requires_grad=True)
    advantages = torch.tensor(CASE.advantages)
    found = policy_loss(now, old, advantages, layout, Objective(), credit="token", loss=cispo)
    assert found.clip_fraction == pytest.approx(1 / 3)
    seen = []

    def spy(given):
        seen.append(given)
        return cispo(given)

    policy_loss(
        now, old, advantages, layout, Objective(), credit="token", loss=spy, sampled_log_probs=old - 1
    )
    assert torch.equal(seen[0].sampled_log_probs, old - 1)
    assert torch.equal(seen[0].old_log_probs, old)


# ---- by reference --------------------------------------------------------------------------------


def test_a_reference_is_found_and_its_source_recorded():
    assert find_loss("") is None
    assert with_source(Objective()) == Objective()
    reference = "examples.own_loss:cispo"
    assert find_loss(reference) is cispo
    stamped = with_source(Objective(loss=reference))
    assert len(stamped.loss_sha256) == 64
    assert with_source(stamped) == stamped
    with pytest.raises(UsageError, match=r"has changed since the run began \(SHA-256 000000000000"):
        with_source(replace(stamped, loss_sha256="0" * 64))


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("examples.own_loss", "write module:attribute"),
        ("examples.own_loss:cisp", "did you mean 'cispo'"),
        ("examples.own_loss:LossInput", "is not a function"),
        ("math:exp", "has no source to record"),
        ("no_such_module_here:loss", "there is no module"),
    ],
)
def test_a_wrong_reference_is_one_line(reference, reason):
    with pytest.raises(UsageError, match=reason):
        with_source(Objective(loss=reference))


def test_a_run_records_the_loss_and_a_changed_one_is_not_resumed(tmp_path, monkeypatch):
    from agentgym.training.config import TINY, read_config
    from agentgym.training.run import resume, start

    module = tmp_path / "mine_of_test.py"
    source = "def loss(given):\n    return -given.ratio.detach() * given.advantages * given.log_probs\n"
    module.write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    sizes = {"rollout.tasks": 2, "rollout.group_size": 2, "evaluation.every": 0, "iterations": 1}
    config = TINY.config(
        "grpo",
        "agentgym/EZPoints-v0",
        {**sizes, "objective.loss": "mine_of_test:loss"},
        model="tiny:0.1m",
    )
    start(config, tmp_path / "run", logs=())
    recorded = read_config(tmp_path / "run").objective
    assert recorded.loss == "mine_of_test:loss"
    assert len(recorded.loss_sha256) == 64
    resume(tmp_path / "run", logs=(), iterations=1)
    module.write_text(source.replace("-given", "-2 * given"))
    del sys.modules["mine_of_test"]
    with pytest.raises(UsageError, match="has changed since the run began"):
        resume(tmp_path / "run", logs=(), iterations=1)
