"""Optional packages: imported where they are needed, with an error that says how to get them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from agentgym.types import UsageError


def load(module: str, package: str, extra: str, purpose: str) -> Any:
    """Import a module of an optional package.

    Args:
        module: its name.
        package: what the package index calls the package.
        extra: that installs it.
        purpose: what needs it, as a noun.

    Raises:
        UsageError: it is not installed.

    Example:
        >>> load("no_such_module", "such", "webshop", "search")
        Traceback (most recent call last):
        agentgym.types.UsageError: search needs such: pip install 'agentgym-suite[webshop]'
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise UsageError(f"{purpose} needs {package}: pip install 'agentgym-suite[{extra}]'") from None
