"""Options of an algorithm: the settings among its advantage function's parameters.

An option is a parameter with a default and a plain type (`agentgym.core.options`), or a field of a parameter
that is a record (`agentgym.algos.compat.Compat`). Other parameters are columns of data.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Annotated, Any, TypeAlias

from agentgym.core.arrays import Floats
from agentgym.core.options import UNIT_INTERVAL, Option, options_of

Discount: TypeAlias = Annotated[float, UNIT_INTERVAL]
"""Discount factor, or a mixing weight of returns."""


def advantage_options(function: Callable[..., Any]) -> dict[str, Option]:
    """Return the options of an advantage function by name; a partial has the defaults that it sets.

    Example:
        >>> from agentgym.algos import grpo
        >>> advantage_options(grpo.advantage)["singleton"].default
        'zero'
    """
    found: dict[str, Option] = {}
    for name, option in options_of(function).items():
        if is_dataclass(option.default) and not isinstance(option.default, type):
            found |= {
                each.name: replace(each, record=name) for each in record_options(option.default).values()
            }
        elif option.default is not inspect.Parameter.empty and option.values.plain:
            found[name] = option
    return found


def record_options(record: Any) -> dict[str, Option]:
    """Return the fields of a dataclass as options by name, with its values as defaults; none of None."""
    known = {} if record is None else options_of(type(record))
    return {name: replace(option, default=getattr(record, name)) for name, option in known.items()}


def bind_options(function: Callable[..., Floats], given: Mapping[str, Any]) -> Callable[..., Floats]:
    """Return an advantage function with its options set, by name and checked."""
    known, defaults = advantage_options(function), options_of(function)
    bound: dict[str, Any] = {}
    for name, value in given.items():
        record = known[name].record
        if record is None:
            bound[name] = value
        else:
            bound[record] = replace(bound.get(record, defaults[record].default), **{name: value})
    return partial(function, **bound)
