"""Normalised aggregates over environments, of one training seed and of several."""

import numpy as np
import pytest
import scipy.stats

from agentgym.core.arrays import Floats
from agentgym.evaluation.board.aggregates import (
    PROFILE_AT,
    Scale,
    aggregate_one_seed,
    aggregate_seeds,
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
    got = aggregate_seeds(scores, scales, [(0.0, 1.0)] * 2, equal(2))
    expected = np.concatenate([scores[0].mean(axis=1), scores[1].mean(axis=1) / 0.5])
    assert got.mean.value == pytest.approx(expected.mean())
    assert got.iqm is not None
    assert got.iqm.value == pytest.approx(scipy.stats.trim_mean(expected, 0.25))
    assert got.mean.low < got.mean.value < got.mean.high
    shares = [p.value for p in got.profile]
    assert shares == sorted(shares, reverse=True)


def test_an_aggregate_of_several_seeds_covers_the_mean_of_runs_to_come() -> None:
    """Two environments whose runs move together."""
    rng, repeats, covered = np.random.default_rng(3), 300, {"mean": 0, "iqm": 0, "gap": 0}
    for _ in range(repeats):
        skill = 0.5 + 0.1 * rng.normal(size=(5, 1))
        scores = [np.clip(skill + 0.1 * rng.normal(size=(5, tasks)), 0.0, 1.0) for tasks in (40, 80)]
        got = aggregate_seeds(scores, [Scale(0.0, 1.0)] * 2, [(0.0, 1.0)] * 2, equal(2))
        assert got.iqm is not None
        for name, estimate in (("mean", got.mean), ("iqm", got.iqm), ("gap", got.optimality_gap)):
            covered[name] += estimate.low <= 0.5 <= estimate.high
    assert all(0.92 <= held / repeats <= 0.98 for held in covered.values()), covered


def test_seeds_that_solve_everything_keep_an_interval() -> None:
    got = aggregate_seeds([np.ones((3, 20))], [Scale(0.0, 1.0)], [(0.0, 1.0)], equal(1))
    assert (got.mean.value, got.mean.high, got.optimality_gap.value, got.optimality_gap.low) == (1, 1, 0, 0)
    assert got.optimality_gap.high == pytest.approx(1.0 - got.mean.low)
    assert got.mean.low < 0.9
    assert got.profile[0].low < 1.0


@pytest.mark.parametrize(("seeds", "shown"), [(2, False), (3, True)])
def test_an_interquartile_mean_takes_three_training_seeds(seeds: int, shown: bool) -> None:
    rng = np.random.default_rng(5)
    scores = [rng.random((seeds, 20)) for _ in range(4)]
    got = aggregate_seeds(scores, [Scale(0.0, 1.0)] * 4, [(0.0, 1.0)] * 4, equal(4))
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
    apart = aggregate_seeds([first, second], [scale] * 2, [(0.0, 1.0)] * 2, equal(2))
    together = aggregate_seeds([first, first, first, second], [scale] * 4, [(0.0, 1.0)] * 4, shared)
    assert together.mean.value == pytest.approx(apart.mean.value)
    assert apart.iqm is not None
    assert together.iqm is not None
    assert together.iqm.value == pytest.approx(apart.iqm.value)
