"""Micro-batching: the queries of all connections, gathered into calls of one index."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

FoundT = TypeVar("FoundT")

MAX_QUERIES = 512
"""Most queries of a call, unless one request alone has more."""

MAX_FOUND = 32_768
"""Most passages that a call finds, unless one request alone wants more."""

WAIT = 0.004
"""Seconds to wait for further requests while there are several connections."""


class QueueFullError(Exception):
    """The queue is full, and the request is refused."""


class _PendingSearch(NamedTuple):
    queries: tuple[str, ...]
    k: int
    found: asyncio.Future[list[object]]


class MicroBatcher(Generic[FoundT]):
    """Batches waiting requests into one call of the index, in a thread of its own.

    A request that comes alone is searched for at once. What comes while the index works waits for its next
    call; and where the last call was for several requests, the next one waits a moment for more. Requests for
    different numbers of passages are never in one call, since some engines rank otherwise for another ``k``.
    """

    def __init__(
        self,
        search: Callable[[Sequence[str], int], list[FoundT]],
        *,
        waiting: int,
        most: int = MAX_QUERIES,
        most_found: int = MAX_FOUND,
        wait: float = WAIT,
    ):
        """Prepare; `start` begins.

        ``search`` is called in a thread, never twice at once, with queries and their number of passages.
        ``waiting``: queries that may wait; ``most``: queries of a call; ``most_found``: passages of a call,
        unless one request alone wants more; ``wait``: seconds to wait for further requests.
        """
        self._search = search
        self._most_waiting = waiting
        self._most, self._most_found = most, most_found
        self._wait = wait
        self._pending: deque[_PendingSearch] = deque()
        self._came = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="index")
        self._task: asyncio.Task[None] | None = None
        self.waiting = 0
        """Queries that wait now."""
        self.calls = 0
        """Calls of the index so far."""
        self.queries = 0
        """Queries that were searched for so far."""

    def start(self) -> None:
        """Begin to answer, in the event loop that runs."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="micro-batcher")

    async def close(self) -> None:
        """Answer nothing further; the call under way ends first."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for search in self._pending:
            search.found.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def search(self, queries: tuple[str, ...], k: int) -> list[FoundT]:
        """Return the hits of each query; `QueueFullError` where too many wait."""
        if self.waiting + len(queries) > self._most_waiting and self.waiting:
            raise QueueFullError
        if not queries:
            return []
        found: asyncio.Future[list[object]] = asyncio.get_running_loop().create_future()
        self._pending.append(_PendingSearch(queries, k, found))
        self.waiting += len(queries)
        self._came.set()
        return await found  # type: ignore[return-value]  # of `search`

    async def _run(self) -> None:
        together = 0
        while True:
            await self._came.wait()
            if together > 1 and self.waiting < self._most:
                await asyncio.sleep(self._wait)
            batch = self._next()
            together = len(batch)
            await self._call(batch)

    def _next(self) -> list[_PendingSearch]:
        """Take the requests of the next call: those for as many passages as the first one wants."""
        batch: list[_PendingSearch] = []
        others: list[_PendingSearch] = []
        size, k = 0, self._pending[0].k
        most = min(self._most, self._most_found // max(k, 1))
        while self._pending and (not batch or size + len(self._pending[0].queries) <= most):
            search = self._pending.popleft()
            if search.k == k:
                batch.append(search)
                size += len(search.queries)
            else:
                others.append(search)
        self._pending.extendleft(reversed(others))
        self.waiting -= size
        if not self._pending:
            self._came.clear()
        return batch

    async def _call(self, batch: list[_PendingSearch]) -> None:
        queries = [query for search in batch for query in search.queries]
        self.calls += 1
        self.queries += len(queries)
        loop = asyncio.get_running_loop()
        call = loop.run_in_executor(self._thread, self._search, queries, batch[0].k)
        await asyncio.wait([call])
        error = call.exception()
        start = 0
        for search in batch:
            stop = start + len(search.queries)
            if not search.found.done():  # already done where the client has disconnected
                if error is not None:
                    search.found.set_exception(error)
                else:
                    search.found.set_result(list(call.result()[start:stop]))
            start = stop
