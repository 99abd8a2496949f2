import numpy as np
import pytest
from hypothesis import given

from agentgym.algos import rloo
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import VERL_AGENT, Compat
from tests.algos.episodes import batches, one_step_episodes


@pytest.mark.parametrize(
    ("rewards", "group", "singleton", "expected"),
    [
        ([1, 0, 0, 1], [0, 0, 0, 0], "zero", [0.66666667, -0.66666667, -0.66666667, 0.66666667]),
        ([10, 3, 5], [0, 1, 1], "raw", [10.0, -2.0, 2.0]),
        ([10, 3, 5], [0, 1, 1], "zero", [0.0, -2.0, 2.0]),
    ],
)
def test_published_numbers(rewards, group, singleton, expected):
    result = rloo.advantage(one_step_episodes(rewards, group), compat=Compat(singleton=singleton))
    np.testing.assert_allclose(result, expected, atol=1e-8)


@given(batches(invalid=False))
def test_the_baseline_is_the_mean_of_the_others(batch):
    result = rloo.advantage(batch)
    for row in np.flatnonzero(batch.step == 0):
        others = (batch.step == 0) & (batch.group == batch.group[row])
        others[row] = False
        expected = batch.outcome[row] - batch.outcome[others].mean() if others.any() else 0.0
        assert result[row] == pytest.approx(expected, abs=1e-9)


def test_verl_agent_takes_steps_for_episodes():
    batch = StepBatch.of(group=[0, 0, 0], trajectory=[0, 0, 1], state=[0, 1, 0], reward=[0.0, 3.0, 0.0])
    assert rloo.advantage(batch).tolist() == [3.0, 3.0, -3.0]
    assert rloo.advantage(batch, compat=VERL_AGENT).tolist() == [1.5, 1.5, -3.0]
