"""HGPO: literal numbers, and what it must do at the edges."""

import numpy as np
import pytest
from hypothesis import given

from agentgym.algos import grpo, hgpo
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from tests.algos.episodes import batch_of, batches, take

SEVEN = batch_of({"states": "ABC", "rewards": [0, 0, 10]}, {"states": "AD"}, {"states": "AB"})


@pytest.mark.parametrize(
    ("history", "std", "expected"),
    [
        (2, True, [1.41421252, 0.99999959, 0.0, -0.70710626, 0.0, -0.70710626, -0.99999959]),
        (2, False, [6.01666366, 4.74999905, 0.0, -3.00833183, 0.0, -3.00833183, -4.74999905]),
        (0, False, [6.01666366, 4.74999763, 0.0, -3.00833183, 0.0, -3.00833183, -4.74999763]),
    ],
)
def test_seven_steps(history, std, expected):
    np.testing.assert_allclose(hgpo.advantage(SEVEN, history=history, std=std), expected, atol=1e-8)


@given(batches(states=2))
def test_groups_do_not_see_each_other(batch):
    result = hgpo.advantage(batch)
    for group in np.unique(batch.group):
        rows = np.flatnonzero(batch.group == group)
        np.testing.assert_allclose(hgpo.advantage(take(batch, rows)), result[rows], atol=1e-7)


@given(batches(repeats=False))
def test_states_that_never_repeat_leave_the_episodes_advantage(batch):
    assert hgpo.advantage(batch).tolist() == [0.0] * len(batch)
    # Level 0 has weight 1 of 1 + eps.
    np.testing.assert_allclose(
        hgpo.advantage(batch, base_group=True) * (1 + 1e-6), grpo.advantage(batch), atol=1e-9
    )


def test_a_difference_that_is_rounding_has_no_weight():
    # 0.1 + 0.2 and 0.3 differ in the last bit: a level of its own would take two thirds of the weight.
    batch = batch_of(
        {"states": "XA", "rewards": [0.0, 0.1 + 0.2]},
        {"states": "XA", "rewards": [0.0, 0.3]},
        {"states": "YA", "rewards": [0.0, 0.9]},
    )
    level_one = hgpo.advantage(batch, history=0, std=False)
    np.testing.assert_allclose(hgpo.advantage(batch, history=1, std=False), level_one, atol=1e-9)


def test_a_level_that_is_zero_has_no_weight():
    """Equal outcomes: level 0 is 0 for the rejected action too, though its row pays 0.1."""
    batch = batch_of({"states": "AB", "valid": [False, True]}, {"states": "AC"})
    options = {"compat": Compat(invalid_penalty="row"), "gamma": 0.0}
    alone = hgpo.advantage(batch, **options)
    assert alone[0] < 0 < alone[2]
    np.testing.assert_array_equal(hgpo.advantage(batch, base_group=True, **options), alone)


def test_one_episode_or_equal_ones_are_exactly_zero():
    assert hgpo.advantage(batch_of({"states": "A", "rewards": [10]})).tolist() == [0.0]
    batch = batch_of(*[{"states": "AB", "rewards": [0.1, 0.3]}] * 3)
    assert hgpo.advantage(batch, base_group=True).tolist() == [0.0] * 6
    assert hgpo.advantage(StepBatch.of(group=[], trajectory=[], state=[], reward=[])).shape == (0,)


def test_a_history_longer_than_the_batch():
    assert np.isfinite(hgpo.advantage(SEVEN, history=50)).all()


@pytest.mark.parametrize(
    ("switch", "message"),
    [
        ({"history": -1}, "history must be a number of at least 0"),
        ({"match": "hash"}, "unknown match"),
    ],
)
def test_bad_switches_are_refused(switch, message):
    with pytest.raises(ValueError, match=message):
        hgpo.advantage(SEVEN, **switch)
