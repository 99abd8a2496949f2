"""Constructor options: their names, one-line errors for unknown ones, and checks of their values."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, cast

from agentgym.errors import UsageError, nearest


def options_of(creator: Callable[..., Any]) -> tuple[str, ...]:
    """Return the names of a creator's arguments; a class that takes ``**options`` adds its base classes'.

    Example:
        >>> class Base:
        ...     def __init__(self, *, split="train"): ...
        >>> class Derived(Base):
        ...     def __init__(self, *, scale=1, **options): ...
        >>> options_of(Derived)
        ('scale', 'split')
    """
    return _options_of(cast(Any, creator))


@cache
def _options_of(creator: Callable[..., Any]) -> tuple[str, ...]:
    names: list[str] = []
    for made_by in _constructors(creator):
        parameters = inspect.signature(made_by).parameters.values()
        named = [p.name for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        names += [name for name in named if name not in (*names, "self")]
        if not any(p.kind is p.VAR_KEYWORD for p in parameters):
            break  # it passes nothing on
    return tuple(names)


def check_options(given: Iterable[str], known: Iterable[str], where: str = "") -> None:
    """Raise a UsageError that names the nearest option unless every one ``given`` is ``known``."""
    names = tuple(known)
    for option in given:
        if option not in names:
            raise UsageError(
                f"{where}unknown option {option!r}{nearest(option, names)}; known: {', '.join(names)}"
            )


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


def is_whole(value: Any) -> bool:
    """Return whether a value is a whole number by type: an int or NumPy's, but no bool and no float."""
    return type(value) is int or (isinstance(value, numbers.Integral) and not isinstance(value, bool))


def _constructors(creator: Callable[..., Any]) -> list[Callable[..., Any]]:
    if not inspect.isclass(creator):
        return [creator]
    return [vars(base)["__init__"] for base in inspect.getmro(creator) if "__init__" in vars(base)]


def check_max_steps(limit: object) -> int | None:
    """Return a step limit, or None for the default."""
    if limit is None or (isinstance(limit, int) and limit >= 1 and limit is not True):
        return limit  # suites and the command line pass what they were given
    raise UsageError(f"max_steps must be at least 1 and whole, got {limit!r}")


def check_render_mode(mode: object, known: Sequence[str]) -> None:
    """Refuse a render mode that an environment does not have; None is no rendering."""
    if mode is not None and mode not in known:
        raise UsageError(f"unknown render_mode {mode!r}; choose one of {', '.join(known)}")


def reset_request(options: Any, known: tuple[str, ...], seed: Any) -> tuple[str | None, int, int | None]:
    """Return the task's name, the rollout and the seed of a reset."""
    given = check_reset_options(options, known)
    return given.get("task"), check_rollout(given.get("rollout")), check_seed(seed)
