"""The user's folders that data and caches live in."""

from __future__ import annotations

import os
from pathlib import Path

from agentgym.errors import UsageError

DATA_VARIABLE = "AGENTGYM_DATA"
"""Environment variable that names the data directory."""

CACHE_VARIABLE = "AGENTGYM_CACHE"
"""Environment variable that names the cache directory."""


def data_directory() -> Path:
    """Return the directory of official data: ``$AGENTGYM_DATA``, else the user's data directory.

    It need not exist.
    """
    return _directory(DATA_VARIABLE, "user_data_path")


def cache_directory() -> Path:
    """Return the cache: ``$AGENTGYM_CACHE``, else the user's cache directory.

    It need not exist.
    """
    return _directory(CACHE_VARIABLE, "user_cache_path")


def _directory(variable: str, default: str) -> Path:
    chosen = os.environ.get(variable)
    try:
        if chosen:
            return Path(chosen).expanduser()
        import platformdirs  # only where no variable is set

        path: Path = getattr(platformdirs, default)("agentgym", appauthor=False)
    except RuntimeError as error:
        raise UsageError(f"no home folder is known: set {variable} to a folder by its full path") from error
    if "~" in path.parts[:1]:  # platformdirs leaves the ~ of a user without a home as it is
        raise UsageError(f"no home folder is known: set {variable} to a folder by its full path")
    return path
