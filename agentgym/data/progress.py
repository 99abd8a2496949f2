"""A bar for work inside the library that may take longer than two seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentgym.data.archives import Progress


@contextmanager
def progress_bar(title: str, *, transfer: bool = False) -> Iterator[Progress]:
    """Show a bar on standard error where a person can see it; yield what moves it.

    ``transfer``: whether the amounts are bytes that come over a network, so that the bar shows their rate.
    """
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bars

    columns = (
        TextColumn(title),
        BarColumn(None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns if transfer else (), console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(title, total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def part_of(progress: Progress, before: int, total: int) -> Callable[[int], None]:
    """Return a function that reports the bytes read of one file, after ``before`` of ``total`` of others."""
    return lambda read: progress(before + read, total)
