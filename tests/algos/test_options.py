"""Options of advantage functions: found in signatures, checked without computing anything, and bound."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal

import numpy as np
import pytest

from agentgym.algos.compat import Compat
from agentgym.algos.options import advantage_options, bind_options
from agentgym.algos.table import ALGORITHMS
from agentgym.core.arrays import Floats
from agentgym.core.options import NOT_NEGATIVE, Bounds, check_options
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
    found = advantage_options(advantage)
    assert list(found) == [*names, "penalty"]
    assert {name: option.default for name, option in found.items() if option.record} == {
        "episode_stat": "trajectory",
        "singleton": "zero",
        "invalid_penalty": "reward",
        "penalty": 0.2,
    }
    assert advantage_options(partial(advantage, gamma=0.5))["gamma"].default == 0.5


def test_columns_are_no_options():
    for algorithm in ALGORITHMS.values():
        assert not {"cost", "mask", "rewards", "values", "episode"} & set(algorithm.defaults)


@pytest.mark.parametrize(
    "given",
    [{"gamma": 1}, {"steps": None}, {"steps": 0}, {"mode": "b"}, {"singleton": "raw", "penalty": 0}, {}],
)
def test_good_values_pass(given):
    check_options(given, advantage_options(advantage), "mine: ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"gama": 1}, r"mine: unknown option 'gama' \(did you mean 'gamma'\?\); known: gamma, steps"),
        ({"gamma": "high"}, "mine: gamma must be a number, got 'high'"),
        ({"gamma": True}, "mine: gamma must be a number, got True"),
        ({"gamma": None}, "mine: gamma must be a number, got None"),
        ({"gamma": 1.5}, "mine: gamma must be a number from 0 to 1, got 1.5"),
        ({"gamma": float("nan")}, "mine: gamma must be a number from 0 to 1, got nan"),
        ({"steps": -1}, "mine: steps must be a whole number of at least 0, got -1"),
        ({"steps": 1.0}, "mine: steps must be a whole number or None, got 1.0"),
        ({"mode": "c"}, "mine: unknown mode 'c'; choose one of a, b"),
        ({"whiten": 1}, "mine: whiten must be true or false, got 1"),
        ({"singleton": "one"}, "mine: unknown singleton 'one'; choose one of zero, raw"),
        ({"compat": {}}, "mine: unknown option 'compat'"),
        ({"column": 1}, "mine: unknown option 'column'"),
    ],
)
def test_bad_ones_are_one_line(given, message):
    with pytest.raises(UsageError, match=message) as raised:
        check_options(given, advantage_options(advantage), "mine: ")
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
        advantage_options(lost)


def test_records_of_ones_own_are_taken_apart_too():
    @dataclass(frozen=True)
    class Mine:
        bonus: Annotated[float, Bounds(0, 2)] = 1.0

    usual = Mine()

    def other(batch: object, *, mine: object = usual) -> Floats:
        return mine

    assert advantage_options(other)["bonus"].default == 1.0
    assert bind_options(other, {"bonus": 2.0})(None) == Mine(2.0)
