"""Checks of constructor options."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import UsageError, nearest


def check_choice(name: str, value: object, known: Sequence[object]) -> None:
    """Raise a UsageError with the nearest choice unless ``value`` is one of those known."""
    if value not in known:
        words = [str(each) for each in known]
        raise UsageError(
            f"unknown {name} {value!r}{nearest(str(value), words)}; choose one of {', '.join(words)}"
        )


def check_text(name: str, value: object) -> None:
    """Raise a UsageError unless ``value`` is a string."""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a string, got {value!r}")


def check_count(name: str, value: object, *, least: int) -> None:
    """Raise a UsageError unless ``value`` is a whole number, ``least`` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} must be a whole number, at least {least}, got {value!r}")
