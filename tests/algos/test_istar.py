"""iStar: literal numbers, its options, and what it must do at the edges."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos import dapo, grpo, istar, reinforce_pp, rloo
from agentgym.algos.advantage import episode_relative
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from agentgym.algos.loss import TokenLayout, policy_loss
from agentgym.algos.outcome import outcome_advantage
from agentgym.algos.table import ALGORITHMS
from tests.algos.episodes import batch_of, batches


def scored(trajectories):
    """Build a batch and packed log-probabilities of ``(outcome, tokens under phi, tokens under old)``."""
    steps = [
        (i, o, p, q) for i, (o, prm, old) in enumerate(trajectories) for p, q in zip(prm, old, strict=True)
    ]
    batch = StepBatch.of(
        group=[0] * len(steps),
        trajectory=[i for i, _, _, _ in steps],
        state=range(len(steps)),
        reward=[0.0] * len(steps),
        outcome=[o for _, o, _, _ in steps],
        tokens=[len(p) for _, _, p, _ in steps],
    )
    return batch, np.concatenate([p for *_, p, _ in steps]), np.concatenate([q for *_, q in steps])


WON = (1, [[-1.0, -1.0], [-0.5]], [[-1.2, -1.1], [-0.6]])
LOST = (0, [[-2.0]], [[-1.5]])
WON_TOO = (1, [[-1.0], [-1.0]], [[-1.0], [-1.4]])


@pytest.mark.parametrize(
    ("trajectories", "rewards", "expected"),
    [
        ([WON, LOST], [0.015, 0.005, -0.025], [1.50770809, 1.0273467, -1.82794901]),
        (
            [WON, LOST, WON_TOO],
            [0.015, 0.005, -0.025, 0.0, 0.02],
            [1.26162939, 0.69139596, -2.75135214, 0.40627924, 1.5467461],
        ),
    ],
)
def test_episodes_of_one_task(trajectories, rewards, expected):
    batch, prm, old = scored(trajectories)
    process = istar.step_rewards(prm, old, batch)
    np.testing.assert_allclose(process, rewards, atol=1e-12)
    np.testing.assert_allclose(istar.advantage(batch, process), expected, atol=1e-8)


@given(batches())
def test_rounding_noise_is_no_credit(batch):
    rng = np.random.default_rng(0)
    noise = 1e-8 * rng.normal(size=len(batch))
    assert np.array_equal(istar.advantage(batch, noise), episode_relative(batch))
    assert np.array_equal(istar.advantage(batch, np.full(len(batch), 0.3)), episode_relative(batch))


def test_noise_counts_without_a_floor():
    batch, _, _ = scored([WON, LOST])
    noise = np.array([1e-8, 0.0, -1e-8])
    assert not np.array_equal(istar.advantage(batch, noise, floor=0.0), istar.advantage(batch, noise))


def test_it_plugs_into_other_outcome_advantages():
    batch, prm, old = scored([WON, LOST, WON_TOO])
    process = istar.step_rewards(prm, old, batch)
    alone = istar.advantage(batch, process, episode=np.zeros(len(batch)))
    outcome = rloo.advantage(batch)
    np.testing.assert_allclose(istar.advantage(batch, process, episode=outcome), outcome + alone, atol=1e-12)


@pytest.mark.parametrize(
    "compat",
    [
        Compat(invalid_penalty="row", penalty=0.01),
        Compat(invalid_penalty="step_only"),
        Compat(episode_stat="cross_steps"),
        Compat(singleton="raw", penalty=0.0),
    ],
)
def test_the_outcomes_advantage_is_grpos_under_its_options(compat):
    batch = batch_of(
        {"states": "AB", "rewards": [0, 1], "valid": [False, True]},
        {"states": "A"},
        {"states": "A", "rewards": [3], "group": 1},
    )
    result = istar.advantage(batch, np.zeros(4), compat=compat)
    np.testing.assert_array_equal(result, grpo.advantage(batch, compat=compat))
    assert not np.array_equal(result, istar.advantage(batch, np.zeros(4)))


def test_credit_of_tokens():
    batch, prm, old = scored([WON, LOST])
    rewards = 0.05 * (prm - old)
    a = istar.advantage(batch, rewards, credit="token")
    expected = (rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-6)
    episode = np.repeat(episode_relative(batch), batch.tokens)
    np.testing.assert_allclose(a, episode + expected, atol=1e-9)


def test_credit_of_tokens_where_a_task_has_none():
    batch = batch_of({"states": "A"}, {"states": "A", "group": 1}).with_columns(tokens=np.array([0, 1]))
    assert istar.advantage(batch, np.array([0.5]), credit="token").tolist() == [0.0]


def test_credit_of_merged_rewards():
    batch, prm, old = scored([WON, LOST])
    process = istar.step_rewards(prm, old, batch)
    merged = batch.outcome + 2.0 * process
    expected = (merged - merged.mean()) / (merged.std(ddof=1) + 1e-6)
    a = istar.advantage(batch, process, credit="merged", alpha=2.0)
    np.testing.assert_allclose(a, expected, atol=1e-9)


def test_the_ratio_is_of_the_whole_action():
    log_ratio = torch.tensor([0.1, 0.2, -0.3, 0.05, 0.05, 0.05], dtype=torch.float64)
    layout = TokenLayout.packed(torch.tensor([2, 1, 3]))
    advantages = torch.tensor([1.0, -1.0, 2.0], dtype=torch.float64)
    loss = policy_loss(log_ratio, torch.zeros_like(log_ratio), advantages, layout, istar.OBJECTIVE).loss
    assert loss.item() == pytest.approx(-0.9078895, abs=1e-7)


def test_one_step_and_no_steps():
    assert istar.advantage(batch_of({"states": "A", "rewards": [1]}), np.array([0.5])).tolist() == [0.0]
    empty = StepBatch.of(group=[], trajectory=[], state=[], reward=[], tokens=[])
    assert istar.advantage(empty, istar.step_rewards(np.zeros(0), np.zeros(0), empty)).shape == (0,)


def test_a_step_without_tokens_earns_nothing():
    batch, _, _ = scored([WON, LOST])
    batch = batch.with_columns(tokens=np.array([2, 0, 1]))
    rewards = istar.step_rewards(np.array([-1.0, -1.0, -2.0]), np.array([-1.2, -1.1, -1.5]), batch)
    np.testing.assert_allclose(rewards, [0.015, 0.0, -0.025], atol=1e-12)


def test_what_is_wrong_is_named():
    batch, prm, old = scored([WON, LOST])
    with pytest.raises(ValueError, match=r"prm has shape \(3,\), the responses have 4 tokens"):
        istar.step_rewards(prm[1:], old, batch)
    with pytest.raises(ValueError, match="tokens is missing"):
        istar.step_rewards(prm, old, batch.with_columns(tokens=None))
    with pytest.raises(ValueError, match=r"process must have shape \(3,\)"):
        istar.advantage(batch, prm)
    with pytest.raises(ValueError, match="and be finite"):
        istar.advantage(batch, np.array([0.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match=r"episode must have shape \(3,\), not \(4,\)"):
        istar.advantage(batch, np.zeros(3), episode=prm)
    with pytest.raises(ValueError, match="unknown credit"):
        istar.advantage(batch, prm, credit="tokens")


@given(batches(), st.sampled_from(["grpo", "rloo", "reinforce_pp", "dapo"]))
def test_without_its_weight_it_is_its_base_bit_for_bit(batch, base):
    process = np.sin(np.arange(len(batch)))
    result = istar.advantage(batch, process, base=base, alpha=0.0)
    algorithm = ALGORITHMS[base]
    expected = algorithm.advantage(batch)
    if algorithm.unit == "token":
        of_tokens = istar.advantage(
            batch, np.sin(np.arange(batch.tokens.sum())), base=base, alpha=0.0, credit="token"
        )
        assert np.array_equal(of_tokens, expected)
        first = (np.cumsum(batch.tokens) - batch.tokens)[batch.tokens > 0]
        assert np.array_equal(result[batch.tokens > 0], expected[first])
        spread = np.repeat(result, batch.tokens)
        np.testing.assert_allclose(spread, expected, atol=1e-9)  # alike within a step, but for rounding
        assert not result[batch.tokens == 0].any()
    else:
        assert np.array_equal(result, expected)


def test_its_base_has_its_own_options():
    batch = batch_of({"states": "AB", "rewards": [0, 1]}, {"states": "A"}).with_columns(
        tokens=np.array([600, 500, 4])
    )
    process = np.array([0.3, 0.1, -0.2])
    alone = istar.advantage(batch, process, episode=np.zeros(3))
    for options, expected in (
        ({"base": "dapo", "max_tokens": 600}, dapo.advantage(batch, max_tokens=600)),
        ({"base": "dapo", "max_tokens": None}, grpo.advantage(batch)),
        ({"base": "grpo", "std": True}, grpo.advantage(batch)),
    ):
        np.testing.assert_allclose(istar.advantage(batch, process, **options), expected + alone, atol=1e-12)
    with pytest.raises(ValueError, match=r"unknown base .*choose one of grpo, rloo, reinforce_pp, dapo"):
        istar.advantage(batch, process, base="ppo")


@given(batches(), st.sampled_from([0.0, 0.5]))
def test_an_outcome_of_reinforce_pp_pays_its_price(batch, penalty):
    tokens = outcome_advantage(batch, "reinforce_pp", compat=Compat(penalty=penalty), unit="token")
    np.testing.assert_array_equal(tokens, reinforce_pp.advantage(batch, penalty=penalty))
