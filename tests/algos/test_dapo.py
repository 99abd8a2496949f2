import numpy as np
import pytest
from hypothesis import given

from agentgym.algos import dapo, grpo
from agentgym.algos.batch import StepBatch
from tests.algos.episodes import batches


@given(batches())
def test_without_a_limit_on_length_it_is_grpo(batch):
    np.testing.assert_array_equal(dapo.advantage(batch), grpo.advantage(batch))


def test_an_episode_pays_the_mean_of_its_responses_each_in_its_steps_reward():
    batch = StepBatch.of(
        group=[0, 0, 0], trajectory=[0, 0, 1], state="ABA", reward=[0.0, 1.0, 1.0], tokens=[448, 512, 384]
    )
    shaped = dapo.shaped(batch, max_tokens=512, buffer=128)
    assert shaped.reward.tolist() == [-0.25, 0.5, 1.0]
    assert shaped.outcome.tolist() == [0.25, 0.25, 1.0]
    result = dapo.advantage(batch, max_tokens=512, buffer=128, eps=0.0)
    np.testing.assert_allclose(result, [-(0.5**0.5), -(0.5**0.5), 0.5**0.5])


def test_a_win_of_long_responses_is_not_ranked_below_a_loss_of_short_ones():
    """WebShop under sparse10: 15 responses at the limit cost 1 in all, so 10 - 1 against 0."""
    batch = StepBatch.of(
        group=[0] * 30,
        trajectory=[0] * 15 + [1] * 15,
        state=[f"{n}" for n in range(30)],
        reward=[0.0] * 14 + [10.0] + [0.0] * 15,
        tokens=[512] * 15 + [100] * 15,
    )
    shaped = dapo.shaped(batch, max_tokens=512, buffer=128)
    np.testing.assert_allclose(shaped.outcome, [9.0] * 15 + [0.0] * 15, atol=1e-12)
    advantages = dapo.advantage(batch, max_tokens=512)
    assert advantages[:15].min() > 0 > advantages[15:].max()


def test_the_limit_needs_the_lengths():
    batch = StepBatch.of(group=[0], trajectory=[0], state="A", reward=[0.0])
    with pytest.raises(ValueError, match="tokens is missing"):
        dapo.advantage(batch, max_tokens=512)


def test_the_stretch_is_a_quarter_of_the_limit_and_nothing_pays_more_than_at_the_limit():
    batch = StepBatch.of(
        group=[0, 0, 0], trajectory=[0, 1, 2], state="AAA", reward=[1.0, 1.0, 1.0], tokens=[448, 512, 4096]
    )
    assert dapo.shaped(batch, max_tokens=512, buffer=128).outcome.tolist() == [0.5, 0.0, 0.0]
    np.testing.assert_array_equal(
        dapo.advantage(batch, max_tokens=512), dapo.advantage(batch, max_tokens=512, buffer=128)
    )


def test_the_stretch_of_a_short_limit_is_one_token():
    batch = StepBatch.of(
        group=[0, 0, 0], trajectory=[0, 1, 2], state="AAA", reward=[1.0, 1.0, 1.0], tokens=[1, 2, 3]
    )
    found = dapo.advantage(batch, max_tokens=3)
    np.testing.assert_array_equal(found, dapo.advantage(batch, max_tokens=3, buffer=1))
    assert found[0] == found[1] > found[2]


def test_its_objective_clips_higher_and_averages_tokens():
    assert (dapo.OBJECTIVE.clip_low, dapo.OBJECTIVE.clip_high) == (0.2, 0.28)
    assert dapo.OBJECTIVE.aggregation == "token-mean"
    assert dapo.OBJECTIVE.kl_coefficient == 0
