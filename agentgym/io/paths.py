"""The user's folders that data and caches live in."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from agentgym.errors import UsageError

DATA_VARIABLE = "AGENTGYM_DATA"
"""Environment variable that names the data directory."""

CACHE_VARIABLE = "AGENTGYM_CACHE"
"""Environment variable that names the cache directory."""


def data_directory() -> Path:
    """Return the directory of official data, ``$AGENTGYM_DATA`` or the user's own; it need not exist."""
    return _directory(DATA_VARIABLE, "user_data_path")


def cache_directory() -> Path:
    """Return the cache, ``$AGENTGYM_CACHE`` or the user's own; it need not exist."""
    return _directory(CACHE_VARIABLE, "user_cache_path")


def shipped_folder(name: str) -> Path:
    """Return ``indexes`` or ``trainers``: within an installed package, or beside it in a checkout."""
    package = Path(__file__).parents[1]
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise UsageError(f"{package / name} is missing: install agentgym-suite again")


def scratch_directory(folder: Path) -> Path:
    """Make a folder of the cache and return it, or a new temporary one where it cannot be written.

    The temporary one is removed when the process ends.
    """
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    made = tempfile.mkdtemp(prefix="agentgym-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def _directory(variable: str, default: str) -> Path:
    chosen = os.environ.get(variable)
    try:
        if chosen:
            return Path(chosen).expanduser()
        import platformdirs  # only where no variable is set

        path: Path = getattr(platformdirs, default)("agentgym", appauthor=False)
    except RuntimeError as error:
        raise UsageError(f"no home folder is known: set {variable} to a folder by its full path") from error
    if "~" in path.parts[:1]:  # platformdirs does not expand the ~ of a user without a home
        raise UsageError(f"no home folder is known: set {variable} to a folder by its full path")
    return path
