"""Options: annotations of constructors, functions and dataclasses declare them, one function checks them."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from agentgym.core.options import Bounds, Option, PositiveInt, Values, check_choice, check_fields, options_of
from agentgym.errors import UsageError
from agentgym.registration import ENVIRONMENTS, class_of

CHECKED_BY_THE_SUITE = {"dataset", "dim_room", "judge", "partner", "selector", "task_types"}
"""Options that are more than words and numbers."""


@pytest.mark.parametrize("env_id", ENVIRONMENTS)
def test_constructors_declare_the_values_of_their_options(env_id):
    options = options_of(class_of(env_id))
    assert {name for name, option in options.items() if not option.values.plain} <= CHECKED_BY_THE_SUITE
    for option in options.values():
        option.values.check(option.name, option.default)


@pytest.mark.parametrize(
    ("kind", "good", "bad", "message"),
    [
        (bool, [True], [1, "yes", None], "x must be true or false, got"),
        (int, [-1, np.int64(3)], [True, 1.0, "1"], "x must be a whole number, got"),
        (float, [1, 0.5, np.float32(2), float("inf")], [True, "1"], "x must be a number, got"),
        (str, ["", "a"], [1, ["a"]], "x must be a string, got"),
        (int | None, [None, 3], ["a"], "x must be a whole number or None, got 'a'"),
        (Literal["on", "off"], ["on"], [["on"], None], r"unknown x .*; choose one of on, off$"),
        (
            Literal["on"] | None,
            [None],
            ["off"],
            "unknown x 'off'; choose one of on, None",
        ),
        (Literal[0, 1], [0, 1], [True, 1.0, 2], "unknown x .*; choose one of 0, 1"),
        (PositiveInt, [1], [0, -1], "x must be a whole number of at least 1, got"),
        (PositiveInt | Literal["all"], [2, "all"], ["al"], "x must be a whole number or 'all', got 'al'"),
        (PositiveInt | None, [None], [0], "x must be a whole number of at least 1, got 0"),
        (
            Annotated[float, Bounds(0, 1)],
            [0, 1.0],
            [1.5, float("nan")],
            "x must be a number from 0 to 1, got",
        ),
        (Annotated[float, Bounds(0)], [0, 1e300], [float("inf"), -0.1], "x must be a number of at least 0"),
        (Annotated[float, Bounds(0, 1, True, True)], [0.5], [0, 1], "x must be a number above 0 and below 1"),
        (Annotated[float, Bounds(0, 1, True)], [1], [0], "x must be a number above 0 and at most 1"),
        (tuple[int, int] | str, ["a", 3, None], [], ""),
        (Any, [object()], [], ""),
    ],
)
def test_annotations_say_what_is_refused(kind, good, bad, message):
    for value in good:
        Values.of(kind).check("x", value)
    for value in bad:
        with pytest.raises(UsageError, match=message) as refused:
            Values.of(kind).check("x", value)
        assert "\n" not in str(refused.value)


def test_a_default_is_a_value_whatever_the_annotation():
    def function(*, size: int = None): ...  # noqa: RUF013

    assert options_of(function)["size"].check(None) is None
    with pytest.raises(UsageError, match="here: size must be a whole number"):
        options_of(function)["size"].check("3", "here: ")


def test_annotations_of_classes_that_cannot_be_evaluated_declare_anything():
    class Lost:
        def __init__(self, *, size: "Nothing" = 1): ...  # noqa: F821

    assert options_of(Lost) == {"size": Option("size", default=1)}
    assert options_of(Lost)["size"].check("any") is None


def test_dataclasses_check_their_fields():
    @dataclass
    class Pair:
        size: PositiveInt
        kind: Literal["a", "b"] = "a"

    check_fields(Pair(2, "b"))
    for pair, message in ((Pair(0), "pair: size must be"), (Pair(1, "c"), "pair: unknown kind 'c'; choose")):
        with pytest.raises(UsageError, match=message):
            check_fields(pair, "pair: ")


def test_choices_may_end_with_another_way():
    with pytest.raises(UsageError, match=r"^unknown engine 'x'; choose one of a, b, or remote:URL$"):
        check_choice("engine", "x", ("a", "b"), ", or remote:URL")
