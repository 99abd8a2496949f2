"""Turns of clients at what serves one message at a time: each client gets as much time as the others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Hashable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Waiting: TypeAlias = Generator[Future[Any], None, T]
"""Handler of a message: yields the future that it waits for, and continues when that is done."""
Away: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""Context manager of a client that waits, `Turns.away`."""

CLIENTS = 4_096
"""Most clients whose shares are counted."""


class Turns:
    """Fair queue by start times (Goyal, Vin and Cheng 1996, https://doi.org/10.1145/248156.248171).

    A turn begins, in a time common to all clients, where its client's last one ended, or now; it ends later
    by the seconds that it takes. The earliest begin is next. So a client delays another by one turn of its
    own, however many messages it sends.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter):
        """Begin without clients; ``clock`` gives seconds."""
        self._clock = clock
        self._now = self._began = 0.0
        self._ends: dict[Hashable, float] = {}
        self._waiting: list[tuple[Hashable, asyncio.Future[None]]] = []
        self._taken = False

    @asynccontextmanager
    async def turn(self, client: Hashable) -> AsyncIterator[None]:
        """Wait for a client's turn: it lasts as long as the block, and until the event loop has gone on."""
        await self._take(client)
        try:
            yield
        finally:
            self._end(client)

    @asynccontextmanager
    async def away(self, client: Hashable) -> AsyncIterator[None]:
        """Give up a client's turn for a block, and wait for the next one after it."""
        self._end(client)
        try:
            yield
        finally:
            await self._take(client)

    async def _take(self, client: Hashable) -> None:
        if self._taken:
            mine = asyncio.get_running_loop().create_future()
            self._waiting.append((client, mine))
            await mine
        self._taken = True
        self._now, self._began = self._begin(client), self._clock()

    def _end(self, client: Hashable) -> None:
        if len(self._ends) >= CLIENTS:
            self._ends.clear()
        self._ends[client] = self._now + self._clock() - self._began
        asyncio.get_running_loop().call_soon(self._pass_on)

    def _begin(self, client: Hashable) -> float:
        return max(self._now, self._ends.get(client, 0.0))

    def _pass_on(self) -> None:
        """Give the turn to the client whose turn begins first; of several, to the one that came first."""
        self._waiting = [each for each in self._waiting if not each[1].done()]  # cancelled ones are dropped
        self._taken = bool(self._waiting)
        if self._taken:
            chosen = min(self._waiting, key=lambda each: self._begin(each[0]))
            self._waiting.remove(chosen)
            chosen[1].set_result(None)
