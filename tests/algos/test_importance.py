"""Importance weights: responses of a policy that has been updated since."""

import math

import pytest
import torch

from agentgym.algos.loss import TokenLayout, importance_weights, policy_loss
from agentgym.algos.objective import Objective
from tests.algos.test_loss import responses


def test_importance_weights_are_of_what_ratios_are_of_and_truncated():
    layout = TokenLayout.packed(torch.tensor([2, 0, 2]), torch.tensor([True, True, True, False]))
    old = torch.tensor([0.5, -0.5, 2.0, torch.inf], dtype=torch.float64)
    rollout = torch.tensor([0.0, -0.25, 0.0, -torch.inf], dtype=torch.float64)
    of = {
        "token": [math.exp(0.5), math.exp(-0.25), 2.0],
        "sequence": [math.exp(0.125), math.exp(0.125), 2.0],
        "step_product": [math.exp(0.25), 1.0, 2.0],
        "step_geomean": [math.exp(0.125), 1.0, 2.0],
    }
    for ratio, expected in of.items():
        steps = ratio.startswith("step")
        objective = Objective(ratio=ratio, aggregation="step-mean" if steps else "token-mean")
        weights = importance_weights(old, rollout, layout, objective, 2.0)
        assert weights.tolist() == pytest.approx(expected), ratio


def test_the_gradient_of_a_weighted_term_is_that_under_the_policy_that_sampled():
    """At the start of an update, and uncapped, the decoupled objective is plain importance sampling."""
    log_probs, _, advantages, layout = responses()
    log_probs = log_probs.detach().requires_grad_()
    old, rollout = log_probs.detach(), log_probs.detach() + 0.3 * log_probs.detach().cos()
    weights = layout.weights("token-mean", torch.float64)
    weights = weights * importance_weights(old, rollout, layout, Objective(), 100.0)
    loss = policy_loss(log_probs, old, advantages, layout, Objective(), weights=weights).loss
    (decoupled,) = torch.autograd.grad(loss, log_probs)
    wide = Objective(clip_low=1.0, clip_high=100.0)
    loss = policy_loss(log_probs, rollout, advantages, layout, wide).loss
    (sampled,) = torch.autograd.grad(loss, log_probs)
    torch.testing.assert_close(decoupled, sampled)
