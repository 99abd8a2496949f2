import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos import ppo, steppo
from agentgym.algos.advantage import masked_whiten
from agentgym.algos.batch import StepBatch
from tests.algos.episodes import batches


def values_for(batch, seed=0):
    return np.random.default_rng(seed).normal(size=batch.tokens.sum())


def test_published_numbers():
    batch = StepBatch.of(group=[0], trajectory=[0], state="A", reward=[1.0], tokens=[3])
    result = ppo.advantage(batch, values=np.array([0.5, 0.6, 0.7]), whiten=False)
    np.testing.assert_allclose(result, [0.46575, 0.385, 0.3], atol=1e-8)


def test_published_numbers_of_a_truncated_episode():
    batch = StepBatch.of(
        group=[0], trajectory=[0], state="A", reward=[0.0], tokens=[2], truncated=[True], next_values=[0.4]
    )
    options = {"values": np.array([0.5, 0.6]), "gamma": 0.99, "lam": 1.0, "whiten": False}
    result = ppo.advantage(batch, **options)
    np.testing.assert_allclose(result, [-0.10796, -0.204], atol=1e-8)
    without = ppo.advantage(batch, **options, truncation="zero")
    np.testing.assert_allclose(without, [-0.5, -0.6], atol=1e-8)


def test_steps_of_a_trajectory_are_one_sequence():
    batch = StepBatch.of(group=[0, 0], trajectory=[0, 0], state="AB", reward=[0.0, 1.0], tokens=[2, 1])
    whole = ppo.advantage(batch, values=np.array([0.5, 0.6, 0.7]), whiten=False)
    np.testing.assert_allclose(whole, [0.46575, 0.385, 0.3], atol=1e-8)


def test_verl_agent_gives_every_row_the_whole_outcome():
    batch = StepBatch.of(group=[0, 0], trajectory=[0, 0], state="AB", reward=[0.0, 1.0], tokens=[1, 1])
    result = ppo.advantage(batch, values=np.array([0.2, 0.4]), whiten=False, **ppo.VERL_AGENT)
    np.testing.assert_allclose(result, [0.8, 0.6], atol=1e-12)


def test_masked_tokens_do_not_advance_the_recursion():
    batch = StepBatch.of(group=[0], trajectory=[0], state="A", reward=[1.0], tokens=[5])
    mask = np.array([True, False, True, True, False])
    result = ppo.advantage(batch, values=np.array([0.5, 9.0, 0.6, 0.7, 9.0]), mask=mask, whiten=False)
    np.testing.assert_allclose(result, [0.46575, 0.0, 0.385, 0.3, 0.0], atol=1e-8)


def test_rewards_of_tokens_replace_those_of_steps():
    batch = StepBatch.of(group=[0], trajectory=[0], state="A", reward=[100.0], tokens=[2])
    result = ppo.advantage(
        batch, values=np.zeros(2), rewards=np.array([-0.5, 1.0]), lam=1.0, gamma=0.5, whiten=False
    )
    assert result.tolist() == [0.0, 1.0]


@given(batches(), st.sampled_from([0.9, 1.0]), st.sampled_from([0.0, 0.95, 1.0]))
def test_one_token_per_step_is_step_level_gae(batch, gamma, lam):
    batch = batch.with_columns(tokens=np.ones(len(batch), dtype=np.int64))
    tokens = ppo.advantage(batch, values=batch.values, gamma=gamma, lam=lam, whiten=False)
    np.testing.assert_allclose(tokens, steppo.advantage(batch, gamma=gamma, lam=lam), atol=1e-9)


@given(batches())
def test_whitening_is_over_all_tokens(batch):
    raw = ppo.advantage(batch, values=values_for(batch), whiten=False)
    np.testing.assert_allclose(ppo.advantage(batch, values=values_for(batch)), masked_whiten(raw))


def test_one_token_in_all_gives_zero_and_not_nan():
    batch = StepBatch.of(group=[0], trajectory=[0], state="A", reward=[1.0], tokens=[1])
    assert ppo.advantage(batch, values=np.zeros(1)).tolist() == [0.0]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({}, {"values": None}, "values is missing"),
        ({"tokens": None}, {}, "tokens is missing"),
        ({}, {"values": np.zeros(3)}, r"values has shape \(3,\), the responses have 2 tokens"),
        ({}, {"rewards": np.zeros(1)}, r"rewards has shape \(1,\)"),
        ({"truncated": np.array([True])}, {}, "next_values is missing"),
        ({}, {"truncation": "mean"}, "unknown truncation"),
        ({}, {"sequence": "word"}, "unknown sequence"),
    ],
)
def test_what_is_missing_or_wrong_is_named(columns, options, message):
    batch = StepBatch.of(group=[0], trajectory=[0], state="A", reward=[1.0], tokens=[2])
    with pytest.raises(ValueError, match=message):
        ppo.advantage(batch.with_columns(**columns), **({"values": np.zeros(2)} | options))
