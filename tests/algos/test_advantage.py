import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos.advantage import (
    after_last,
    discounted,
    episode_relative,
    gae,
    joint,
    masked_whiten,
    relative,
    segment_ends,
    step_returns,
    trajectory_sums,
)
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import VERL_AGENT, Compat
from agentgym.core.options import check_choice
from tests.algos.episodes import batch_of, batches, shuffled

REALS = st.floats(-100, 100, allow_subnormal=False)


def columns(values=REALS):
    pairs = st.lists(st.tuples(values, st.integers(-2, 2)), min_size=1, max_size=30)
    return pairs.map(lambda rows: (np.array([x for x, _ in rows]), np.array([g for _, g in rows])))


# ---- group statistics ----------------------------------------------------------------------


def test_relative_divides_by_the_unbiased_deviation():
    result = relative(np.array([1.0, 2.0, 6.0]), np.zeros(3, dtype=int), eps=0.0)
    np.testing.assert_allclose(result, np.array([-2.0, -1.0, 3.0]) / np.sqrt(7.0))


def test_relative_with_the_deviation_of_the_population():
    result = relative(np.array([1.0, 3.0]), np.zeros(2, dtype=int), ddof=0, eps=0.5)
    np.testing.assert_allclose(result, [-1 / 1.5, 1 / 1.5])


def test_relative_counts_only_some_rows():
    counted = np.array([True, False, True])
    result = relative(np.array([0.0, 100.0, 2.0]), np.zeros(3, dtype=int), std=False, counted=counted)
    assert result.tolist() == [-1.0, 99.0, 1.0]


def test_relative_to_another_population():
    group = np.zeros(2, dtype=int)
    result = relative(np.array([4.0, 6.0]), group, std=False, population=np.array([0.0, 2.0]))
    assert result.tolist() == [3.0, 5.0]


@pytest.mark.parametrize("rewards", [[0.1] * 10, [0.1, 0.2, -0.3], [1e6 / 3] * 6])
def test_sums_that_differ_by_rounding_do_not_vary(rewards):
    # np.cumsum adds one by one on every Python; from 3.12 on, sum() makes up for the rounding
    population = np.array([np.cumsum(rewards)[-1], math.fsum(rewards)])
    assert population[0] != population[1]
    penalised = population - [0.1, 0.0]
    result = relative(penalised, np.zeros(2, dtype=np.int64), population=population)
    assert result.tolist() == [0.0, 0.0]


def test_a_population_that_does_not_vary_gives_zero_not_a_division_by_eps():
    result = relative(np.array([0.9, 1.0]), np.zeros(2, dtype=int), population=np.ones(2))
    assert result.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("std", "expected"), [(True, 9.99999), (False, 10.0)])
def test_group_of_one(std, expected):
    x, group = np.array([10.0, 3.0, 5.0]), np.array([0, 1, 1])
    assert relative(x, group, std=std)[0] == 0.0
    assert relative(x, group, std=std, singleton="raw")[0] == pytest.approx(expected, abs=1e-8)


@given(columns())
def test_relative_is_finite_and_averages_to_zero(column):
    x, group = column
    for std in (True, False):
        result = relative(x, group, std=std)
        assert np.isfinite(result).all()
        for name in np.unique(group):
            assert abs(result[group == name].mean()) < 1e-9


@given(columns(), st.floats(-1e6, 1e6))
def test_equal_values_give_exactly_zero(column, value):
    _, group = column
    for std in (True, False):
        assert (relative(np.full(len(group), value), group, std=std) == 0).all()


@given(columns(st.integers(-50, 50).map(float)), st.integers(-50, 50))
def test_adding_a_constant_to_a_group_changes_nothing(column, constant):
    x, group = column
    np.testing.assert_array_equal(relative(x + constant * group, group), relative(x, group))


@given(columns(), st.integers(0, 2**32 - 1))
def test_relative_does_not_depend_on_the_order_of_rows(column, seed):
    x, group = column
    order = np.random.default_rng(seed).permutation(len(x))
    np.testing.assert_allclose(relative(x[order], group[order]), relative(x, group)[order], atol=1e-6)


def test_relative_of_nothing():
    assert relative(np.zeros(0), np.zeros(0, dtype=int)).shape == (0,)


def test_relative_refuses_another_length():
    with pytest.raises(ValueError, match="group has 1 rows, the values 2"):
        relative(np.zeros(2), np.zeros(1, dtype=int))


