"""Learning curves as numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest

from agentgym.errors import UsageError
from agentgym.evaluation.board.statistics import t_interval
from agentgym.history.curves import (
    FRACTIONS,
    SHORT_NAMES,
    XS,
    full_name,
    group_runs,
    is_fraction,
    make_curve,
    metric_names,
    reached,
)
from agentgym.history.drawing import draw_curves
from agentgym.history.metrics import Evaluated, Outcomes, SplitOutcomes
from agentgym.history.run import RunHistory
from tests.iterations import make_metrics, make_run


def history(records, *, seed=0, algorithm="grpo", env_id="e", model="m"):
    return RunHistory(
        folder=f"{algorithm}-{env_id}-{model}-{seed}",
        algorithm=algorithm,
        env_id=env_id,
        model=model,
        seed=seed,
        settings={},
        iterations=tuple(records),
    )


def group(*runs):
    """Return one group of runs, which get seeds in their order."""
    (only,) = group_runs([history(records, seed=seed) for seed, records in enumerate(runs)])
    return only


def of(metric, *values):
    return [make_metrics(i, **{metric: value}) for i, value in enumerate(values, 1)]


def test_runs_are_grouped_by_algorithm_environment_and_model():
    runs = [
        history([], seed=2),
        history([], algorithm="gigpo"),
        history([], seed=1),
        history([], env_id="other"),
        history([], model="other"),
    ]
    groups = group_runs(runs)
    assert [[runs.index(run) for run in group.runs] for group in groups] == [[2, 0], [1], [3], [4]]


def test_equal_seeds_are_refused_but_one_by_one():
    runs = [history([], seed=1), replace(history([], seed=1), folder="again")]
    with pytest.raises(UsageError, match=r"grpo-e-m-1 and again are of the same .*--each"):
        group_runs(runs)
    assert [group.runs for group in group_runs(runs, each=True)] == [(runs[0],), (runs[1],)]
    with pytest.raises(UsageError, match="same"):
        group_runs([runs[0], runs[0]], each=True)


def test_every_number_of_an_iteration_has_a_name():
    record = make_metrics(
        1,
        ref_kl=0.0,
        value_loss=0.0,
        explained_variance=0.0,
        step_groups={"17+": 1},
        evaluation=make_run(1, every=1)[0].evaluation,
    )
    known = metric_names()
    assert set(record.scalars()) - {"iteration"} <= set(known)
    assert len(set(known)) == len(known)
    assert FRACTIONS | set(SHORT_NAMES.values()) <= set(known)
    assert full_name("eval") == "evaluation/success"
    assert full_name("kl") == "kl"
    with pytest.raises(UsageError, match=r"unknown metric 'sucess' \(did you mean 'success'\?\)"):
        full_name("sucess")


def test_one_run_has_no_band():
    curve = make_curve(group(of("kl", 1.0, 4.0, 2.0)), "kl", "iteration")
    assert curve.band == "none"
    assert curve.x.tolist() == [1, 2, 3]
    assert curve.mean.tolist() == curve.low.tolist() == curve.high.tolist() == [1, 4, 2]


def test_few_runs_have_their_range():
    curve = make_curve(group(of("kl", 1.0, 4.0), of("kl", 2.0, 4.0), of("kl", 6.0, 1.0)), "kl", "iteration")
    assert (curve.band, curve.runs) == ("min-max", 3)
    assert curve.mean.tolist() == [3, 3]
    assert curve.low.tolist() == [1, 1]
    assert curve.high.tolist() == [6, 4]


def test_five_runs_have_an_interval():
    values = np.array([0.1, 0.5, 0.4, 0.9, 0.3])
    curve = make_curve(group(*(of("success", value) for value in values)), "success", "iteration")
    known = t_interval(values)
    assert curve.band == "interval"
    assert (curve.mean[0], curve.low[0], curve.high[0]) == pytest.approx((known.value, known.low, known.high))


def test_intervals_of_fractions_stay_in_range():
    runs = group(*(of("success", value) for value in (0.0, 0.0, 0.0, 0.0, 1.0)))
    curve = make_curve(runs, "success", "iteration")
    assert (curve.mean[0], curve.low[0]) == (0.2, 0.0)
    assert make_curve(group(*(of("kl", v) for v in (0.0, 0.0, 0.0, 0.0, 1.0))), "kl", "iteration").low[0] < 0


def test_curves_end_with_the_shortest_run():
    curve = make_curve(group(of("kl", 1.0, 2.0, 3.0), of("kl", 3.0, 4.0)), "kl", "iteration")
    assert curve.x.tolist() == [1, 2]
    assert curve.mean.tolist() == [2, 3]


def test_smoothing_looks_back_only():
    runs = group(of("kl", 1.0, 3.0, 8.0, math.nan, 2.0))
    assert make_curve(runs, "kl", "iteration", 1).mean.tolist() == [1, 3, 8, 2]
    curve = make_curve(runs, "kl", "iteration", 3)
    assert curve.x.tolist() == [1, 2, 3, 5]
    assert curve.mean.tolist() == [1, 2, 4, 5]
    assert make_curve(runs, "kl", "iteration", 99).mean.tolist() == [1, 2, 4, 3.5]


def test_a_decay_weighs_each_value_so_much_less_than_the_next():
    runs = group(of("kl", 1.0, 3.0, math.nan, 8.0))
    mean = make_curve(runs, "kl", "iteration", 0.5).mean.tolist()
    assert mean == pytest.approx([1, (0.5 + 3) / 1.5, (0.25 + 1.5 + 8) / 1.75])


def test_a_threshold_is_reached_where_the_mean_first_has_it():
    curve = make_curve(group(of("kl", 0.0, 3.0, 1.0, 5.0), of("kl", 0.0, 1.0, 5.0, 5.0)), "kl", "iteration")
    assert [reached(curve, value) for value in (-1.0, 2.0, 2.5, 5.1)] == [1, 2, 3, None]


def test_evaluations_are_few_begin_at_0_and_are_not_smoothed():
    curve = make_curve(group(make_run(7, every=3)), "evaluation/success", "episodes", 5)
    assert curve.x.tolist() == [0, 24, 48]
    assert curve.mean.tolist() == [0, 0.015, 0.03]


@pytest.mark.parametrize(
    ("x", "places"),
    [
        ("iteration", [1, 2]),
        ("episodes", [8, 16]),
        ("env_steps", [50, 100]),
        ("tokens", [1500, 3000]),
        ("seconds", [2, 4]),
    ],
)
def test_what_runs_are_drawn_over(x, places):
    runs = group(make_run(2, tokens_out=1000), make_run(2, tokens_out=2000))
    assert x in XS
    assert make_curve(runs, "success", x).x.tolist() == places


def of_splits(success):
    heat = Outcomes(episodes=1, success=success / 2, score=0.0)
    seen = SplitOutcomes(episodes=2, success=success, score=0.0, types={"heat": heat})
    return Evaluated(episodes=2, success=success, score=0.0, types=seen.types, splits={"seen": seen})


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("evaluation/splits/seen/success", [0.25, 0.5]),
        ("evaluation/splits/seen/types/heat/success", [0.125, 0.25]),
        ("evaluation/types/heat/success", [0.125, 0.25]),
    ],
)
def test_splits_and_types_have_curves(metric, values):
    record = make_metrics(1, evaluation_before=of_splits(0.25), evaluation=of_splits(0.5))
    assert full_name(metric) == metric
    assert is_fraction(metric)
    curve = make_curve(group([record]), metric, "iteration")
    assert (curve.x.tolist(), curve.mean.tolist()) == ([0, 1], values)
    assert draw_curves([group([record])], [metric], suffix=".svg")
    with pytest.raises(UsageError, match=r"have no 'evaluation/types/heet/success' .did you mean .*heat"):
        make_curve(group([record]), "evaluation/types/heet/success", "iteration")


def test_missing_metrics():
    with pytest.raises(UsageError, match=r"grpo-e-m-0 was never evaluated"):
        make_curve(group(make_run(2)), "evaluation/success", "iteration")
    with pytest.raises(UsageError, match=r"grpo-e-m-1 has no 'value_loss'"):
        make_curve(group(make_run(2, value_loss=1.0), make_run(2)), "value_loss", "iteration")
    with pytest.raises(UsageError, match=r"no iteration in common"):
        make_curve(group(of("kl", 1.0, math.nan), of("kl", math.nan, 1.0)), "kl", "iteration")
