"""Options: declared by annotations, and checked by one function.

An option is a parameter of a constructor or function, or a field of a dataclass. Its annotation declares its
values: bool, int, float, str, a ``Literal``, any of them or None; ``Annotated`` with `Bounds` gives a number
its range. Options of other types are checked where they are used.
"""

from __future__ import annotations

import inspect
import math
import numbers
import sys
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass
from functools import cache, partial
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Self,
    TypeAlias,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from agentgym.errors import UsageError, nearest


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number by type: an int or NumPy's, but no bool and no float."""
    return type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))


_KINDS: Mapping[Any, tuple[str, Callable[[Any], bool]]] = {
    bool: ("true or false", lambda value: isinstance(value, bool)),
    int: ("a whole number", is_whole),
    float: ("a number", lambda value: isinstance(value, numbers.Real) and not isinstance(value, bool)),
    str: ("a string", lambda value: isinstance(value, str)),
}
"""Plain type -> what its values are called, and whether a value is one."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Range of a number, for ``Annotated``; infinity is always out of range.

    Example:
        >>> Bounds(0, 1).check("gamma", 2.0)
        Traceback (most recent call last):
        agentgym.errors.UsageError: gamma must be a number from 0 to 1, got 2.0
    """

    low: float
    high: float | None = None
    """Upper bound; None for no bound."""
    open_below: bool = False
    """Whether ``low`` itself is out of range."""
    open_above: bool = False
    """Whether ``high`` itself is out of range."""

    def check(self, name: str, value: Any, kind: str = "a number") -> None:
        """Raise a UsageError that names the range unless a number is in it."""
        high = math.inf if self.high is None else self.high
        above = value > self.low if self.open_below else value >= self.low
        below = value < high if self.open_above or self.high is None else value <= high
        if not (above and below):
            raise UsageError(f"{name} must be {kind} {self._range()}, got {value!r:.60}")

    def _range(self) -> str:
        if self.high is not None and not (self.open_below or self.open_above):
            return f"from {self.low:g} to {self.high:g}"
        if math.isinf(self.low):
            return "that is finite"
        low = f"above {self.low:g}" if self.open_below else f"of at least {self.low:g}"
        if self.high is None:
            return low
        return f"{low} and {'below' if self.open_above else 'at most'} {self.high:g}"


UNIT_INTERVAL = Bounds(0, 1)
POSITIVE_UNIT = Bounds(0, 1, open_below=True)
NOT_NEGATIVE = Bounds(0)

PositiveInt: TypeAlias = Annotated[int, Bounds(1)]
NonNegativeInt: TypeAlias = Annotated[int, NOT_NEGATIVE]
PositiveFloat: TypeAlias = Annotated[float, Bounds(0, open_below=True)]
NonNegativeFloat: TypeAlias = Annotated[float, NOT_NEGATIVE]
FiniteFloat: TypeAlias = Annotated[float, Bounds(-math.inf, open_below=True)]


class Values(NamedTuple):
    """Values that an annotation declares."""

    kinds: list[Any]
    """Plain types."""
    choices: list[object]
    bounds: Bounds | None
    none: bool
    """Whether None is a value."""
    plain: bool
    """Whether these are all."""

    @classmethod
    def of(cls, kind: Any) -> Self:
        """Read an annotation."""
        parts = list(_parts(kind))
        kinds = [part for part in parts if isinstance(part, type) and part in _KINDS]
        literals = [part for part in parts if get_origin(part) is Literal]
        bounds = [part for part in parts if isinstance(part, Bounds)]
        none = type(None) in parts
        return cls(
            kinds,
            [choice for part in literals for choice in get_args(part)],
            bounds[0] if bounds else None,
            none,
            len(parts) == len(kinds) + len(literals) + len(bounds) + none,
        )

    def check(self, name: str, value: object, where: str = "") -> None:
        """Raise a UsageError that names the values unless this is one of them."""
        kinds, choices, bounds, none, plain = self
        if not plain or (value is None and none) or (kinds and _is_one_of(value, choices)):
            return
        if not kinds:
            return check_choice(name, value, (*choices, None) if none else choices, where=where)
        title = " or ".join([*(_KINDS[each][0] for each in kinds), *map(repr, choices)])
        if not any(_KINDS[each][1](value) for each in kinds):
            raise UsageError(f"{where}{name} must be {title}{' or None' if none else ''}, got {value!r:.60}")
        if bounds is not None:
            bounds.check(where + name, value, title)


