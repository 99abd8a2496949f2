import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos import reinforce_pp
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from tests.algos.episodes import batches


def responses(tokens, rewards=None, group=None):
    n = len(tokens)
    rewards = [0.0] * n if rewards is None else rewards
    group = [0] * n if group is None else group
    return StepBatch.of(group=group, trajectory=range(n), state=[0] * n, reward=rewards, tokens=tokens)


@pytest.mark.parametrize(
    ("rewards", "mask", "gamma", "returns", "expected"),
    [
        (
            [0, 0, 1, 0, 0, 0],
            [1, 1, 1, 1, 1, 0],
            1.0,
            [1.0, 1.0, 1.0, 0.0, 0.0, 0.0],
            [0.73029673, 0.73029673, 0.73029673, -1.0954451, -1.0954451, 0.0],
        ),
        (
            [0, 0, 0, 2, 0, 1, 0, 0],
            [1, 0, 1, 1, 1, 1, 0, 0],
            0.5,
            [0.5, 0.0, 1.0, 2.0, 0.5, 1.0, 0.0, 0.0],
            [-0.81649657, 0.0, 0.0, 1.63299314, -0.81649657, 0.0, 0.0, 0.0],
        ),
    ],
    ids=["two responses", "an observation between tokens is skipped without a discount"],
)
def test_published_numbers(rewards, mask, gamma, returns, expected):
    batch = responses([len(rewards) // 2] * 2)
    given_ = {"rewards": np.array(rewards, dtype=float), "mask": np.array(mask), "gamma": gamma}
    np.testing.assert_allclose(reinforce_pp.advantage(batch, **given_, whiten=False), returns, atol=1e-8)
    np.testing.assert_allclose(reinforce_pp.advantage(batch, **given_), expected, atol=1e-8)


@pytest.mark.parametrize(
    ("rewards", "group", "lengths", "singleton", "centred", "expected"),
    [
        (
            [1, 0, 0, 1],
            [0, 0, 1, 1],
            [1, 2, 3, 2],
            "zero",
            [0.5, -0.5, -0.5, 0.5],
            [1.20761471, -0.72456882, -0.72456882, 1.20761471],
        ),
        (
            [10, 0, 5],
            [0, 0, 1],
            [2, 2, 2],
            "raw",
            [5.0, -5.0, 5.0],
            [0.64549722, -1.29099445, 0.64549722],
        ),
        ([10, 0, 5], [0, 0, 1], [2, 2, 2], "zero", [5.0, -5.0, 0.0], [1.11803398, -1.11803398, 0.0]),
    ],
)
def test_published_numbers_of_the_baseline_form(rewards, group, lengths, singleton, centred, expected):
    batch = responses(lengths, rewards, group)
    result = reinforce_pp.baseline_advantage(batch, compat=Compat(singleton=singleton))
    np.testing.assert_allclose(result, np.repeat(expected, lengths), atol=1e-8)
    raw = reinforce_pp.baseline_advantage(batch, compat=Compat(singleton=singleton), whiten=False)
    np.testing.assert_allclose(raw, np.repeat(centred, lengths), atol=1e-8)


def test_steps_of_a_trajectory_are_one_sequence_and_in_verl_agent_each_its_own():
    batch = StepBatch.of(group=[0, 0], trajectory=[0, 0], state="AB", reward=[1.0, 2.0], tokens=[2, 1])
    chained = reinforce_pp.advantage(batch, gamma=0.5, whiten=False)
    assert chained.tolist() == [1.0, 2.0, 2.0]
    alone = reinforce_pp.advantage(batch, gamma=0.5, whiten=False, **reinforce_pp.VERL_AGENT)
    assert alone.tolist() == [1.5, 3.0, 3.0]


@given(batches())
def test_everything_is_finite_and_masked_tokens_get_nothing(batch):
    mask = np.arange(batch.tokens.sum()) % 3 > 0
    for function in (reinforce_pp.advantage, reinforce_pp.baseline_advantage):
        result = function(batch, mask=mask)
        assert np.isfinite(result).all()
        assert (result[~mask] == 0).all()


@pytest.mark.parametrize("function", [reinforce_pp.advantage, reinforce_pp.baseline_advantage])
def test_missing_tokens_are_named(function):
    with pytest.raises(ValueError, match="tokens is missing"):
        function(responses([1]).with_columns(tokens=None))


@given(batches(), st.floats(0.0, 1.0))
def test_a_row_of_steppos_code_has_its_own_step_s_reward_alone(batch, gamma):
    result = reinforce_pp.advantage(batch, gamma=gamma, whiten=False, sequence="step", penalty=0.0)
    expected = [
        reward * gamma ** (count - 1 - place)
        for reward, count in zip(batch.reward, batch.tokens, strict=True)
        for place in range(count)
    ]
    np.testing.assert_allclose(result, expected, atol=1e-12)
