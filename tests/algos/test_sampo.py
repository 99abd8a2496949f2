"""SAMPO: GiGPO's advantage and GSPO's ratio, put together as its authors' public code does."""

import numpy as np
import pytest
import torch

from agentgym.algos import gigpo, gspo, sampo
from agentgym.algos.loss import TokenLayout, policy_loss
from tests.algos.test_g2po import NINE


def test_its_parts_are_those_of_gigpo_and_gspo():
    assert sampo.advantage is gigpo.advantage
    ours, theirs = sampo.OBJECTIVE, gspo.OBJECTIVE
    assert (ours.ratio, ours.aggregation, ours.dual_clip) == (theirs.ratio, theirs.aggregation, None)
    assert (ours.clip_low, ours.clip_high) == pytest.approx((10 * theirs.clip_low, 10 * theirs.clip_high))
    assert (ours.kl, ours.kl_coefficient) == ("k3", 0.01)
    # as the authors' scripts of ALFWorld and WebShop have them
    assert (ours.ratio, ours.clip_low, ours.clip_high) == ("sequence", 0.003, 0.004)


@pytest.mark.parametrize(
    ("std", "expected"),
    [
        (
            True,
            [
                1.00658476,
                -0.1718046,
                1.21753358,
                0.5104269,
                -2.91480977,
                -2.47085903,
                0.01931754,
                1.14258466,
                1.66102596,
            ],
        ),
        (
            False,
            [
                4.82694444,
                1.75277778,
                6.99444444,
                2.24444444,
                -13.74680556,
                -12.50555556,
                1.95277778,
                5.55319444,
                2.92777778,
            ],
        ),
    ],
)
def test_the_authors_code_gives_these_advantages(std, expected):
    batch = NINE.with_columns(texts=tuple(f"page {state}" for state in NINE.state))
    result = sampo.advantage(batch, std=std, **sampo.VERL_AGENT)
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-8)


@pytest.mark.parametrize(
    ("shift", "loss", "gradient"),
    [
        (0.0, -0.5025041713001568, [-0.25083472376671895] * 3 + [0.125] * 2),
        (0.004, -0.5019979973306645, [0.0] * 3 + [0.12550100133466774] * 2),  # the first is clipped above
        (-0.008, -0.4972581539777702, [-0.2488360513259234] * 3 + [0.0] * 2),  # the second below
    ],
)
def test_the_authors_code_gives_this_loss(shift, loss, gradient):
    """Two responses of three tokens and of two, with advantages of 1.5 and -0.5."""
    old = torch.tensor([-1.0, -0.5, -2.0, -0.3, -1.2], dtype=torch.float64)
    new = torch.tensor([-0.997, -0.495, -1.998, -0.31, -1.19], dtype=torch.float64) + shift
    new.requires_grad_()
    layout = TokenLayout.packed(torch.tensor([3, 2]))
    advantages = torch.tensor([1.5, -0.5], dtype=torch.float64)
    result = policy_loss(new, old, advantages, layout, sampo.OBJECTIVE, credit="step").loss
    assert float(result.detach()) == pytest.approx(loss, abs=1e-12)
    np.testing.assert_allclose(torch.autograd.grad(result, new)[0], gradient, atol=1e-12)