def _parts(kind: Any) -> Iterator[Any]:
    """Yield the types and bounds that an annotation is made of."""
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from (mark for mark in args[1:] if isinstance(mark, Bounds))
        yield from _parts(args[0])
    elif origin in (Union, types.UnionType):
        for each in args:
            yield from _parts(each)
    else:
        yield kind


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a constructor, a function or a record."""

    name: str
    values: Values = Values.of(Any)  # noqa: RUF009 (a tuple)
    default: Any = inspect.Parameter.empty
    record: str | None = None
    """The parameter whose field it is; None for a parameter of its own."""

    def check(self, value: object, where: str = "") -> None:
        """Raise a UsageError that names the values unless ``value`` is the default or one of them."""
        if value is not self.default:
            self.values.check(self.name, value, where)


def options_of(creator: Callable[..., Any], *, lenient: bool = False) -> Mapping[str, Option]:
    """Return the arguments of a creator; a class that takes ``**options`` adds its base classes'.

    An annotation that cannot be evaluated is `Any`; of a function it is a `UsageError` unless ``lenient``.

    Example:
        >>> class Base:
        ...     def __init__(self, *, split="train"): ...
        >>> class Derived(Base):
        ...     def __init__(self, *, scale=1, **options): ...
        >>> list(options_of(Derived))
        ['scale', 'split']
    """
    return _options_of(cast(Any, creator), lenient or inspect.isclass(creator))


@cache
def _options_of(creator: Callable[..., Any], lenient: bool) -> Mapping[str, Option]:
    found: dict[str, Option] = {}
    constructors = [creator]
    if inspect.isclass(creator):
        constructors = [vars(base)["__init__"] for base in creator.__mro__ if "__init__" in vars(base)]
    for made_by in constructors:
        hints = _hints(creator if is_dataclass(creator) else made_by, lenient=lenient)
        parameters = inspect.signature(made_by).parameters.values()
        for each in parameters:
            if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL) and each.name != "self":
                values = Values.of(hints.get(each.name, Any))
                found.setdefault(each.name, Option(each.name, values, each.default))
        if not any(each.kind is each.VAR_KEYWORD for each in parameters):
            break  # no **kwargs: no base class receives options
    return types.MappingProxyType(found)


def _hints(creator: Any, *, lenient: bool) -> dict[str, Any]:
    while isinstance(creator, partial):
        creator = creator.func
    failures = (AttributeError, NameError, SyntaxError, TypeError)
    try:
        return get_type_hints(creator, include_extras=True)
    except failures as error:
        if not lenient:
            raise UsageError(
                f"the annotations of {creator.__module__}.{creator.__qualname__} cannot be evaluated: "
                f"{error}; import their names when the module is imported"
            ) from error
    found: dict[str, Any] = {}
    names = getattr(sys.modules.get(creator.__module__), "__dict__", {})
    for name, annotation in getattr(creator, "__annotations__", {}).items():
        single = types.SimpleNamespace(__annotations__={name: annotation})
        with suppress(*failures):  # a name that type checkers alone import hides no other option
            found |= get_type_hints(single, names, include_extras=True)
    return found


def check_options(given: Mapping[str, Any], known: Mapping[str, Option], where: str = "") -> None:
    """Raise a UsageError that names the fix unless every option is known, with a value that it can have."""
    for name, value in given.items():
        if name not in known:
            raise UsageError(
                f"{where}unknown option {name!r}{nearest(name, known)}; known: {', '.join(known)}"
            )
        known[name].check(value, where)


def check_fields(record: Any, where: str = "") -> None:
    """Raise a UsageError unless the fields of a dataclass have values that their annotations declare."""
    for name, option in options_of(type(record)).items():
        option.values.check(name, getattr(record, name), where)


def check_choice(name: str, value: object, choices: Any, other: str = "", where: str = "") -> None:
    """Raise a UsageError with the nearest choice unless ``value`` is one of them, or of a ``Literal``'s.

    ``where`` begins the message; ``other`` ends it: what else there is to write.
    """
    known = get_args(choices) if get_origin(choices) is Literal else tuple(choices)
    if not _is_one_of(value, known):
        words = [str(choice) for choice in known]
        given = f"{value!r:.60}{nearest(str(value)[:60], words)}"
        raise UsageError(f"{where}unknown {name} {given}; choose one of {', '.join(words)}{other}")


def _is_one_of(value: object, choices: Iterable[object]) -> bool:
    """Return whether a value is a choice; True is not 1."""
    of_type = (each for each in choices if isinstance(value, type(each)) and value == each)
    return any(isinstance(value, bool) == isinstance(each, bool) for each in of_type)


def check_reset_options(options: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the options of a reset, empty for None."""
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise UsageError(
            f"reset options are a dict with keys of {', '.join(known)}, got a {type(options).__name__}"
        )
    for option in options:
        if option not in known:
            raise UsageError(
                f"unknown reset option {option!r:.60}{nearest(option, known)}; known: {', '.join(known)}"
            )
    return options


def check_seed(seed: Any) -> int | None:
    """Return a random seed as a plain int, None for None."""
    if seed is None:
        return None
    if not is_whole(seed) or seed < 0:
        raise UsageError(f"a seed is a whole number of at least 0, or None, got {seed!r:.60}")
    return int(seed)


def check_rollout(rollout: Any) -> int:
    """Return the index of an attempt as a plain int, 0 for None."""
    if rollout is None:
        return 0
    if not is_whole(rollout) or rollout < 0:
        raise UsageError(f"a rollout is a whole number of at least 0, or None, got {rollout!r:.60}")
    return int(rollout)


def check_max_steps(limit: object) -> int | None:
    """Return a step limit, or None for the default."""
    if limit is None or (isinstance(limit, int) and limit >= 1 and limit is not True):
        return limit  # suites and the command line pass unchecked values
    raise UsageError(f"max_steps must be at least 1 and whole, got {limit!r}")


def reset_request(options: Any, known: tuple[str, ...], seed: Any) -> tuple[str | None, int, int | None]:
    """Return the task's name, the rollout and the seed of a reset."""
    given = check_reset_options(options, known)
    return given.get("task"), check_rollout(given.get("rollout")), check_seed(seed)
