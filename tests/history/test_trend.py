"""How far success has come, and what is said when it is gone."""

from dataclasses import replace

import pytest

from agentgym.history.metrics import Evaluated
from agentgym.history.trend import Trend
from tests.iterations import make_metrics


def trend(*success):
    result = Trend()
    for iteration, each in enumerate(success, start=1):
        result.add(iteration, each)
    return result


@pytest.mark.parametrize(
    ("success", "said"),
    [
        ([0.0] * 12, "none was won at any time: begin with a model"),
        (
            [0.02, 0.03, *[0.0] * 10],
            "3% were won at best, none lately, so that exploration ended too early: raise",
        ),
        ([0.1, 0.5, *[0.75] * 20], "75% are won, a task's always or never"),
        ([0.7] * 8 + [0.2] * 20, "collapsed: 70% were won up to iteration 5, less than half of that since"),
        ([0.7] * 8 + [0.0] * 20, "collapsed: 70%"),
    ],
)
def test_why_nothing_is_left_to_learn_from(success, said):
    assert said in trend(*success).why_alike


def evaluated(*success, clipped):
    result, said = Trend(), []
    for iteration, each in enumerate(success):
        found = Evaluated(episodes=64, success=each, score=each)
        parts = {"evaluation": found} if iteration else {"evaluation_before": found}
        numbers = {"clip_fraction": clipped, **parts}
        if result.follow(replace(make_metrics(iteration or 1, success=0.0), **numbers)):
            said.append(iteration)
    return result, said


def test_an_evaluation_lost_to_a_large_update_is_a_collapse_however_little_was_won():
    found, said = evaluated(0.094, 0.05, 0.016, 0.0, clipped=0.38)
    assert said == [2]  # named once
    assert found.collapse == (
        "evaluation has collapsed: 9.4% were won at first, 0.0% after iteration 3, and up to 38% of an "
        "update's terms clipped: lower learner.learning_rate, or raise warmup"
    )
    assert found.collapse in found.why_alike
    assert evaluated(0.094, 0.016, clipped=0.1)[1] == []  # not by large updates
    assert evaluated(0.094, 0.016, 0.094, 0.016, clipped=0.38)[1] == [1, 3]


def test_a_collapse_is_over_when_success_is_back():
    assert trend(*[0.6] * 5, *[0.0] * 5).collapse
    assert not trend(*[0.6] * 5, *[0.0] * 5, *[0.6] * 5).collapse
    assert not trend(*[0.1] * 5, *[0.0] * 5).collapse  # too little to be missed
    assert not trend(1.0, 0.0, 0.6, 0.5, 0.4, 0.5).collapse  # one lucky iteration
