"""The consoles that commands write to."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_OF_FILES = 160
"""Columns of tables that no terminal limits."""


def open_console(width: int = WIDTH_OF_FILES) -> Console:
    """Return the console of a command's results: standard output.

    ``width``: its columns where it is no terminal, and ``COLUMNS`` does not say.
    """
    from rich.console import Console

    bounded = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdecimal()
    return Console(highlight=False, width=None if bounded else width)


def open_progress_console() -> Console:
    """Return the console of progress bars and remarks: standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def is_interactive() -> bool:
    """Return whether a person is at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()
