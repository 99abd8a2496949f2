"""The directories that data and caches live in."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from agentgym.errors import MissingDataError, UsageError
from agentgym.suites import DataSource

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
    """Return the directory of what can be made anew: ``$AGENTGYM_CACHE``, else the user's cache directory.

    It need not exist.
    """
    return _directory(CACHE_VARIABLE, "user_cache_path")


def find(name: str, source: DataSource | None = None) -> Path:
    """Return the path of official data.

    Args:
        name: a file or folder relative to the data directory, with ``/`` between its parts, for
            example ``"sokoban/medium/valid"``.
        source: that it belongs to; names what to run where it is missing.

    Raises:
        UsageError: ``name`` leads out of the data directory.
        MissingDataError: nothing is there; the message says what to run.
    """
    parts = PurePosixPath(name).parts
    if not parts or ".." in parts or PurePosixPath(name).is_absolute():
        raise UsageError(f"name data relative to the data directory, like 'sokoban/medium'; got {name!r}")
    directory = data_directory()
    path = directory.joinpath(*parts)
    if path.exists():
        return path
    remedy = f"set {DATA_VARIABLE} to the folder that has {parts[0]!r}"
    if source is not None:
        remedy = f"run `agentgym data import {source.name} PATH` on a copy of {source.upstream}, or {remedy}"
    raise MissingDataError(f"no data {name!r} in {directory}: {remedy}")


def _directory(variable: str, default: str) -> Path:
    chosen = os.environ.get(variable)
    if chosen:
        return Path(chosen).expanduser()
    import platformdirs  # only where no variable is set

    path: Path = getattr(platformdirs, default)("agentgym", appauthor=False)
    return path
