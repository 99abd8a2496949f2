"""Options of advantage functions: found in signatures, checked without computing anything, and bound."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
import pytest

from agentgym.algos.compat import Compat
from agentgym.algos.options import NOT_NEGATIVE, Bounds, bind_options, check_options, options_of
from agentgym.algos.table import ALGORITHMS
from agentgym.core.arrays import Floats
from agentgym.errors import UsageError
from tests.algos.episodes import batch_of

GENTLE = Compat(penalty=0.2)


def advantage(
    batch: object,
    column: Floats | None = None,
    *,
    gamma: Annotated[float, Bounds(0, 1)] = 0.9,
    steps: Annotated[int | None, NOT_NEGATIVE] = None,
    mode: Literal["a", "b"] = "a",
    name: str = "x",
    whiten: bool = False,
    compat: Compat = GENTLE,
) -> Floats:
    raise AssertionError("options are checked without calling the function")


def test_options_are_the_plain_parameters_and_the_fields_of_records():
    names = ["gamma", "steps", "mode", "name", "whiten", "episode_stat", "singleton", "invalid_penalty"]
    found = options_of(advantage)
    assert list(found) == [*names, "penalty"]
    assert {name: option.default for name, option in found.items() if option.record} == {
        "episode_stat": "trajectory",
        "singleton": "zero",
        "invalid_penalty": "reward",
        "penalty": 0.2,
    }
    assert options_of(partial(advantage, gamma=0.5))["gamma"].default == 0.5


def test_columns_are_no_options():
    for algorithm in ALGORITHMS.values():
        assert not {"cost", "mask", "rewards", "values", "episode"} & set(algorithm.defaults)


@pytest.mark.parametrize(
    "given",
    [{"gamma": 1}, {"steps": None}, {"steps": 0}, {"mode": "b"}, {"singleton": "raw", "penalty": 0}, {}],
)
def test_good_values_pass(given):
    check_options(advantage, given, "mine")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gama": 1}, r"mine has no option 'gama' \(did you mean 'gamma'\?\); it has gamma, steps"),
        ({"gamma": "high"}, "algorithm_options.gamma is a number, such as 0.9; got 'high'"),
        ({"gamma": True}, "algorithm_options.gamma is a number"),
        ({"gamma": None}, "algorithm_options.gamma is a number"),
        ({"gamma": 1.5}, "algorithm_options.gamma must be between 0 and 1, not 1.5"),
        ({"gamma": float("nan")}, "algorithm_options.gamma must be between 0 and 1, not nan"),
        ({"steps": -1}, "algorithm_options.steps must not be negative, not -1"),
        ({"steps": 1.0}, "algorithm_options.steps is a whole number"),
        ({"mode": "c"}, "algorithm_options.mode must be one of 'a', 'b', not 'c'"),
        ({"whiten": 1}, "algorithm_options.whiten is true or false"),
        ({"singleton": "one"}, "algorithm_options.singleton must be one of 'zero', 'raw', not 'one'"),
        ({"compat": {}}, "mine has no option 'compat'"),
        ({"column": 1}, "mine has no option 'column'"),
    ],
)
def test_bad_ones_are_one_line(given, message):
    with pytest.raises(UsageError, match=message) as raised:
        check_options(advantage, given, "mine")
    assert "\n" not in str(raised.value)


def test_bound_options_go_where_they_belong():
    batch = batch_of({"states": "AB", "rewards": [0, 8]}, {"states": "A", "valid": [False]})
    grpo = ALGORITHMS["grpo"].advantage
    bound = bind_options(grpo, {"std": False, "episode_stat": "cross_steps", "penalty": 1.0})
    expected = grpo(batch, std=False, compat=Compat(episode_stat="cross_steps", penalty=1.0))
    assert np.array_equal(bound(batch), expected)
    dr_grpo = bind_options(ALGORITHMS["dr_grpo"].advantage, {"singleton": "raw"})
    assert np.array_equal(dr_grpo(batch), grpo(batch, std=False, compat=Compat(singleton="raw")))


def test_annotations_that_cannot_be_evaluated_are_named():
    def lost(batch: object, *, gamma: "Nothing" = 1.0) -> Floats: ...  # noqa: F821

    with pytest.raises(UsageError, match=r"annotations of .*lost cannot be evaluated: name 'Nothing'"):
        options_of(lost)


def test_records_of_ones_own_are_taken_apart_too():
    @dataclass(frozen=True)
    class Mine:
        bonus: Annotated[float, Bounds(0, 2)] = 1.0

    usual = Mine()

    def other(batch: object, *, mine: object = usual) -> Floats:
        return mine

    assert options_of(other)["bonus"].default == 1.0
    assert bind_options(other, {"bonus": 2.0})(None) == Mine(2.0)
