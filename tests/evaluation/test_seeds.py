"""What boards say of several training runs, against literal numbers and by simulation.

The whole simulation is `benchmarks.seeds`: here are a few of its cells, and all under the mark `slow`. The
methods that boards had before stand here, as what fails the bounds.
"""

import itertools
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.stats

from agentgym.core.arrays import Floats
from agentgym.evaluation.board.boards import Comparison
from agentgym.evaluation.board.scoring import mean_over_seeds
from agentgym.evaluation.board.statistics import (
    Estimate,
    can_be_told,
    detectable_difference,
    over_runs,
    permuted_p,
    resampling_counts,
    sign_flip_p,
    wilson,
)
from agentgym.evaluation.board.tables import _run_notes
from benchmarks import seeds
from benchmarks.seeds import LEAST, MOST, MOST_FALSE, World, coverage, false_positives

UNIT = (0.0, 1.0)
OPEN = (-math.inf, math.inf)


def bootstrapped(values: Floats) -> Estimate:
    """Percentiles of means over resampled runs and resampled tasks: the interval of boards until 2026-11."""
    rng = np.random.default_rng(0)
    runs, tasks = values.shape
    drawn = resampling_counts(runs, 499, rng) / runs
    means = (drawn @ values * resampling_counts(tasks, 499, rng)).sum(axis=1) / tasks
    low, high = np.quantile(means, (0.025, 0.975))
    return Estimate(float(values.mean()), float(low), float(high), "bootstrap")


def flipped(first: Floats, second: Floats, rng: np.random.Generator) -> float:
    """Sign flips over tasks with runs averaged: the test of boards until 2026-11."""
    return float(sign_flip_p((first.mean(axis=0) - second.mean(axis=0))[:, None], rng, 499)[0])


# --- intervals --------------------------------------------------------------------------------------


def test_two_runs_whose_tasks_do_not_vary_have_student_s_interval() -> None:
    values = np.repeat([[1.0], [2.0], [4.0]], 7, axis=1)
    got = over_runs([values], OPEN)
    expected = scipy.stats.t.interval(0.95, 2, loc=7 / 3, scale=scipy.stats.sem([1.0, 2.0, 4.0]))
    assert (got.low, got.high) == pytest.approx(expected)


def test_equal_runs_have_the_interval_of_their_tasks_over_the_others() -> None:
    tasks = np.array([0.0, 1.0, 2.0, 5.0])
    got = over_runs([np.stack([tasks] * 3)], OPEN)
    half = scipy.stats.t.ppf(0.975, 3) * scipy.stats.sem(tasks)  # no rest: B - E = B
    assert (got.value, got.low, got.high) == pytest.approx((2.0, 2.0 - half, 2.0 + half))


def test_mean_squares_are_those_of_a_crossed_layout() -> None:
    values = np.random.default_rng(0).random((4, 9))
    runs, tasks = values.mean(axis=1), values.mean(axis=0)
    total = ((values - values.mean()) ** 2).sum()
    squares = 9 * ((runs - values.mean()) ** 2).sum(), 4 * ((tasks - values.mean()) ** 2).sum()
    a, b = squares[0] / 3 / 36, squares[1] / 8 / 36
    rest = (total - sum(squares)) / 24 / 36
    run_t2, task_t2 = scipy.stats.t.ppf(0.975, 3) ** 2, scipy.stats.t.ppf(0.975, 8) ** 2
    half = math.sqrt(max(run_t2 * a + task_t2 * (b - rest), task_t2 * b / 3))
    got = over_runs([values], OPEN)
    assert got.high - got.value == pytest.approx(half)
    near_the_middle = over_runs([values - values.mean() + 0.5], UNIT)
    p_term = half**2 / 0.25  # Wilson's form, without skewness at one half
    expected = math.sqrt(p_term / 4 + p_term**2 / 4) / (1 + p_term)
    assert near_the_middle.high - 0.5 == pytest.approx(expected, rel=1e-6)


def test_an_interval_is_the_mirror_of_that_of_failures_and_scales() -> None:
    values = (np.random.default_rng(1).random((3, 40)) < 0.1).astype(float)
    won, lost = over_runs([values], UNIT), over_runs([1.0 - values], UNIT)
    assert (won.low, won.high) == pytest.approx((1.0 - lost.high, 1.0 - lost.low))
    scaled = over_runs([10.0 * values - 2.0], (-2.0, 8.0))
    assert (scaled.low, scaled.high) == pytest.approx((10.0 * won.low - 2.0, 10.0 * won.high - 2.0))


def test_an_interval_without_variance_is_wider_with_fewer_runs() -> None:
    widths = [over_runs([np.zeros((runs, 50))], UNIT).high for runs in (2, 3, 5, 10)]
    assert widths == sorted(widths, reverse=True)
    assert 0.05 < widths[-1] < widths[0] < 1.0
    assert over_runs([np.full((3, 1), 0.5)], UNIT).low < 0.5


