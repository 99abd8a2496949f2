"""Normalised aggregates and the bootstrap over seeds and tasks."""

import numpy as np
import pytest
import scipy.stats

from agentgym.evaluation.aggregates import (
    PROFILE_AT,
    Scale,
    aggregate_one_seed,
    aggregate_seeds,
    hierarchical_bootstrap,
    interquartile_mean,
    iqm_weights,
    optimality_gap,
)
from agentgym.evaluation.statistics import wilson


def test_scale() -> None:
    scale = Scale(floor=0.2, oracle=0.7)
    assert scale.normalise(np.array([0.2, 0.7, 0.1])) == pytest.approx([0.0, 1.0, -0.2])
    assert scale.usable
    assert not Scale(0.5, 0.5).usable
    assert not Scale(0.6, 0.5).usable
    mapped = scale.normalise_estimate(wilson(0.45, 30))
    assert mapped.value == pytest.approx(0.5)
    assert mapped.low == pytest.approx((wilson(0.45, 30).low - 0.2) / 0.5)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 11, 40])
def test_interquartile_mean_equals_scipy(n: int) -> None:
    values = np.random.default_rng(n).normal(size=n)
    assert interquartile_mean(values) == pytest.approx(scipy.stats.trim_mean(values, 0.25))
    assert iqm_weights(values) @ values == pytest.approx(scipy.stats.trim_mean(values, 0.25))


def test_optimality_gap_ignores_what_exceeds_the_oracle() -> None:
    assert optimality_gap(np.array([0.5, 1.0, 1.5])) == pytest.approx(0.5 / 3)


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
    got = aggregate_one_seed(parts)
    assert got.mean.value == pytest.approx(0.55)
    assert got.iqm.value == pytest.approx(0.6)
    assert got.optimality_gap.value == pytest.approx(0.45)
    for estimate in (got.mean, got.iqm, got.optimality_gap):
        assert estimate.low < estimate.value < estimate.high
    assert [p.value for p in got.profile] == [
        sum(x > at for x in (0.0, 0.4, 0.8, 1.0)) / 4 for at in PROFILE_AT
    ]


def test_perfect_scores_keep_an_interval() -> None:
    got = aggregate_one_seed([wilson(1.0, 100)] * 3)
    assert got.mean.value == 1.0
    assert got.mean.low < 1.0
    assert got.optimality_gap.low == 0.0


def test_aggregate_of_several_seeds() -> None:
    rng = np.random.default_rng(4)
    scores = [rng.random((3, 40)), rng.random((3, 60)) * 0.5]
    scales = [Scale(0.0, 1.0), Scale(0.0, 0.5)]
    got = aggregate_seeds(scores, scales, rng)
    expected = np.concatenate([scores[0].mean(axis=1), scores[1].mean(axis=1) / 0.5])
    assert got.mean.value == pytest.approx(expected.mean())
    assert got.iqm.value == pytest.approx(scipy.stats.trim_mean(expected, 0.25))
    assert got.mean.low < got.mean.value < got.mean.high
    shares = [p.value for p in got.profile]
    assert shares == sorted(shares, reverse=True)