def test_unknown_switch_is_named_with_its_values():
    with pytest.raises(ValueError, match="unknown singleton 'nan'; choose one of zero, raw"):
        relative(np.zeros(1), np.zeros(1, dtype=int), singleton="nan")
    with pytest.raises(ValueError, match="unknown mode 3; choose one of 1, 2"):
        check_choice("mode", 3, (1, 2))


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 10**15), st.integers(0, 2)), min_size=1))
def test_joint_numbers_distinct_rows(rows):
    number = joint(*np.array(rows, dtype=np.int64).T)
    assert sorted(set(number.tolist())) == list(range(len(set(rows))))
    assert len(set(zip(number.tolist(), rows, strict=True))) == len(set(rows))


# ---- sums over time ------------------------------------------------------------------------


def segments(seed, lengths):
    return np.random.default_rng(seed).normal(size=sum(lengths)), np.repeat(np.arange(len(lengths)), lengths)


@given(
    st.integers(0, 2**32 - 1),
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.sampled_from([0.0, 0.3, 0.95, 1.0]),
)
def test_discounted_is_the_recursion(seed, lengths, gamma):
    x, segment = segments(seed, lengths)
    expected, running = np.zeros(len(x)), 0.0
    ends = segment_ends(segment)
    for t in reversed(range(len(x))):
        running = x[t] + gamma * (0.0 if ends[t] else running)
        expected[t] = running
    np.testing.assert_allclose(discounted(x, segment, gamma), expected, atol=1e-12)


def test_discounted_leaves_its_input_alone():
    x = np.ones(3)
    discounted(x, np.zeros(3, dtype=int), 1.0)
    assert x.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("name", "gamma", "lam"), [("gamma", 1.5, 1.0), ("lam", 1.0, -0.1)])
def test_discounts_outside_the_unit_interval_are_refused(name, gamma, lam):
    with pytest.raises(ValueError, match=f"{name} must be a number from 0 to 1"):
        gae(np.zeros(1), np.zeros(1), np.zeros(1, dtype=int), gamma=gamma, lam=lam)


def test_gae_of_a_terminated_episode():
    result = gae(
        np.array([0.0, 0.0, 1.0]), np.array([0.5, 0.6, 0.7]), np.zeros(3, dtype=int), gamma=1.0, lam=0.95
    )
    np.testing.assert_allclose(result, [0.46575, 0.385, 0.3], atol=1e-8)


def test_gae_of_a_truncated_episode_bootstraps():
    result = gae(
        np.zeros(2),
        np.array([0.5, 0.6]),
        np.zeros(2, dtype=int),
        gamma=0.99,
        lam=1.0,
        bootstrap=np.array([7.0, 0.4]),
    )
    np.testing.assert_allclose(result, [-0.10796, -0.204], atol=1e-8)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_gae_without_mixing_is_the_td_error_and_with_all_of_it_the_return(seed, lengths):
    x, segment = segments(seed, lengths)
    values = x[::-1].copy()
    following = np.where(segment_ends(segment), 0.0, np.append(values[1:], 0.0))
    np.testing.assert_allclose(
        gae(x, values, segment, gamma=0.9, lam=0.0), x + 0.9 * following - values, atol=1e-12
    )
    np.testing.assert_allclose(
        gae(x, values, segment, gamma=0.9, lam=1.0), discounted(x, segment, 0.9) - values, atol=1e-9
    )


# ---- whitening -----------------------------------------------------------------------------


@given(st.lists(st.tuples(REALS, st.booleans()), max_size=20))
def test_whitening_gives_mean_zero_and_unit_variance(rows):
    x = np.array([value for value, _ in rows])
    mask = np.array([kept for _, kept in rows], dtype=bool)
    result = masked_whiten(x, mask)
    kept = result[mask]
    assert (result[~mask] == 0).all()
    assert np.isfinite(result).all()
    if len(kept) > 1 and np.ptp(x[mask]) > 0.1:
        assert abs(kept.mean()) < 1e-9
        assert kept.var(ddof=1) == pytest.approx(1.0, abs=1e-3)
    else:
        assert len(kept) > 1 or (kept == 0).all()


def test_whitening_ignores_masked_entries_however_large():
    x = np.array([[1.0, 3.0], [np.inf, 2.0]])
    result = masked_whiten(x, np.array([[1, 1], [0, 1]]))
    np.testing.assert_allclose(result, [[-1.0, 1.0], [0.0, 0.0]], atol=1e-7)


def test_whitening_keeps_equal_values_and_single_ones_at_zero():
    assert masked_whiten(np.full(3, 0.1)).tolist() == [0.0, 0.0, 0.0]
    assert masked_whiten(np.array([5.0])).tolist() == [0.0]
    assert masked_whiten(np.array([5.0, 7.0]), np.array([0, 1])).tolist() == [0.0, 0.0]


# ---- rejected actions ----------------------------------------------------------------------

