"""Packages of extras: imported where they are needed, with an error that says how to get them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agentgym.types import UsageError


def load(module: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: its full name.
        extra: what installs it.
        purpose: what needs it, as the subject of a sentence.

    Raises:
        UsageError: its package, or one that the package itself needs, is not installed.

    Example:
        >>> load("no_such_package.part", "plot", "drawing curves")
        Traceback (most recent call last):
        agentgym.types.UsageError: drawing curves needs no_such_package: pip install 'agentgym-suite[plot]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        package = (error.name or module).partition(".")[0]
        raise UsageError(f"{purpose} needs {package}: pip install 'agentgym-suite[{extra}]'") from error