FEW = (
    World(2, 0.15, 400, 0.5, 1),
    World(3, 0.07, 30, 0.1, 1),
    World(3, 0.15, 100, 0.5, 1),
    World(5, 0.0, 100, 0.5, 1),
    World(5, 0.15, 100, 0.1, 1),
    World(10, 0.15, 30, 0.98, 4),
)


@pytest.mark.parametrize("world", FEW, ids=str)
def test_intervals_hold_the_mean_of_runs_to_come(world: World) -> None:
    """With 300 draws a coverage of 95 % comes out within 2.5."""
    held = coverage(world, 300)
    assert held >= LEAST - 2.5
    assert not world.capped or held <= MOST + 1.5


@pytest.mark.parametrize("world", [World(3, 0.07, 400, 0.5, 1), World(3, 0.15, 100, 0.5, 1)], ids=str)
def test_the_bootstrap_of_before_does_not(world: World) -> None:
    assert coverage(world, 300, bootstrapped) < LEAST - 2.5
    assert coverage(world, 300) > LEAST


# --- tests ------------------------------------------------------------------------------------------


def test_permutations_equal_scipy_and_a_hand_count() -> None:
    first, second = np.array([1.0, 4.0, 6.0]), np.array([0.0, 2.0, 3.0, 3.5])
    expected = scipy.stats.permutation_test(
        (first, second), lambda x, y, axis: x.mean(axis=axis) - y.mean(axis=axis), n_resamples=np.inf
    )
    rng = np.random.default_rng(0)
    everything = np.concatenate([first, second])
    deals = [np.array(deal) for deal in itertools.combinations(range(7), 3)]
    differences = [everything[deal].mean() - np.delete(everything, deal).mean() for deal in deals]
    observed = abs(first.mean() - second.mean())
    by_hand = np.mean([abs(difference) >= observed - 1e-12 for difference in differences])
    assert permuted_p(first, second, rng) == pytest.approx(by_hand)
    assert expected.pvalue == pytest.approx(by_hand, abs=0.1)  # scipy doubles the smaller tail
    assert permuted_p(np.ones(3), np.ones(3), rng) == 1.0
    assert permuted_p(np.arange(3.0), np.arange(10.0, 13.0), rng) == 2 / 20
    assert permuted_p(np.array([9.0]), np.arange(3.0), rng) == 1 / 4


def test_many_runs_are_permuted_at_random() -> None:
    rng = np.random.default_rng(1)
    first, second = rng.normal(0.5, 1.0, 12), rng.normal(0.0, 1.0, 12)
    expected = scipy.stats.ttest_ind(first, second).pvalue
    assert permuted_p(first, second, rng) == pytest.approx(expected, abs=0.02)
    assert permuted_p(first + 99.0, second, rng) == 1 / 10_000


@pytest.mark.parametrize(
    ("runs", "told"),
    [
        ([(1, 1)], [True]),
        ([(3, 3)], [False]),
        ([(4, 4)], [True]),
        ([(4, 4)] * 2, [False] * 2),
        ([(1, 18)], [False]),
        ([(1, 19)], [True]),
        # what cannot be told alone costs the others nothing
        ([(4, 4), (3, 3), (3, 3)], [True, False, False]),
        ([(1, 1), (5, 5), (5, 1)], [True, True, False]),
    ],
)
def test_which_pairs_can_be_told(runs: list[tuple[int, int]], told: list[bool]) -> None:
    assert can_be_told(runs).tolist() == told


@pytest.mark.parametrize(("runs", "why"), [(3, ""), (5, " among so many pairs")])
def test_a_note_says_whether_runs_or_pairs_keep_five_rows_from_being_told(runs: int, why: str) -> None:
    pairs = [Comparison(*names, 0.1, 0.1, 0.01, 1.0) for names in itertools.combinations("abcde", 2)]
    rows = [SimpleNamespace(name=name, runs=range(runs)) for name in "abcde"]
    (note,) = _run_notes(SimpleNamespace(rows=rows, comparisons=pairs))  # type: ignore[arg-type]
    assert note[0] == ("", f"Cannot be told with {runs} runs{why}:")


EQUAL = (World(5, 0.07, 100, 0.5, 1), World(5, 0.15, 100, 0.5, 1), World(3, 0.15, 100, 0.5, 1))


@pytest.mark.parametrize("world", EQUAL, ids=str)
def test_equal_algorithms_are_seldom_told_apart_and_were_often(world: World) -> None:
    """The test is exact: with 300 draws 5 % come out within 2.5."""
    assert false_positives(world, 300) <= MOST_FALSE + 1.5
    assert false_positives(world, 100, flipped) > 20.0


def lost(runs: int, share: float, rng: np.random.Generator) -> Floats:
    """Draw success of runs, so many of which end at 0 and the others near 80 %."""
    return np.where(rng.random(runs) < share, 0.0, rng.beta(25.0, 6.25, runs))


def played(success: Floats, tasks: int, rng: np.random.Generator) -> Floats:
    return rng.binomial(1, success[:, None], (len(success), tasks)).astype(float)