REVISITED = batch_of(
    {"states": "AAB", "rewards": [0, 0, 10], "valid": [True, False, True]},
    {"states": "AB", "rewards": [0, 0]},
)


@pytest.mark.parametrize(
    ("invalid_penalty", "expected"),
    [
        ("reward", [8.01, 8.9, 10.0, 0.0, 0.0]),
        ("row", [8.1, 8.9, 10.0, 0.0, 0.0]),
        ("step_only", [8.01, 8.9, 10.0, 0.0, 0.0]),
    ],
)
def test_step_returns_pay_for_rejected_actions(invalid_penalty, expected):
    result = step_returns(REVISITED, gamma=0.9, compat=Compat(invalid_penalty=invalid_penalty))
    np.testing.assert_allclose(result, expected, atol=1e-12)


ROOT = 0.5**0.5


@pytest.mark.parametrize(
    ("invalid_penalty", "episode_stat", "expected"),
    [
        ("reward", "trajectory", [0.70710668, 0.70710668, 0.70710668, -0.70710668, -0.70710668]),
        ("row", "trajectory", [0.70710668, 0.69296454, 0.70710668, -0.70710668, -0.70710668]),
        ("row", "cross_steps", [0.73638218, 0.71806421, 0.73638218, -1.09541428, -1.09541428]),
        ("step_only", "trajectory", [ROOT, ROOT, ROOT, -ROOT, -ROOT]),
    ],
)
def test_episodes_pay_for_rejected_actions(invalid_penalty, episode_stat, expected):
    compat = Compat(invalid_penalty=invalid_penalty, episode_stat=episode_stat)
    result = episode_relative(REVISITED, compat=compat)
    np.testing.assert_allclose(result, expected, atol=2e-7)


def test_verl_agent_takes_the_price_off_the_row():
    expected = [0.73638218, 0.71806421, 0.73638218, -1.09541428, -1.09541428]
    np.testing.assert_allclose(episode_relative(REVISITED, compat=VERL_AGENT), expected, atol=2e-7)


def test_a_price_alone_does_not_tell_failures_apart_unless_it_is_in_the_reward():
    failed = batch_of({"states": "AB", "valid": [True, False]}, {"states": "AB"})
    assert (episode_relative(failed, compat=Compat(invalid_penalty="reward")) != 0).all()
    assert (episode_relative(failed, compat=Compat(invalid_penalty="row")) == 0).all()
    assert (episode_relative(failed, compat=Compat(invalid_penalty="step_only")) == 0).all()


@given(batches())
def test_episode_advantages_are_the_same_on_all_rows_of_an_episode(batch):
    result = episode_relative(batch)
    np.testing.assert_array_equal(result, np.repeat(result[batch.starts], batch.lengths))


@given(batches(), st.sampled_from(["trajectory", "cross_steps"]), st.sampled_from(["reward", "row"]))
def test_permuting_trajectories_permutes_advantages(batch, episode_stat, invalid_penalty):
    other, rows = shuffled(batch)
    compat = Compat(episode_stat=episode_stat, invalid_penalty=invalid_penalty)
    for function in (
        lambda b: episode_relative(b, compat=compat),
        lambda b: step_returns(b, gamma=0.9, compat=compat),
    ):
        np.testing.assert_allclose(function(other), function(batch)[rows], atol=1e-6)


def test_counting_steps_weighs_long_episodes():
    batch = batch_of({"states": "ABC", "rewards": [0, 0, 9]}, {"states": "A"})
    assert episode_relative(batch, std=False).tolist() == [4.5, 4.5, 4.5, -4.5]
    assert episode_relative(batch, std=False, compat=Compat(episode_stat="cross_steps")).tolist() == [
        2.25,
        2.25,
        2.25,
        -6.75,
    ]


def test_trajectory_sums():
    assert trajectory_sums(REVISITED, REVISITED.reward).tolist() == [10.0, 10.0, 10.0, 0.0, 0.0]


# ---- truncation ----------------------------------------------------------------------------


def truncated(**columns):
    return StepBatch.of(
        group=[0, 0],
        trajectory=[0, 0],
        state="AB",
        reward=[0, 0],
        truncated=[False, True],
        values=[0.5, 0.6],
        **columns,
    )


def test_a_truncated_episode_is_worth_what_the_critic_says_of_its_last_state():
    batch = truncated(next_values=[0.6, 0.4])
    assert after_last(batch, "bootstrap").tolist() == [0.0, 0.4]
    assert after_last(batch, "zero").tolist() == [0.0, 0.0]


def test_missing_value_of_the_last_state_is_named():
    with pytest.raises(ValueError, match="next_values is missing"):
        after_last(truncated(), "bootstrap")
