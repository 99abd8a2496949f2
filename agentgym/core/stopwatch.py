"""Stopwatch: wall-clock seconds by stage, measured where the work is done.

    with measured() as watch:
        train()  # somewhere inside: with stage("advantage"): ...
    watch.seconds["advantage"]

The time of a nested stage is subtracted from the outer one, so that seconds add up. Outside `measured`,
stages cost nothing; other threads are not measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from time import perf_counter


@dataclass(slots=True)
class Stopwatch:
    """Seconds by the name of a stage.

    Example:
        >>> with measured() as watch, stage("outer"), stage("inner"):
        ...     pass
        >>> sorted(watch.seconds)
        ['inner', 'outer']
    """

    seconds: dict[str, float] = field(default_factory=dict)
    _inner: float = 0.0
    """Seconds of the stages nested in the running one, which are subtracted from it."""


_CURRENT: ContextVar[Stopwatch | None] = ContextVar("stopwatch", default=None)


@contextmanager
def measured() -> Iterator[Stopwatch]:
    """Measure the stages within, until the context is left."""
    watch = Stopwatch()
    token = _CURRENT.set(watch)
    try:
        yield watch
    finally:
        _CURRENT.reset(token)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Add the time until the context is left to a stage; also a decorator of functions."""
    watch = _CURRENT.get()
    if watch is None:
        yield
        return
    outer, watch._inner = watch._inner, 0.0
    began = perf_counter()
    try:
        yield
    finally:
        spent = perf_counter() - began
        watch.seconds[name] = watch.seconds.get(name, 0.0) + spent - watch._inner
        watch._inner = outer + spent
