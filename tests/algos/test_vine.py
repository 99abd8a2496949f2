"""VinePPO's advantage: literal numbers by hand, and what must hold on any batch."""

import numpy as np
import pytest
from hypothesis import given

from agentgym.algos import vine
from agentgym.algos.advantage import trajectory_sums
from tests.algos.episodes import batch_of, batches

WON = {"states": "AB", "rewards": [0, 10]}
LOST = {"states": "AC", "rewards": [0, 0], "valid": [False, True]}
TWO = batch_of(WON, LOST, values=[4.0, 7.5, 4.0, 1.0], next_values=[7.5, 0.0, 1.0, 0.0])
"""By hand: V is 4 at A, 7.5 at B and 1 at C."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [3.5, 2.5, -3.1, -1.0]),
        ({"penalty": 0.0}, [3.5, 2.5, -3.0, -1.0]),
    ],
)
def test_by_hand(options, expected):
    np.testing.assert_allclose(vine.advantage(TWO, **options), expected, atol=1e-8)


@given(batch=batches())
def test_advantages_of_an_episode_add_up_to_what_it_earns_beyond_its_first_value(batch):
    last = np.append(batch.trajectory[1:] != batch.trajectory[:-1], True)
    after = np.where(last, 0.0, np.append(batch.values[1:], 0.0))
    result = vine.advantage(batch.with_columns(next_values=after), penalty=0.0)
    first = np.repeat(batch.values[batch.starts], batch.lengths)
    returns = trajectory_sums(batch, batch.reward)
    np.testing.assert_allclose(trajectory_sums(batch, result), returns - first, atol=1e-9)


@pytest.mark.parametrize("name", ["values", "next_values"])
def test_values_are_needed(name):
    with pytest.raises(ValueError, match="values and next_values are missing"):
        vine.advantage(TWO.with_columns(**{name: None}))
