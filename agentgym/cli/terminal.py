"""The consoles that commands write to."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_OF_FILES = 160
"""Width of tables in files and pipes, in columns."""


def open_console(width: int | None = None) -> Console:
    """Return the console of a command's results: standard output.

    ``width``: columns of what is laid out for the place, where that is no terminal and ``COLUMNS`` does not
    say; None for `WIDTH_OF_FILES`.
    """
    from rich.console import Console

    given = width is not None and os.environ.get("COLUMNS", "").isdecimal()
    return Console(highlight=False, width=None if given or sys.stdout.isatty() else width or WIDTH_OF_FILES)


def say(line: str) -> None:
    """Print one line of a command's results, however long it is."""
    open_console().print(line, markup=False, soft_wrap=True)


def open_progress_console() -> Console:
    """Return the console of progress bars and remarks: standard error."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def is_interactive() -> bool:
    """Return whether a person is at both ends."""
    return sys.stdin.isatty() and sys.stdout.isatty()
