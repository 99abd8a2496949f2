"""GiGPO: literal numbers, the loop form of its equations, and what it must do at the edges."""

from collections import defaultdict
from statistics import fmean, stdev

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos import gigpo, grpo
from agentgym.algos.batch import StepBatch
from tests.algos.episodes import batch_of, batches, shuffled, take, trajectories

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
    result = gigpo.advantage(SEVEN, episode_stat=episode_stat, std=std)
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
    result = gigpo.advantage(REVISIT, gamma=0.9, invalid_penalty=invalid_penalty, episode_stat=episode_stat)
    np.testing.assert_allclose(result, expected, atol=1e-8)


def test_the_public_codes_settings():
    batch = REVISIT.with_columns(texts=tuple("AABAB"))
    expected = [1.23058515, 1.37474487, 1.44348886, -2.24629791, -1.80252096]
    np.testing.assert_allclose(gigpo.advantage(batch, gamma=0.9, **gigpo.VERL_AGENT), expected, atol=1e-8)


def normalised(values, value, std):
    if len(values) < 2 or max(values) == min(values):
        return 0.0
    return (value - fmean(values)) / (stdev(values) + 1e-6 if std else 1.0)


def loop_form(batch, gamma, weight, std):
    """Eqs. 3, 7 and 8 one step at a time."""
    returns, outcomes, totals = np.zeros(len(batch)), defaultdict(list), {}
    for rows in trajectories(batch):
        running, total = 0.0, batch.outcome[rows[0]]
        for row in rows[::-1]:
            running = batch.reward[row] - 0.1 * (not batch.valid[row]) + gamma * running
            returns[row] = running
            total -= 0.1 * (not batch.valid[row])
        totals[batch.trajectory[rows[0]]] = total
        outcomes[batch.group[rows[0]]].append(total)
    members = defaultdict(list)
    for row in range(len(batch)):
        members[batch.group[row], batch.state[row]].append(returns[row])
    return [
        normalised(outcomes[batch.group[row]], totals[batch.trajectory[row]], std)
        + weight * normalised(members[batch.group[row], batch.state[row]], returns[row], std)
        for row in range(len(batch))
    ]


@given(batches(), st.booleans(), st.sampled_from([0.0, 0.5, 0.95, 1.0]))
def test_equals_the_loop_form(batch, std, gamma):
    result = gigpo.advantage(batch, gamma=gamma, weight=0.7, std=std)
    # Returns equal but for rounding are a group whose deviation is rounding: eps turns that into 1e-9.
    np.testing.assert_allclose(result, loop_form(batch, gamma, 0.7, std), atol=1e-7)


@given(batches(repeats=False), st.sampled_from(["trajectory", "cross_steps"]), st.booleans())
def test_states_that_never_repeat_leave_grpo(batch, episode_stat, std):
    switches = {"episode_stat": episode_stat, "std": std, "singleton": "raw"}
    assert np.array_equal(gigpo.advantage(batch, **switches), grpo.advantage(batch, **switches))


@given(batches())
def test_permuting_trajectories_permutes_advantages(batch):
    other, rows = shuffled(batch)
    np.testing.assert_allclose(gigpo.advantage(other), gigpo.advantage(batch)[rows], atol=1e-7)


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
        ({"episode_stat": "episode"}, "episode_stat must be one of 'trajectory', 'cross_steps'"),
        ({"singleton": "one"}, "singleton must be one of 'zero', 'raw'"),
        ({"invalid_penalty": "none"}, "invalid_penalty must be one of"),
        ({"match": "hash"}, "match must be one of"),
        ({"gamma": 1.5}, "gamma must be between 0 and 1"),
    ],
)
def test_unknown_switches_are_refused(switch, message):
    with pytest.raises(ValueError, match=message):
        gigpo.advantage(SEVEN, **switch)
