"""A bar for work inside the library that may take longer than two seconds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from agentgym.data.archives import Progress


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """Show a bar on standard error where a person can see it; yield what moves it."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
