"""Checks of options whose values are names."""

from __future__ import annotations

from collections.abc import Sequence

from agentgym.errors import UsageError, nearest


def check_choice(what: str, value: object, known: Sequence[str]) -> None:
    """Raise a UsageError that names the nearest value unless ``value`` is one of ``known``."""
    if not isinstance(value, str) or value not in known:
        raise UsageError(
            f"unknown {what} {value!r:.60}{nearest(str(value)[:60], known)}; choose one of {', '.join(known)}"
        )
