"""Options of an algorithm: the settings among its advantage function's parameters, and the values they take.

An option is a parameter with a default whose type is plain (bool, int, float, str, a ``Literal``, any of them
or None), or a field of a parameter that is a record (`agentgym.algos.compat.Compat`). ``Annotated`` with
`Bounds` gives a number its range. Other parameters are columns of data, which no configuration sets.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin, get_type_hints

from agentgym.core.arrays import Floats
from agentgym.errors import UsageError, nearest

_KINDS: Mapping[type, tuple[str, tuple[type, ...]]] = {
    bool: ("true or false", (bool,)),
    int: ("a whole number", (int,)),
    float: ("a number", (int, float)),
    str: ("a word", (str,)),
}
"""Type of an option -> what it is called, and the types of its values."""


def check_choice(name: str, value: object, choices: object) -> None:
    """Refuse a value that is not among an option's choices.

    Args:
        name: the option.
        value: what it was set to.
        choices: a ``Literal``, or a tuple of values.

    Raises:
        ValueError: names the option and its choices.
    """
    allowed = choices if isinstance(choices, tuple) else get_args(choices)
    if value not in allowed:
        listed = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{name} must be one of {listed}, not {value!r}")


@dataclass(frozen=True, slots=True)
class Bounds:
    """Range of a number, for ``Annotated``.

    Example:
        >>> Bounds(0, 1).check("gamma", 2.0)
        Traceback (most recent call last):
        ValueError: gamma must be between 0 and 1, not 2.0
    """

    low: float
    high: float | None = None
    """None for no upper bound."""
    open_below: bool = False
    """Whether ``low`` itself is out of range."""

    def check(self, name: str, value: float) -> None:
        """Refuse a number out of range, or one that is not a number.

        Raises:
            ValueError: names the option and the range.
        """
        above = value > self.low if self.open_below else value >= self.low
        if not (above and (self.high is None or value <= self.high)):
            raise ValueError(f"{name} must {self._range()}, not {value!r}")

    def _range(self) -> str:
        if self.high is None:
            return "not be negative" if self.low == 0 else f"be at least {self.low:g}"
        if self.open_below:
            return f"be in ({self.low:g}, {self.high:g}]"
        return f"be between {self.low:g} and {self.high:g}"


UNIT_INTERVAL = Bounds(0, 1)
POSITIVE_UNIT = Bounds(0, 1, open_below=True)
NOT_NEGATIVE = Bounds(0)

Discount: TypeAlias = Annotated[float, UNIT_INTERVAL]
"""Discount factor, or a mixing weight of returns."""


@dataclass(frozen=True, slots=True)
class Option:
    """One option of an advantage function."""

    name: str
    kind: Any
    """Its annotation."""
    default: Any
    record: str | None = None
    """The parameter whose field it is; None for a parameter of its own."""

    def check(self, value: object) -> None:
        """Refuse a value of another type, not among the choices, or out of range.

        Raises:
            UsageError: says what the option takes.
        """
        kinds, bounds = _taken_apart(self.kind)
        if value is None and type(None) in kinds:
            return
        try:
            (kind, *_) = (kind for kind in kinds if kind is not type(None))
            if get_origin(kind) is Literal:
                check_choice(f"algorithm_options.{self.name}", value, kind)
                return
            title, allowed = _KINDS[kind]
            if type(value) not in allowed:
                raise UsageError(
                    f"algorithm_options.{self.name} is {title}, such as {self.default!r}; got {value!r}"
                )
            if bounds is not None and isinstance(value, (int, float)):
                bounds.check(f"algorithm_options.{self.name}", value)
        except ValueError as error:
            raise UsageError(str(error)) from error


def options_of(function: Callable[..., Any]) -> dict[str, Option]:
    """Return the options of an advantage function by name, in the order of its parameters.

    Args:
        function: annotated; a ``functools.partial`` has the defaults that it sets.

    Raises:
        UsageError: its annotations cannot be evaluated.

    Example:
        >>> from agentgym.algos import grpo
        >>> {name: option.default for name, option in options_of(grpo.advantage).items()}["singleton"]
        'zero'
    """
    hints = _hints(function)
    found: dict[str, Option] = {}
    for parameter in inspect.signature(function).parameters.values():
        name, default, kind = parameter.name, parameter.default, hints.get(parameter.name)
        if default is parameter.empty:
            continue
        if is_dataclass(default) and not isinstance(default, type):
            record = _hints(type(default))
            found |= {
                field.name: Option(field.name, record[field.name], getattr(default, field.name), name)
                for field in fields(default)
            }
        elif all(each in _KINDS or get_origin(each) is Literal for each in _plain_kinds(kind)):
            found[name] = Option(name, kind, default)
    return found


def record_options(record: Any) -> dict[str, Option]:
    """Return the fields of a record as options by name; none of None.

    Args:
        record: a dataclass with defaults, such as `agentgym.algos.algorithm.Algorithm.stage_options`.
    """
    if record is None:
        return {}
    hints = _hints(type(record))
    return {
        field.name: Option(field.name, hints[field.name], getattr(record, field.name))
        for field in fields(record)
    }


def check_options(
    function: Callable[..., Any], given: Mapping[str, Any], owner: str, *, further: Any = None
) -> None:
    """Refuse options that an advantage function does not have, and values that they cannot have.

    Args:
        function: the advantage.
        given: by name.
        owner: name of the algorithm.
        further: a record whose fields are options beside the function's.

    Raises:
        UsageError: one line that names the option and the fix.
    """
    known = options_of(function) | record_options(further)
    for name, value in given.items():
        if name not in known:
            raise UsageError(
                f"{owner} has no option {name!r}{nearest(name, known)}; it has {', '.join(known)}"
            )
        known[name].check(value)


def bind_options(function: Callable[..., Floats], given: Mapping[str, Any]) -> Callable[..., Floats]:
    """Return an advantage function with its options set.

    Args:
        function: the advantage.
        given: options by name, as `check_options` accepts them.
    """
    known, defaults = options_of(function), inspect.signature(function).parameters
    bound: dict[str, Any] = {}
    for name, value in given.items():
        record = known[name].record
        if record is None:
            bound[name] = value
        else:
            bound[record] = replace(bound.get(record, defaults[record].default), **{name: value})
    return partial(function, **bound)


def _hints(function: Any) -> dict[str, Any]:
    while isinstance(function, partial):
        function = function.func
    try:
        return get_type_hints(function, include_extras=True)
    except NameError as error:
        raise UsageError(
            f"the annotations of {function.__module__}.{function.__qualname__} cannot be evaluated: "
            f"{error}; import their names when the module is imported"
        ) from error


def _taken_apart(kind: Any) -> tuple[tuple[Any, ...], Bounds | None]:
    """Return the members of a union (or the type alone), and the bounds if it has any."""
    bounds = None
    if get_origin(kind) is Annotated:
        kind, *marks = get_args(kind)
        bounds = next((mark for mark in marks if isinstance(mark, Bounds)), None)
    return (get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)), bounds


def _plain_kinds(kind: Any) -> tuple[Any, ...]:
    """Return the types that an option of this annotation takes, without None."""
    kinds, _ = _taken_apart(kind)
    return tuple(each for each in kinds if each is not type(None)) or (object,)
