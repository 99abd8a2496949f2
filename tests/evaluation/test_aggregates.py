"""Normalised aggregates and the bootstrap over seeds and tasks."""

import numpy as np
import pytest
import scipy.stats

from agentgym.core.arrays import Floats
from agentgym.evaluation.board.aggregates import (
    PROFILE_AT,
    Scale,
    aggregate_one_seed,
    aggregate_seeds,
    hierarchical_bootstrap,
    interquartile_mean,
    optimality_gap,
)
from agentgym.evaluation.board.statistics import wilson


def test_scale() -> None:
    scale = Scale(floor=0.2, oracle=0.7)
    assert scale.normalise(np.array([0.2, 0.7, 0.1])) == pytest.approx([0.0, 1.0, -0.2])
    assert scale.usable
    assert not Scale(0.5, 0.5).usable
    assert not Scale(0.6, 0.5).usable
    mapped = scale.normalise_estimate(wilson(0.45, 30))
    assert mapped.value == pytest.approx(0.5)
    assert mapped.low == pytest.approx((wilson(0.45, 30).low - 0.2) / 0.5)


def equal(n: int) -> Floats:
    return np.full(n, 1.0 / n)


@pytest.mark.parametrize("n", [1, 2, 4, 8, 40])
def test_interquartile_mean_equals_scipy(n: int) -> None:
    """Where a quarter of the values is a whole number; elsewhere scipy cuts less than a quarter."""
    values = np.random.default_rng(n).normal(size=n)
    expected = values.mean() if n == 2 else scipy.stats.trim_mean(values, 0.25)
    assert interquartile_mean(values, equal(n)) == pytest.approx(expected)


def test_interquartile_mean_is_that_of_repeated_values() -> None:
    rng = np.random.default_rng(0)
    values, counts = rng.normal(size=7), rng.integers(1, 9, size=7)
    repeated = np.repeat(values, 4 * counts)
    expected = scipy.stats.trim_mean(repeated, 0.25)
    assert interquartile_mean(values, counts / counts.sum()) == pytest.approx(expected)
    assert interquartile_mean(np.stack([values, values + 1.0]), counts / counts.sum()) == pytest.approx(
        [expected, expected + 1.0]
    )


def test_optimality_gap_ignores_what_exceeds_the_oracle() -> None:
    assert optimality_gap(np.array([0.5, 1.0, 1.5]), equal(3)) == pytest.approx(0.5 / 3)


def test_bootstrap_draws_seeds_across_environments() -> None:
    """With constant tasks only the seed draw varies, so both environments move together."""
    per_seed = np.array([[0.0], [0.5], [1.0]])
    scores = [np.repeat(per_seed, 10, axis=1), np.repeat(per_seed, 20, axis=1)]
    means = hierarchical_bootstrap(scores, np.random.default_rng(0), resamples=500)
    assert means.shape == (500, 3, 2)
    assert np.array_equal(means[..., 0], means[..., 1])
    assert set(np.unique(means)) == {0.0, 0.5, 1.0}


def test_bootstrap_has_the_variance_of_a_mean_of_tasks() -> None:
    scores = np.random.default_rng(1).random((1, 200))
    means = hierarchical_bootstrap([scores], np.random.default_rng(2), resamples=4000)[:, 0, 0]
    assert means.std() == pytest.approx(scores.std() / np.sqrt(200), rel=0.05)


def test_hierarchical_intervals_cover_where_task_only_intervals_do_not() -> None:
    """10 trained seeds that differ; the truth is the mean over seeds yet to be trained."""
    rng = np.random.default_rng(3)
    covered = task_only = 0
    repeats = 300
    for _ in range(repeats):
        skill = 0.5 + 0.1 * rng.normal(size=10)
        scores = np.clip(skill[:, None] + 0.2 * rng.normal(size=(10, 100)), None, None)
        means = hierarchical_bootstrap([scores], rng, resamples=400)[:, :, 0].mean(axis=1)
        low, high = np.quantile(means, [0.025, 0.975])
        covered += low <= 0.5 <= high
        half = 1.96 * scores.mean(axis=0).std(ddof=1) / 10
        task_only += abs(scores.mean() - 0.5) <= half
    assert covered / repeats > 0.88
    assert task_only / repeats < 0.5


def test_aggregate_of_one_seed() -> None:
    parts = [wilson(x, 50) for x in (0.0, 0.4, 0.8, 1.0)]
    got = aggregate_one_seed(parts, equal(4))
    assert got.mean.value == pytest.approx(0.55)
    assert got.iqm is None
    assert got.optimality_gap.value == pytest.approx(0.45)
    for estimate in (got.mean, got.optimality_gap):
        assert estimate.low < estimate.value < estimate.high
    assert [p.value for p in got.profile] == [
        sum(x > at for x in (0.0, 0.4, 0.8, 1.0)) / 4 for at in PROFILE_AT
    ]


def test_perfect_scores_keep_an_interval() -> None:
    got = aggregate_one_seed([wilson(1.0, 100)] * 3, equal(3))
    assert got.mean.value == 1.0
    assert got.mean.low < 1.0
    assert got.optimality_gap.low == 0.0


def test_aggregate_of_several_seeds() -> None:
    rng = np.random.default_rng(4)
    scores = [rng.random((4, 40)), rng.random((4, 60)) * 0.5]
    scales = [Scale(0.0, 1.0), Scale(0.0, 0.5)]
    got = aggregate_seeds(scores, scales, equal(2), rng)
    expected = np.concatenate([scores[0].mean(axis=1), scores[1].mean(axis=1) / 0.5])
    assert got.mean.value == pytest.approx(expected.mean())
    assert got.iqm is not None
    assert got.iqm.value == pytest.approx(scipy.stats.trim_mean(expected, 0.25))
    assert got.mean.low < got.mean.value < got.mean.high
    shares = [p.value for p in got.profile]
    assert shares == sorted(shares, reverse=True)


@pytest.mark.parametrize(("seeds", "shown"), [(2, False), (3, True)])
def test_an_interquartile_mean_takes_three_training_seeds(seeds: int, shown: bool) -> None:
    rng = np.random.default_rng(5)
    scores = [rng.random((seeds, 20)) for _ in range(4)]
    got = aggregate_seeds(scores, [Scale(0.0, 1.0)] * 4, equal(4), rng)
    assert (got.iqm is not None) == shown


def test_duplicated_columns_change_nothing() -> None:
    """Three columns of one suite of environments count as one."""
    shared = np.array([1 / 6, 1 / 6, 1 / 6, 1 / 2])
    one, other = wilson(0.9, 50), wilson(0.2, 50)
    apart = aggregate_one_seed([one, other], equal(2))
    together = aggregate_one_seed([one, one, one, other], shared)
    assert together.mean.value == pytest.approx(apart.mean.value)
    assert together.optimality_gap.value == pytest.approx(apart.optimality_gap.value)
    assert [p.value for p in together.profile] == pytest.approx([p.value for p in apart.profile])
    rng = np.random.default_rng(6)
    first, second = rng.random((3, 20)), rng.random((3, 20))
    scale = Scale(0.0, 1.0)
    apart = aggregate_seeds([first, second], [scale] * 2, equal(2), rng)
    together = aggregate_seeds([first, first, first, second], [scale] * 4, shared, rng)
    assert together.mean.value == pytest.approx(apart.mean.value)
    assert apart.iqm is not None
    assert together.iqm is not None
    assert together.iqm.value == pytest.approx(apart.iqm.value)
