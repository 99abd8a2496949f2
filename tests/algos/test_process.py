"""Losses of process reward models: literal numbers, finite differences, and iStar's Eq. 7."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos.loss import TokenLayout
from agentgym.algos.process import implicit_rewards, outcome_loss, pool, preference_loss

torch.set_num_threads(1)


def tensor(values, **options):
    return torch.tensor(values, dtype=torch.float64, **options)


PRM = tensor([-1.0, -1.0, -0.5, -2.0, -1.0, -1.0])
OLD = tensor([-1.2, -1.1, -0.6, -1.5, -1.0, -1.4])
LENGTHS, TRAJECTORY = torch.tensor([2, 1, 1, 1, 1]), torch.tensor([0, 0, 1, 2, 2])
WON, TASK = tensor([1.0, 0.0, 1.0]), torch.tensor([0, 0, 0])


def steps():
    return implicit_rewards(PRM, OLD, TokenLayout.packed(LENGTHS))


def test_implicit_rewards():
    torch.testing.assert_close(steps(), tensor([0.015, 0.005, -0.025, 0.0, 0.02]))


@pytest.mark.parametrize(
    ("pooling", "scores", "expected"),
    [("sum", [0.02, -0.025, 0.02], 0.67090028), ("mean", [0.01, -0.025, 0.01], 0.6758003)],
)
def test_preferences_of_trajectories(pooling, scores, expected):
    pooled = pool(steps(), TRAJECTORY, pooling)
    torch.testing.assert_close(pooled, tensor(scores))
    both = preference_loss(pooled, WON, TASK)
    assert (both.pairs, both.accuracy.item()) == (2, 1.0)
    assert both.loss.item() == pytest.approx(expected, abs=1e-8)
    one = preference_loss(pooled[:2], WON[:2], TASK[:2])
    assert (one.pairs, one.loss.item()) == (1, pytest.approx(expected, abs=1e-8))


@pytest.mark.parametrize(
    ("sums", "outcomes", "expected"),
    [([0.7, -0.4], [1.0, 0.0], 0.67949874), ([0.2, 0.0, 0.3], [1.0, 1.0, 0.0], 0.69399406)],
)
def test_outcomes_of_answers(sums, outcomes, expected):
    loss = outcome_loss(0.05 * tensor(sums), tensor(outcomes))
    assert loss.item() == pytest.approx(expected, abs=1e-8)


@given(st.lists(st.floats(-3, 3), min_size=2, max_size=8), st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_equation_7(ratios, cut, seed):
    """Trajectory-level DPO is a Bradley-Terry model on summed step rewards, however tokens fall into steps.

    DPO reads the log-ratio of each trajectory's tokens as one response; the model's chance that the
    success is better is exp(sum r+) / (exp(sum r+) + exp(sum r-)).
    """
    cut = min(cut, len(ratios) - 1)
    log_ratio, beta = tensor(ratios), 0.7
    generator = torch.Generator().manual_seed(seed)
    old = torch.randn(len(ratios), generator=generator, dtype=torch.float64)
    ends = torch.randint(0, 2, (len(ratios),), generator=generator).bool()
    ends[cut - 1] = ends[-1] = True  # a step ends where its trajectory does
    begins = torch.cat([torch.tensor([-1]), ends.nonzero().flatten()])
    lengths = begins.diff()
    trajectory = (begins[1:] >= cut).long()
    r = implicit_rewards(old + log_ratio, old, TokenLayout.packed(lengths), beta=beta)
    loss = preference_loss(pool(r, trajectory), tensor([1.0, 0.0]), torch.zeros(2)).loss.item()
    margin = beta * (log_ratio[:cut].sum() - log_ratio[cut:].sum())
    dpo = -torch.nn.functional.logsigmoid(margin).item()
    better, worse = (math.exp(r[trajectory == i].sum().item()) for i in (0, 1))
    assert loss == pytest.approx(dpo, abs=1e-9)
    assert loss == pytest.approx(-math.log(better / (better + worse)), abs=1e-9)


def test_only_successes_and_failures_of_one_task_are_pairs():
    scores = tensor([0.5, -0.5, 2.0, -2.0])
    result = preference_loss(scores, tensor([1, 0, 0, 0]), torch.tensor([7, 7, 8, 7]))
    assert result.pairs == 2
    expected = (math.log1p(math.exp(-1.0)) + math.log1p(math.exp(-2.5))) / 2
    assert result.loss.item() == pytest.approx(expected, abs=1e-12)


def test_success_is_above_the_threshold():
    goals = tensor([7.0, 6.0, 9.0])
    assert preference_loss(tensor([0, 0, 0]), goals, TASK, threshold=6.0).pairs == 2
    assert preference_loss(tensor([0, 0, 0]), goals, TASK).pairs == 0


def test_without_pairs_nothing_is_learnt():
    scores = tensor([0.3, 0.2], requires_grad=True)
    result = preference_loss(scores, tensor([1, 1]), torch.tensor([0, 0]))
    result.loss.backward()
    assert (result.loss.item(), result.pairs, result.accuracy.item()) == (0.0, 0, 0.0)
    assert scores.grad.tolist() == [0.0, 0.0]


@pytest.mark.parametrize("pooling", ["sum", "mean"])
def test_gradients_of_preferences(pooling):
    layout = TokenLayout.packed(LENGTHS)

    def loss(prm):
        return preference_loss(
            pool(implicit_rewards(prm, OLD, layout, beta=2.0), TRAJECTORY, pooling), WON, TASK
        ).loss

    assert torch.autograd.gradcheck(loss, PRM.clone().requires_grad_())


def test_gradients_of_outcomes():
    layout = TokenLayout.padded(torch.tensor([[1, 1, 0], [1, 0, 0]]))
    ref = tensor([[-0.4, -2.0, 0.0], [-1.0, 0.0, 0.0]])

    def loss(prm):
        return outcome_loss(implicit_rewards(prm, ref, layout, beta=2.0), tensor([1.0, 0.0]))

    assert torch.autograd.gradcheck(loss, tensor([[-1.0, -0.2, 5.0], [-0.6, 1.0, 2.0]], requires_grad=True))


def test_masked_tokens_add_exactly_nothing():
    layout = TokenLayout.padded(torch.tensor([[1, 0], [1, 1]]))
    prm = tensor([[-1.0, math.inf], [-0.5, -0.25]], requires_grad=True)
    rewards = implicit_rewards(prm, tensor([[-1.5, math.nan], [-0.5, -0.5]]), layout, beta=1.0)
    preference_loss(rewards, tensor([1.0, 0.0]), torch.zeros(2)).loss.backward()
    assert rewards.tolist() == [0.5, 0.25]
    assert prm.grad[0, 1].item() == 0.0
    assert torch.isfinite(prm.grad).all()
    assert prm.grad[0, 0].item() < 0.0 < prm.grad[1, 0].item()


def test_large_margins_stay_finite():
    scores = tensor([-1e4, 1e4], requires_grad=True)
    loss = preference_loss(scores, tensor([1.0, 0.0]), torch.zeros(2)).loss
    loss.backward()
    assert loss.item() == pytest.approx(2e4)
    torch.testing.assert_close(scores.grad, tensor([-1.0, 1.0]))


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match=r"outcome and group must have shape \(3,\)"):
        preference_loss(tensor([0, 0, 0]), WON[:2], TASK)
    with pytest.raises(ValueError, match="outcome must be 0 or 1 for PRIME"):
        outcome_loss(tensor([0.0]), tensor([0.5]))
    with pytest.raises(ValueError, match=r"outcome must have shape \(1,\) like the scores"):
        outcome_loss(tensor([0.0]), tensor([0.0, 1.0]))
    with pytest.raises(ValueError, match="trajectory must have shape"):
        pool(steps(), TRAJECTORY[:1])
    with pytest.raises(ValueError, match=r"unknown pooling .*choose one of sum, mean"):
        pool(steps(), TRAJECTORY, "max")
