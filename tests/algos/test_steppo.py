"""StepPO: literal numbers, its reduction to token GAE, and the gradient of Eq. 44."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos import ppo, steppo
from agentgym.algos.batch import StepBatch
from agentgym.algos.loss import TokenLayout, policy_loss, unit_log_ratio
from tests.algos.episodes import batches

torch.set_num_threads(1)


def critic_batch(trajectories, **columns):
    rows = [
        (i, r, v)
        for i, (rewards, values) in enumerate(trajectories)
        for r, v in zip(rewards, values, strict=True)
    ]
    number, reward, value = zip(*rows, strict=True)
    states = range(len(rows))
    return StepBatch.of(group=number, trajectory=number, state=states, reward=reward, values=value, **columns)


FIVE = critic_batch([([0, 0, 1], [0.2, 0.4, 0.6]), ([0, 0], [0.2, 0.3])])
THREE = critic_batch([([0.5, 1], [0.1, 0.2]), ([0], [0.3])])


@pytest.mark.parametrize(
    ("batch", "gamma", "lam", "raw", "whitened"),
    [
        (
            FIVE,
            0.99,
            1.0,
            [0.7801, 0.59, 0.4, -0.2, -0.3],
            [1.09456074, 0.69903916, 0.30372563, -0.94463289, -1.15269264],
        ),
        (THREE, 0.95, 0.9, [1.274, 0.8, -0.3], [0.84542767, 0.25841686, -1.10384452]),
    ],
)
def test_steps_of_two_trajectories(batch, gamma, lam, raw, whitened):
    np.testing.assert_allclose(steppo.advantage(batch, gamma=gamma, lam=lam), raw, atol=1e-12)
    whitening = steppo.advantage(batch, gamma=gamma, lam=lam, whiten=True)
    np.testing.assert_allclose(whitening, whitened, atol=2e-8)
    expected = np.add(raw, batch.values)
    np.testing.assert_allclose(steppo.returns(batch, gamma=gamma, lam=lam), expected, atol=1e-12)


def test_a_truncated_episode_is_worth_what_the_critic_says():
    batch = critic_batch([([0, 0], [0.5, 0.6])], truncated=[False, True], next_values=[9.0, 0.4])
    np.testing.assert_allclose(steppo.advantage(batch), [-0.10796, -0.204], atol=1e-12)
    np.testing.assert_allclose(steppo.advantage(batch, truncation="zero"), [-0.5, -0.6], atol=1e-12)


def test_a_rejected_action_costs_its_step():
    batch = critic_batch([([0, 0], [0.0, 0.0])], valid=[True, False])
    np.testing.assert_allclose(steppo.advantage(batch), [-0.099, -0.1], atol=1e-12)
    assert steppo.advantage(batch, penalty=0.0).tolist() == [0.0, 0.0]


@given(batches(), st.sampled_from([0.0, 0.5, 0.99, 1.0]), st.sampled_from([0.0, 0.9, 1.0]), st.booleans())
def test_one_token_a_step_is_token_gae(batch, gamma, lam, whiten):
    batch = batch.with_columns(tokens=np.ones(len(batch), dtype=np.int64))
    options = {"gamma": gamma, "lam": lam, "whiten": whiten}
    token = ppo.advantage(batch, values=batch.values, **options)
    np.testing.assert_allclose(steppo.advantage(batch, **options), token, atol=1e-9)


@given(batches(), st.sampled_from([0.9, 0.99]), st.sampled_from([0.5, 1.0]), st.sampled_from([0.1, 0.3]))
def test_without_step_gae_a_step_has_the_mean_of_its_tokens(batch, gamma, lam, penalty):
    values = np.cos(np.arange(batch.tokens.sum()))
    options = {"gamma": gamma, "lam": lam, "penalty": penalty}
    token = ppo.advantage(batch, values=values, whiten=False, **options)
    expected = [part.mean() for part in np.split(token, np.cumsum(batch.tokens)[:-1])]
    np.testing.assert_allclose(steppo.without_step_gae(batch, values, **options), expected, atol=1e-12)
    single = batch.with_columns(tokens=np.ones(len(batch), dtype=np.int64))
    result = steppo.without_step_gae(single, batch.values)
    np.testing.assert_allclose(result, steppo.advantage(batch), atol=1e-9)


@given(batches(), st.sampled_from([0.5, 0.99]), st.sampled_from([0.0, 0.9, 1.0]))
def test_equals_the_recursion(batch, gamma, lam):
    expected = np.zeros(len(batch))
    ends = set((batch.starts + batch.lengths - 1).tolist())
    for row in reversed(range(len(batch))):
        last = row in ends
        following = batch.next_values[row] * batch.truncated[row] if last else batch.values[row + 1]
        delta = batch.reward[row] - 0.1 * (not batch.valid[row]) + gamma * following - batch.values[row]
        expected[row] = delta + (0.0 if last else gamma * lam * expected[row + 1])
    np.testing.assert_allclose(steppo.advantage(batch, gamma=gamma, lam=lam), expected, atol=1e-9)


def test_every_objective_keeps_to_the_reference():
    objectives = (steppo.OBJECTIVE, steppo.PUBLIC_OBJECTIVE, steppo.TOKEN_RATIO)
    assert {objective.kl_coefficient for objective in objectives} == {0.001}


LOG_RATIOS = torch.tensor([0.1, 0.2, -0.3, 0.05, 0.05, 0.05], dtype=torch.float64)
LENGTHS, TRAJECTORY = torch.tensor([2, 1, 3]), torch.tensor([0, 0, 1])


@pytest.mark.parametrize(
    ("objective", "expected"),
    [
        (steppo.OBJECTIVE, -1.14172966),
        (replace(steppo.OBJECTIVE, clip_low=3e-4, clip_high=4e-4), -1.000575),
        (replace(steppo.PUBLIC_OBJECTIVE, clip_low=0.2, clip_high=0.2), -0.82145881),
        (steppo.PUBLIC_OBJECTIVE, -0.66716667),
    ],
    ids=["Eq. 8", "Eq. 8, narrow", "all steps, wide", "public code"],
)
def test_the_objective(objective, expected):
    layout = TokenLayout.packed(LENGTHS, trajectory=TRAJECTORY)
    advantages = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)
    loss = policy_loss(
        LOG_RATIOS - 1.0, torch.full_like(LOG_RATIOS, -1.0), advantages, layout, objective
    ).loss
    assert loss.item() == pytest.approx(expected, abs=1e-8)


def test_equation_44():
    """Inside the clipping range a step's gradient is ratio x A / L times the sum of score functions."""
    generator = torch.Generator().manual_seed(0)
    theta = torch.randn(5, 7, generator=generator, dtype=torch.float64).requires_grad_()  # contexts, words
    contexts, words = torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([3, 1, 6, 0, 2, 5])
    log_probs = theta.log_softmax(-1)[contexts, words]
    old = log_probs.detach() - LOG_RATIOS / 10  # all ratios stay within 1 +- 0.2
    advantages = torch.tensor([1.5, -0.5, 2.0], dtype=torch.float64)
    layout = TokenLayout.packed(LENGTHS, trajectory=TRAJECTORY)
    result = policy_loss(log_probs, old, advantages, layout, steppo.OBJECTIVE)
    (gradient,) = torch.autograd.grad(result.loss, theta, retain_graph=True)
    expected = torch.zeros_like(theta)
    steps = zip([[0, 1], [2], [3, 4, 5]], advantages, [1 / 4, 1 / 4, 1 / 2], strict=True)
    for tokens, a, weight in steps:  # weight: 2 trajectories, of two steps and of one
        length = len(tokens)
        ratio = torch.exp((log_probs[tokens] - old[tokens]).mean()).detach()
        for token in tokens:
            (score,) = torch.autograd.grad(log_probs[token], theta, retain_graph=True)
            expected += weight * ratio * a / length * score
    torch.testing.assert_close(-gradient, expected, atol=1e-12, rtol=0.0)
    assert gradient.abs().max() > 0.01


