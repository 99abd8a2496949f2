"""Heartbeats among ranks: a process whose neighbour has died or hangs ends, so that a launcher can act.

Ranks wait for each other for as long as one plays. ``torchrun`` notices a process that dies, but neither one
that hangs nor a machine that is gone. So each rank counts up a number in the store that ranks share, and
looks at the next one's; ``torchrun --max-restarts`` begins again with the ranks that are left.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread

from torch._C._distributed_c10d import Store

BEAT = 5.0
"""Seconds between heartbeats."""

SILENCE = 45
"""Seconds without a heartbeat of the next rank after which a process ends."""

_TURN = 1.0
"""Seconds between checks for silence."""

_OVER = 1 << 40
"""Offset of the heartbeats of a rank that has finished."""


def _end(neighbour: int) -> None:
    sys.stderr.write(
        f"rank {neighbour} has not been heard of for {SILENCE} seconds: this process ends, so that torchrun "
        "--max-restarts can resume with the ranks that are left\n"
    )
    sys.stderr.flush()
    os._exit(1)  # not sys.exit: the main thread may be waiting for that rank


@contextmanager
def heartbeats(store: Store, rank: int, size: int, *, end: Callable[[int], None] = _end) -> Iterator[None]:
    """Send heartbeats, and watch the next rank's, until the context is left.

    Nothing else may wait on this client of ``store``. ``end`` is called once with the next rank where its
    heartbeats have stopped; ``size`` is the number of ranks.
    """
    neighbour, over = (rank + 1) % size, Event()
    silent = 0.0

    def beat() -> None:
        nonlocal silent
        with suppress(RuntimeError):  # a vanished store counts as silence
            first = last = store.add(f"beats/{neighbour}", 0)
            while not over.wait(BEAT):
                store.add(f"beats/{rank}", 1)
                now = store.add(f"beats/{neighbour}", 0)
                if now != last or now - first >= _OVER:
                    last, silent = now, 0.0

    def count() -> None:
        nonlocal silent
        # counts turns, not time: a machine that slept has missed beats, and a vanished store may never answer
        while not over.wait(_TURN):
            silent += _TURN
            if silent > SILENCE:
                end(neighbour)
                return

    threads = [Thread(target=each, name="heartbeats", daemon=True) for each in (beat, count)]
    for thread in threads:
        thread.start()
    try:
        yield
        with suppress(RuntimeError):
            store.add(f"beats/{rank}", _OVER)
    finally:  # the beats stop after a failure, too, so that the other ranks do not wait forever
        over.set()