@pytest.mark.parametrize(("runs", "share"), [(5, 0.2), (10, 0.1)])
def test_few_runs_seldom_hold_what_a_rare_run_decides(runs: int, share: float) -> None:
    """A limit that docs/evaluation.md states, not a property that is wanted."""
    rng = np.random.default_rng(3)
    ends = [over_runs([played(lost(runs, share, rng), 100, rng)], UNIT) for _ in range(400)]
    held = np.mean([end.low <= 0.8 * (1.0 - share) <= end.high for end in ends])
    assert 0.7 < held < 0.9


def test_rows_of_one_mean_and_other_spreads_or_tasks_are_told_apart_too_often() -> None:
    """The other limit that docs/evaluation.md states: the test is exact for what is alike."""
    rng, spread, tasks = np.random.default_rng(4), [], []
    for _ in range(300):
        first, second = (played(row, 100, rng) for row in (lost(5, 0.2, rng), rng.beta(58.0, 32.6, 5)))
        spread.append(permuted_p(first.mean(axis=1), second.mean(axis=1), rng) <= 0.05)
        better = np.where(rng.random(100) < 0.5, 0.8, 0.2)
        one, two = (rng.binomial(1, row, (6, 100)).mean(axis=1) for row in (better, 1.0 - better))
        tasks.append(permuted_p(one, two, rng) <= 0.05)
    assert 0.15 < np.mean(spread) < 0.35
    assert 0.3 < np.mean(tasks) < 0.5


def test_the_detectable_difference_is_found_as_often_as_promised() -> None:
    rng, runs, deviation = np.random.default_rng(2), 6, 0.1
    gap = detectable_difference(deviation * math.sqrt(2), runs, 2 * runs - 2)
    rows = rng.normal(0.0, deviation, (400, 2, runs))
    found = [permuted_p(first + gap, second, rng) <= 0.05 for first, second in rows]
    assert np.mean(found) == pytest.approx(0.8, abs=0.06)


# --- the report -------------------------------------------------------------------------------------


def test_the_report_says_what_holds() -> None:
    record = json.loads(seeds.OUT.read_text())
    assert seeds.OUT.with_suffix(".md").read_text() == seeds.page(record)
    cells = [World(**cell["world"]) for cell in record["logit"]]
    assert cells == [world for runs in seeds.RUNS for world in seeds.worlds(runs)]
    assert min(cell["coverage"] for cell in record["logit"]) >= LEAST
    assert max(cell["false_positives"] for cell in record["equal"]) <= MOST_FALSE
    # with 2,000 draws 97 % comes out within .75
    everything = [(World(**cell["world"]), cell["coverage"]) for cell in record["logit"] + record["points"]]
    assert all(held <= MOST + 0.75 for world, held in everything if world.capped)
    # what few runs cannot know: success of 2 or 98 % that a few of many runs make
    short = {(world.deviation, world.tasks) for world, held in everything if held < LEAST}
    assert short == {(0.07, 400)}
    assert all(world.success in (0.02, 0.98) for world, held in everything if held < LEAST)


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["logit", "points"])
@pytest.mark.parametrize("runs", seeds.RUNS)
def test_every_cell_s_intervals_hold(runs: int, scale: seeds.Scale) -> None:
    """With 1,000 draws 93 % comes out within 2 and 97 % within 1.5; what few runs cannot know is left out."""
    for world in seeds.worlds(runs, scale):
        held = coverage(world, 1_000)
        if scale == "logit" or 0.1 <= world.success <= 0.9:
            assert held >= LEAST - 2.0, world
        assert not world.capped or held <= MOST + 1.5, world


@pytest.mark.slow
@pytest.mark.parametrize("runs", seeds.RUNS)
def test_in_every_cell_equal_algorithms_are_seldom_told_apart(runs: int) -> None:
    for world in seeds.pair_worlds(runs):
        assert false_positives(world, 1_000) <= MOST_FALSE + 1.0, world


@pytest.mark.slow
@pytest.mark.parametrize("deviation", [0.07, 0.15])
def test_the_methods_of_before_fail_wherever_runs_differ(deviation: float) -> None:
    world = World(3, deviation, 200, 0.5, 1)
    assert 80.0 < coverage(world, 1_000, bootstrapped) < LEAST
    for runs in (3, 5, 10):
        assert 20.0 < false_positives(replace(world, runs=runs), 300, flipped) < 85.0


def test_several_seeds_without_variance_keep_an_interval() -> None:
    rng = np.random.default_rng(0)
    sure = mean_over_seeds(np.ones((3, 20, 2)), (0.0, 1.0))
    assert (sure.value, sure.high) == (1.0, 1.0)
    assert sure.low < wilson(1.0, 20).low
    estimate = mean_over_seeds(rng.integers(0, 2, (3, 50, 2)).astype(float), (0.0, 1.0))
    assert estimate.method == "runs"
    assert estimate.low < estimate.value < estimate.high
