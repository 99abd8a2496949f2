"""Official data by name, in the directory that the user keeps it in."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from agentgym.core.suite_spec import DataSource
from agentgym.data.sources import how_to_get
from agentgym.errors import MissingDataError, UsageError
from agentgym.io.paths import CACHE_VARIABLE, DATA_VARIABLE, cache_directory, data_directory

__all__ = ["CACHE_VARIABLE", "DATA_VARIABLE", "cache_directory", "data_directory", "find"]


def find(name: str, source: DataSource | None = None) -> Path:
    """Return the path of official data; `MissingDataError` says what to run.

    ``name``: relative to the data directory, with ``/`` between its parts, such as
    ``"sokoban/medium/valid"``.
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
        remedy = f"{how_to_get(source, parts[1] if len(parts) > 1 else '')}, or {remedy}"
    raise MissingDataError(f"no data {name!r} in {directory}: {remedy}")