def test_what_is_missing_is_named():
    with pytest.raises(ValueError, match="values is missing"):
        steppo.advantage(FIVE.with_columns(values=None))
    cut = FIVE.with_columns(truncated=np.array([False, False, True, False, False]))
    with pytest.raises(ValueError, match="next_values is missing"):
        steppo.advantage(cut)
    with pytest.raises(ValueError, match="unknown truncation"):
        steppo.advantage(FIVE, truncation="none")
    with pytest.raises(ValueError, match="lam must be a number from 0 to 1"):
        steppo.advantage(FIVE, lam=2.0)


def test_no_steps_and_one_step():
    empty = StepBatch.of(group=[], trajectory=[], state=[], reward=[], values=[])
    assert steppo.advantage(empty, whiten=True).shape == (0,)
    assert steppo.advantage(critic_batch([([1.0], [0.25])]), whiten=True).tolist() == [0.0]


def test_the_variance_of_a_steps_log_ratio_by_its_length():
    """Appendix A.3: token log-ratios of variance v make L v of their product, and v / L of their mean."""
    generator, episodes, v = torch.Generator().manual_seed(0), 4000, 0.04
    found = {}
    for length in (1, 4, 16, 64):
        new = v**0.5 * torch.randn(episodes * length, generator=generator, dtype=torch.float64)
        layout = TokenLayout.packed(torch.full((episodes,), length))
        for ratio in ("step_product", "step_geomean"):
            objective = replace(steppo.OBJECTIVE, ratio=ratio)
            found[ratio, length] = float(unit_log_ratio(new, 0 * new, layout, objective).var())
    for length in (1, 4, 16, 64):
        # a sample variance of n normal numbers has a deviation of sqrt(2 / n), 2.2 %
        assert found["step_product", length] == pytest.approx(length * v, rel=0.09)
        assert found["step_geomean", length] == pytest.approx(v / length, rel=0.09)
