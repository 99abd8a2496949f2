"""GAGPO: literal numbers by hand, and what must hold on any batch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos import gagpo, gigpo
from agentgym.algos.batch import StepBatch
from benchmarks.speed import loops
from tests.algos.episodes import batch_of, batches

TWO = batch_of({"states": "AB", "rewards": [0, 1]}, {"states": "B", "rewards": [0]})
"""By hand, with gamma .5: G is .5, 1 and 0, so V(A) = V(B) = .5, and delta is -.25, .5 and -.5."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"lam": 0.0}, [-0.25, 0.5, -0.5]),
        ({"lam": 0.5}, [-0.125, 0.5, -0.5]),
        ({"lam": 1.0}, [0.0, 0.5, -0.5]),
    ],
)
def test_by_hand(options, expected):
    result = gagpo.advantage(TWO, gamma=0.5, norm="none", **options)
    np.testing.assert_allclose(result, expected, atol=1e-12)


def test_a_group_is_normalised():
    # the mean of -1/8, 1/2 and -1/2 is -1/24, their unbiased deviation .50518149
    result = gagpo.advantage(TWO, gamma=0.5, lam=0.5)
    np.testing.assert_allclose(result, [-0.16495689, 1.07221981, -0.90726291], atol=1e-7)


def test_groups_share_no_states_and_a_batch_is_normalised_as_one():
    batch = batch_of({"states": "AB", "rewards": [0, 1]}, {"states": "B", "rewards": [4], "group": 1})
    assert not gagpo.advantage(batch, gamma=0.5, norm="batch").any()  # of each V is what it earned
    both = batch_of(
        *(
            {"states": "A", "rewards": [reward], "group": group}
            for reward, group in ((0, 0), (2, 0), (0, 1), (8, 1))
        )
    )
    by_group = gagpo.advantage(both)
    np.testing.assert_allclose(by_group, np.array([-1, 1, -1, 1]) * np.sqrt(0.5), atol=1e-6)
    # the deviation of -1, 1, -4 and 4
    by_batch = gagpo.advantage(both, norm="batch")
    np.testing.assert_allclose(by_batch, np.array([-1, 1, -4, 4]) / np.sqrt(34 / 3), atol=1e-6)


def test_a_rejected_action_is_charged_on_its_step():
    batch = TWO.with_columns(valid=np.array([True, False, True]))
    # G is .45, .9 and 0, so V(A) = V(B) = .45
    result = gagpo.advantage(batch, gamma=0.5, lam=0.0, norm="none")
    np.testing.assert_allclose(result, [-0.225, 0.45, -0.45], atol=1e-12)
    plain = gagpo.advantage(TWO, gamma=0.5)
    np.testing.assert_array_equal(gagpo.advantage(batch, gamma=0.5, penalty=0.0), plain)


def walks(seed):
    """Return a batch of up to three groups that wander about four states."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=rng.integers(1, 17))
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    return StepBatch.of(
        group=trajectory % 3,
        trajectory=trajectory,
        state=rng.integers(0, 4, size=len(trajectory)),
        reward=rng.choice([0.0, -0.1, 10.0], size=len(trajectory)),
        valid=rng.random(len(trajectory)) < 0.8,
    )


def test_a_thousand_batches_are_as_their_loops():
    for seed in range(1000):
        batch = walks(seed)
        for norm in ("group", "none"):
            result = gagpo.advantage(batch, norm=norm)
            np.testing.assert_allclose(result, loops.gagpo(batch, norm=norm), rtol=0, atol=1e-9)


@given(batches(), st.sampled_from([0.5, 0.95]))
def test_with_lam_1_it_is_the_steps_part_of_gigpo(batch, gamma):
    result = gagpo.advantage(batch, gamma=gamma, lam=1.0, norm="none")
    expected = gigpo.advantage(batch, gamma=gamma, std=False, episode_weight=0.0)
    np.testing.assert_allclose(result, expected, atol=1e-12)


@given(batches(repeats=False))
def test_states_seen_once_credit_nothing(batch):
    assert not gagpo.advantage(batch).any()


@given(batches(invalid=False))
def test_a_thousandfold_reward_credits_a_thousandfold(batch):
    larger = batch.with_columns(reward=1000.0 * batch.reward)
    plain = gagpo.advantage(batch, norm="none")
    np.testing.assert_allclose(gagpo.advantage(larger, norm="none"), 1000.0 * plain, atol=1e-8)


def test_no_steps_have_no_advantages():
    empty = StepBatch.of(group=[], trajectory=[], state=[], reward=[])
    assert gagpo.advantage(empty).shape == (0,)


def test_what_is_out_of_range_is_refused():
    with pytest.raises(ValueError, match="lam"):
        gagpo.advantage(TWO, lam=1.5)
    with pytest.raises(ValueError, match="norm"):
        gagpo.advantage(TWO, norm="episode")
    with pytest.raises(ValueError, match="texts is missing"):
        gagpo.advantage(TWO, match="text")
