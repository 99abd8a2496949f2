"""Statistics against scipy, literal numbers and simulated coverage."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from agentgym.evaluation.board.statistics import (
    Estimate,
    combine,
    holm,
    mean_score,
    minimum_detectable_difference,
    ranks,
    ratio_of_sums,
    resampling_counts,
    sign_flip_p,
    standard_error,
    t_cdf,
    t_interval,
    t_quantile,
    wilson,
)


@pytest.mark.parametrize("dof", [1, 2, 3, 5.5, 10, 29, 133, 499, 5000])
@pytest.mark.parametrize("probability", [0.001, 0.025, 0.2, 0.5, 0.8, 0.975, 0.99999])
def test_t_quantile_equals_scipy(dof: float, probability: float) -> None:
    assert t_quantile(probability, dof) == pytest.approx(
        scipy.stats.t.ppf(probability, dof), rel=1e-9, abs=1e-12
    )


@pytest.mark.parametrize("t", [-40.0, -2.0, -0.1, 0.0, 0.3, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("dof", [1, 4, 60, 1000])
def test_t_cdf_equals_scipy(t: float, dof: float) -> None:
    assert t_cdf(t, dof) == pytest.approx(scipy.stats.t.cdf(t, dof), rel=1e-9)


@pytest.mark.parametrize(("probability", "dof"), [(0.0, 3), (1.0, 3), (0.5, 0)])
def test_t_quantile_refuses_arguments_out_of_range(probability: float, dof: float) -> None:
    with pytest.raises(ValueError, match="need 0 < probability < 1"):
        t_quantile(probability, dof)


@pytest.mark.parametrize(("wins", "n"), [(0, 10), (1, 10), (5, 10), (10, 10), (37, 134), (499, 500), (1, 1)])
def test_wilson_equals_scipy(wins: int, n: int) -> None:
    expected = scipy.stats.binomtest(wins, n).proportion_ci(method="wilson")
    got = wilson(wins / n, n)
    assert (got.low, got.high) == pytest.approx((expected.low, expected.high), abs=1e-12)
    assert got.low <= got.value <= got.high


def test_wilson_on_another_scale_is_the_scaled_interval() -> None:
    unit, scaled = wilson(0.3, 50), wilson(3.0, 50, (0.0, 10.0))
    assert (scaled.low, scaled.high) == pytest.approx((10 * unit.low, 10 * unit.high))


@pytest.mark.parametrize(("mean", "n"), [(0.5, 0), (1.5, 10), (-0.1, 10)])
def test_wilson_refuses_what_is_no_proportion(mean: float, n: int) -> None:
    with pytest.raises(ValueError, match="need n > 0"):
        wilson(mean, n)


def test_t_interval_equals_scipy_over_task_means() -> None:
    scores = np.random.default_rng(0).integers(0, 2, size=(40, 8)).astype(float)
    got = mean_score(scores)
    means = scores.mean(axis=1)
    expected = scipy.stats.t.interval(0.95, 39, loc=means.mean(), scale=scipy.stats.sem(means))
    assert got.method == "t"
    assert (got.low, got.high) == pytest.approx(expected)


def test_mean_score_chooses_its_interval() -> None:
    assert mean_score(np.ones((10, 4))) == wilson(1.0, 10)
    assert mean_score(np.full((10, 3), 0.1)).method == "wilson"
    assert mean_score(np.eye(5)[:, :1]) == wilson(0.2, 5)
    near_the_edge = mean_score(np.array([[1.0, 1.0], [1.0, 1.0], [1.0, 0.0]]))
    assert near_the_edge.method == "t"
    assert near_the_edge.high == 1.0


@pytest.mark.parametrize(
    "scores", [np.zeros((0, 1)), np.zeros(4), np.full((3, 1), 2.0), np.full((3, 1), -1.0)]
)
def test_mean_score_refuses_bad_arrays(scores: np.ndarray) -> None:
    with pytest.raises(ValueError, match="scores must"):
        mean_score(scores)


def test_t_interval_of_one_value_spans_the_scale() -> None:
    assert t_interval(np.array([0.5]), (0.0, 1.0)) == Estimate(0.5, 0.0, 1.0, "t")
    with pytest.raises(ValueError, match="at least one value"):
        t_interval(np.array([]))


def test_clustered_intervals_cover_and_naive_ones_do_not() -> None:
    """134 tasks, 8 attempts, task difficulty Beta(.3, .3): the setting where i.i.d. intervals fail."""
    rng = np.random.default_rng(1)
    repeats, tasks, attempts = 2000, 134, 8
    clustered = naive = 0
    for _ in range(repeats):
        difficulty = rng.beta(0.3, 0.3, size=tasks)
        scores = (rng.random((tasks, attempts)) < difficulty[:, None]).astype(float)
        interval = mean_score(scores)
        clustered += interval.low <= 0.5 <= interval.high
        flat = wilson(float(scores.mean()), scores.size)
        naive += flat.low <= 0.5 <= flat.high
    assert 0.935 <= clustered / repeats <= 0.965
    assert naive / repeats < 0.80


def test_wilson_covers_rare_successes() -> None:
    rng = np.random.default_rng(2)
    wins = rng.binomial(100, 0.03, size=4000)
    covered = [wilson(w / 100, 100).low <= 0.03 <= wilson(w / 100, 100).high for w in wins]
    assert 0.92 <= np.mean(covered) <= 0.99


def test_combined_interval_covers_the_mean_of_environments() -> None:
    rng = np.random.default_rng(3)
    rates, tasks = np.array([0.02, 0.5, 0.97, 1.0]), 60
    wins = rng.binomial(tasks, rates, size=(2000, 4))
    covered = 0
    for row in wins:
        whole = combine([wilson(w / tasks, tasks) for w in row], [0.25] * 4)
        covered += whole.low <= rates.mean() <= whole.high
    assert 0.93 <= covered / 2000 <= 0.99


def test_combine_of_one_part_is_the_part() -> None:
    part = wilson(0.9, 20)
    whole = combine([part], [1.0])
    assert (whole.value, whole.low, whole.high) == pytest.approx((part.value, part.low, part.high))


def test_sign_flip_enumerates_small_samples() -> None:
    differences = np.array([0.5, 0.25, -0.125, 1.0, 0.0])
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product([1, -1], repeat=5)]
    expected = np.mean(np.array(sums) >= differences.sum() - 1e-12)
    assert sign_flip_p(differences[:, None], np.random.default_rng(0))[0] == expected


def test_sign_flip_equals_scipy_permutation_test() -> None:
    differences = np.random.default_rng(4).normal(0.3, 1.0, size=12)
    expected = scipy.stats.permutation_test(
        (differences,), lambda x, axis: x.sum(axis=axis), permutation_type="samples", n_resamples=np.inf
    )
    got = sign_flip_p(differences[:, None], np.random.default_rng(0))[0]
    assert got == pytest.approx(expected.pvalue)


def test_sign_flip_samples_large_samples() -> None:
    rng = np.random.default_rng(5)
    terms = np.stack([rng.normal(0.25, 1.0, 200), rng.normal(0.0, 1.0, 200), np.zeros(200)], axis=1)
    got = sign_flip_p(terms, np.random.default_rng(0))
    expected = scipy.stats.ttest_1samp(terms[:, :2], 0.0).pvalue
    assert got[:2] == pytest.approx(expected, abs=0.02)
    assert got[2] == 1.0


def test_sign_flip_level_holds_under_the_null() -> None:
    rng = np.random.default_rng(6)
    pairs = rng.integers(-1, 2, size=(30, 1000)).astype(float)
    p = sign_flip_p(pairs, rng, resamples=999)
    assert np.mean(p <= 0.05) <= 0.06


@pytest.mark.parametrize("tasks", [14, 100])
def test_sign_flip_never_returns_zero(tasks: int) -> None:
    p = sign_flip_p(np.ones((tasks, 1)), np.random.default_rng(0), resamples=199)
    assert p[0] == pytest.approx(1 / 200)


@pytest.mark.parametrize(
    ("tasks", "resamples", "all_"), [(7, 127, True), (7, 126, False), (17, 131_071, False)]
)
def test_sign_flip_enumerates_what_is_no_more_than_is_drawn(tasks: int, resamples: int, all_: bool) -> None:
    p = sign_flip_p(np.ones((tasks, 1)), np.random.default_rng(0), resamples)
    assert (p[0] == 2 / 2**tasks) == all_


def test_holm_literal_numbers() -> None:
    got = holm(np.array([0.01, 0.04, 0.03, 0.005]))
    assert got == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.array([0.9, 0.8])) == pytest.approx([1.0, 1.0])
    assert holm(np.array([])).size == 0


def test_ranks_are_tied_sets() -> None:
    better = np.zeros((4, 4), dtype=bool)
    better[0, 2] = better[0, 3] = better[1, 3] = True
    assert ranks(better) == [1, 1, 2, 3]


def test_minimum_detectable_difference_is_found_as_often_as_promised() -> None:
    rng = np.random.default_rng(7)
    tasks, sd = 60, 0.7
    gap = minimum_detectable_difference(sd, tasks)
    p = scipy.stats.ttest_1samp(rng.normal(gap, sd, size=(4000, tasks)), 0.0, axis=1).pvalue
    assert np.mean(p < 0.05) == pytest.approx(0.80, abs=0.03)


def test_three_points_at_134_tasks_are_far_below_what_can_be_detected() -> None:
    assert minimum_detectable_difference(math.sqrt(0.5), 134) == pytest.approx(0.1723, abs=5e-4)


def test_ratio_of_sums() -> None:
    rng = np.random.default_rng(8)
    tokens, wins = rng.integers(50, 150, 400).astype(float), rng.integers(0, 2, 400).astype(float)
    got = ratio_of_sums(tokens, wins, rng)
    assert got is not None
    assert got.value == tokens.sum() / wins.sum()
    assert got.low < got.value < got.high
    assert ratio_of_sums(tokens, np.zeros(400), rng) is None
    thousandths = ratio_of_sums(tokens, wins / 1_000, np.random.default_rng(10))
    whole = ratio_of_sums(tokens, wins, np.random.default_rng(10))
    assert whole is not None
    assert thousandths is not None
    ends = 1_000 * whole.value, 1_000 * whole.low, 1_000 * whole.high
    assert (thousandths.value, thousandths.low, thousandths.high) == pytest.approx(ends)
    rare = ratio_of_sums(np.ones(50), np.eye(50)[0], rng)
    assert rare is not None
    assert math.isinf(rare.high)


def test_resampling_counts_are_multinomial() -> None:
    counts = resampling_counts(20, 5000, np.random.default_rng(9))
    assert (counts.sum(axis=1) == 20).all()
    assert counts.mean(axis=0) == pytest.approx(np.ones(20), abs=0.1)
    assert counts.var(axis=0) == pytest.approx(np.full(20, 1 - 1 / 20), abs=0.15)


def test_standard_error_equals_scipy() -> None:
    values = np.array([0.0, 1.0, 0.5, 0.25])
    assert standard_error(values) == pytest.approx(scipy.stats.sem(values))
