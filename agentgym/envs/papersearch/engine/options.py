"""Checks of constructor options."""

from __future__ import annotations

import math
from collections.abc import Sequence

from agentgym.errors import UsageError, nearest

MAX_CALLS = 100
"""Calls that an action may be allowed to make."""


def check_choice(name: str, value: object, known: Sequence[object]) -> None:
    """Raise a UsageError with the nearest choice unless ``value`` is one of those known."""
    if not any(value is each or (type(value) is str and value == each) for each in known):
        words = [str(each) for each in known]
        raise UsageError(
            f"unknown {name} {value!r:.60}{nearest(str(value)[:60], words)}; choose one of {', '.join(words)}"
        )


def check_text(name: str, value: object) -> None:
    """Raise a UsageError unless ``value`` is a string."""
    if not isinstance(value, str):
        raise UsageError(f"{name} must be a string, got {value!r:.60}")


def check_count(name: str, value: object, *, most: int) -> None:
    """Raise a UsageError unless ``value`` is a whole number from 1 to ``most``."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise UsageError(f"{name} must be a whole number from 1 to {most}, got {value!r:.60}")


def check_cost(name: str, value: object) -> None:
    """Raise a UsageError unless ``value`` is a finite number of at least 0."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < math.inf:
        raise UsageError(f"{name} must be a number of at least 0, got {value!r:.60}")


def check_game(
    max_calls: object, costs: Sequence[object], flags: Sequence[object], actions: object, untagged: object
) -> None:
    """Refuse rules that the game cannot be played by.

    ``costs``: of a search and an expansion; ``flags``: whether scores are discrete, and whether they are
    shown.
    """
    check_count("max_calls", max_calls, most=MAX_CALLS)
    for name, value in zip(("search_cost", "expand_cost"), costs, strict=True):
        check_cost(name, value)
    for name, value in zip(("discrete", "show_scores"), flags, strict=True):
        check_choice(name, value, (True, False))
    check_choice("actions", actions, ("free", "candidates"))
    check_choice("untagged", untagged, ("end", "invalid"))
