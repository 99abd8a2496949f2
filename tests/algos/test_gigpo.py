"""GiGPO: literal numbers, and what it must do at the edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos import gigpo, grpo, rloo
from agentgym.algos.advantage import episode_relative, step_returns
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from tests.algos.episodes import batch_of, batches, take

SEVEN = batch_of(
    {"states": "ABC", "rewards": [0, 0, 10]},
    {"states": "AD", "rewards": [0, 0]},
    {"states": "AB", "rewards": [0, 0]},
)
REVISIT = batch_of({"states": "AAB", "rewards": [0, 0, 10], "valid": [True, False, True]}, {"states": "AB"})


@pytest.mark.parametrize(
    ("episode_stat", "std", "expected"),
    [
        (
            "cross_steps",
            True,
            [2.22374508, 1.77615144, 1.06904477, -1.37913373, -0.80178358, -1.37913373, -1.50889025],
        ),
        (
            "trajectory",
            True,
            [2.30940066, 1.86180701, 1.15470034, -1.15470033, -0.57735017, -1.15470033, -1.28445685],
        ),
        (
            "cross_steps",
            False,
            [11.73095238, 10.46428571, 5.71428571, -7.29404762, -4.28571429, -7.29404762, -9.03571429],
        ),
        (
            "trajectory",
            False,
            [12.68333333, 11.41666667, 6.66666667, -6.34166667, -3.33333333, -6.34166667, -8.08333333],
        ),
    ],
)
def test_seven_steps(episode_stat, std, expected):
    result = gigpo.advantage(SEVEN, compat=Compat(episode_stat=episode_stat), std=std)
    np.testing.assert_allclose(result, expected, atol=1e-8)


@pytest.mark.parametrize(
    ("invalid_penalty", "episode_stat", "expected"),
    [
        ("row", "cross_steps", [1.23058515, 1.37474487, 1.44348886, -2.24629791, -1.80252096]),
        ("row", "trajectory", [1.20130965, 1.34964521, 1.41421336, -1.85799031, -1.41421336]),
        ("reward", "trajectory", [1.19128861, 1.37285683, 1.41421336, -1.85703876, -1.41421336]),
    ],
)
def test_a_state_revisited_by_a_rejected_action(invalid_penalty, episode_stat, expected):
    compat = Compat(invalid_penalty=invalid_penalty, episode_stat=episode_stat)
    result = gigpo.advantage(REVISIT, gamma=0.9, compat=compat)
    np.testing.assert_allclose(result, expected, atol=1e-8)


def test_the_public_codes_settings():
    batch = REVISIT.with_columns(texts=tuple("AABAB"))
    expected = [1.23058515, 1.37474487, 1.44348886, -2.24629791, -1.80252096]
    np.testing.assert_allclose(gigpo.advantage(batch, gamma=0.9, **gigpo.VERL_AGENT), expected, atol=1e-8)


@given(
    batches(repeats=False),
    st.sampled_from(["trajectory", "cross_steps"]),
    st.sampled_from(["raw", "zero"]),
    st.booleans(),
)
def test_states_that_never_repeat_leave_grpo(batch, episode_stat, singleton, std):
    options = {"std": std, "compat": Compat(episode_stat=episode_stat, singleton=singleton)}
    assert np.array_equal(gigpo.advantage(batch, **options), grpo.advantage(batch, **options))


@given(batches())
def test_groups_do_not_see_each_other(batch):
    result = gigpo.advantage(batch)
    for group in np.unique(batch.group):
        rows = np.flatnonzero(batch.group == group)
        np.testing.assert_allclose(gigpo.advantage(take(batch, rows)), result[rows], atol=1e-7)


@given(batches(invalid=False), st.sampled_from([-3.0, 0.25, 8.0]))
def test_a_constant_on_all_outcomes_changes_nothing(batch, constant):
    moved = batch.with_columns(outcome=batch.outcome + constant)
    np.testing.assert_allclose(gigpo.advantage(moved), gigpo.advantage(batch), atol=1e-7)


@pytest.mark.parametrize(
    "batch",
    [
        batch_of({"states": "ABA", "rewards": [0, 0, 10]}),
        batch_of({"states": "A"}, {"states": "A"}),
        batch_of({"states": "AB", "rewards": [0, 0.3]}, {"states": "AB", "rewards": [0, 0.3]}),
    ],
    ids=["alone", "all failed", "all equal"],
)
def test_nothing_to_compare_is_exactly_zero(batch):
    episode = gigpo.advantage(batch, weight=0.0)
    assert episode.tolist() == [0.0] * len(batch)


def test_all_equal_steps_are_exactly_zero():
    batch = batch_of(*[{"states": "AB", "rewards": [0.1, 0.3]}] * 3)
    assert gigpo.advantage(batch).tolist() == [0.0] * 6


def test_no_steps():
    empty = StepBatch.of(group=[], trajectory=[], state=[], reward=[])
    assert gigpo.advantage(empty).shape == (0,)


@pytest.mark.parametrize(
    ("switch", "message"),
    [
        ({"match": "hash"}, "unknown match"),
        ({"gamma": 1.5}, "gamma must be a number from 0 to 1"),
    ],
)
def test_unknown_switches_are_refused(switch, message):
    with pytest.raises(ValueError, match=message):
        gigpo.advantage(SEVEN, **switch)


@given(batches(), st.sampled_from([0.5, 0.95, 1.0]))
def test_without_deviations_steps_of_a_state_are_compared_as_rloo_does(batch, gamma):
    """A^S is (N - 1) / N of the leave-one-out advantage among the N steps that were taken in a state."""
    options = {"gamma": gamma, "std": False, "compat": Compat(penalty=0.0)}
    step = gigpo.advantage(batch, **options) - episode_relative(batch, std=False, compat=options["compat"])
    returns = step_returns(batch, gamma=gamma, compat=options["compat"])
    for state in np.unique(np.stack([batch.group, batch.state]), axis=1).T:
        (rows,) = np.nonzero((batch.group == state[0]) & (batch.state == state[1]))
        each = StepBatch.of(group=0 * rows, trajectory=rows, state=rows, reward=returns[rows])
        expected = rloo.advantage(each, compat=options["compat"]) * (len(rows) - 1) / len(rows)
        np.testing.assert_allclose(step[rows], expected, atol=1e-9)
