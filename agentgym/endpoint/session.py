"""Endpoint session: cache, ledger, budgets and prices shared by the endpoints of a run."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agentgym.endpoint.budget import BudgetMeter, EndpointBudget, Spending
from agentgym.endpoint.cache import AnswerCache, CacheMode
from agentgym.endpoint.errors import EndpointError
from agentgym.endpoint.ledger import Ledger, LedgerRow
from agentgym.endpoint.loop import LoopUser, loop_of_process
from agentgym.endpoint.prices import PriceTable
from agentgym.endpoint.replies import TokenUsage
from agentgym.endpoint.spec import EndpointSpec
from agentgym.errors import UsageError
from agentgym.io.files import make_folder


class EndpointSession:
    """A cache, a ledger, budgets and prices for every endpoint that is asked within it.

    Example:
        >>> with EndpointSession(budget=EndpointBudget(requests=100)) as session:
        ...     session is current_session()
        True
        >>> current_session() is None
        True
    """

    def __init__(
        self,
        *,
        cache: Path | None = None,
        mode: CacheMode = "off",
        ledger: Path | None = None,
        budget: EndpointBudget | None = None,
        prices: Path | None = None,
    ):
        """Set cache, ledger, budget and prices; the files are opened on entering the session.

        Args:
            cache: file of answers; needed by every mode but ``off``.
            mode: of the cache, see `agentgym.endpoint.cache.CacheMode`.
            ledger: file that a row is added to for every call.
            budget: what may be spent (default: no limits).
            prices: file of prices, see `agentgym.endpoint.prices.PriceTable.read`.

        Raises:
            UsageError: they do not go together, or the file of prices does not fit.
        """
        if mode not in ("off", "read", "write", "replay-only"):
            raise UsageError(f"no cache mode is {mode!r:.40}: use off, read, write or replay-only")
        if mode != "off" and cache is None:
            raise UsageError(f"the cache mode {mode!r} needs a file: name the cache")
        self.mode: CacheMode = mode
        self.budget = budget or EndpointBudget()
        if self.budget.dollars is not None and prices is None:
            raise UsageError("a budget in dollars needs prices: name a file of prices")
        self.prices = PriceTable() if prices is None else PriceTable.read(prices)
        self._cache_path, self._ledger_path = cache, ledger
        self._cache: AnswerCache | None = None
        self._ledger: Ledger | None = None
        self._writer: ThreadPoolExecutor | None = None
        self._process = 0
        self._meter = BudgetMeter(self.budget)
        self._close = ExitStack()
        self.endpoints: dict[str, LoopUser] = {}
        """Endpoints that were opened within the session, by spec."""
        self.calls: set[asyncio.Task[Any]] = set()
        """Calls under way. Only the loop's thread changes this and the next two attributes."""
        self._sent: set[asyncio.Task[Any] | None] = set()
        self.ending = False
        """Whether nothing more is sent."""

    @property
    def spent(self) -> Spending:
        """Requests, tokens and dollars so far, those of the session alone; answers of the cache are free."""
        return self._meter.spent

    @property
    def meter(self) -> BudgetMeter:
        """Meter of spending against the budgets."""
        return self._meter

    def cost(self, spec: EndpointSpec, usage: TokenUsage, day: str = "") -> float | None:
        """Return what tokens cost by the prices of a day (default: today), in dollars; None without a price.

        Args:
            spec: of the endpoint.
            usage: the tokens.
            day: as 2026-01-31.
        """
        price = self.prices.of(spec.url, spec.model, day or datetime.now(UTC).date().isoformat())
        return None if price is None else price.cost(usage)

    def spending(self, spec: EndpointSpec, usage: TokenUsage) -> Spending:
        """Return the amounts that a request with these tokens takes from the budgets.

        Raises:
            EndpointError: there is a budget in dollars, and no price.
        """
        cost = self.cost(spec, usage)
        if cost is None and self.budget.dollars is not None:
            raise EndpointError(
                f"a budget in dollars needs a price for {spec.model} at {spec.url}: add it to the prices"
            )
        return Spending(1, usage.prompt + usage.completion, cost or 0.0)

    def find(self, key: str) -> Mapping[str, Any] | None:
        """Return the cached value under a key; None without one, or without a cache."""
        return None if self._cache is None else self._cache.find(key)

    async def keep(self, key: str, value: Mapping[str, Any]) -> None:
        """Commit a value to the cache, in the modes that store answers.

        Raises:
            UsageError: it cannot be written.
        """
        cache = self._cache
        if cache is not None and self.mode == "write":
            await asyncio.get_running_loop().run_in_executor(self._writing_thread(), cache.keep, key, value)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Mark the task of a block as one whose request is sent, so that the session's end waits for it."""
        self.check_open()
        task = asyncio.current_task()
        self._sent.add(task)
        try:
            yield
        finally:
            self._sent.discard(task)

    def check_open(self) -> None:
        """Cancel the task that calls this, once the session ends."""
        if self.ending:
            raise asyncio.CancelledError

    def note(self, row: Callable[[], LedgerRow]) -> None:
        """Add a row to the ledger, where there is one.

        Args:
            row: returns it.
        """
        if self._ledger is not None:
            self._ledger.append(row())

    def __enter__(self) -> Self:
        """Open the files, and make this the current session.

        Raises:
            UsageError: a file cannot be opened, or the session was entered before.
        """
        if self.ending or self in _SESSIONS:
            raise UsageError("an EndpointSession is entered once: make another one")
        with ExitStack() as undo:
            if self._cache_path is not None and self.mode != "off":
                writable = self.mode == "write"
                if writable:
                    make_folder(self._cache_path.parent)
                self._cache = AnswerCache(self._cache_path, writable=writable)
                undo.callback(self._cache.close)
                undo.callback(self._end_writing)
            if self._ledger_path is not None:
                make_folder(self._ledger_path.parent)
                self._ledger = Ledger(self._ledger_path)
                undo.callback(self._ledger.close)
            self._close = undo.pop_all()
        _SESSIONS.append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the session: close its endpoints and files.

        Requests that were sent are awaited and stored, since they are paid for; others are cancelled. An
        interrupt cancels all.
        """
        with self._close:
            try:
                loop = loop_of_process()
                if loop is not None:
                    loop.submit(self._end(error is None or isinstance(error, Exception))).result()
            finally:
                # current until here, so that requests from callbacks of the last replies are refused
                self.ending = True
                _SESSIONS.remove(self)
            for endpoint in list(self.endpoints.values()):
                endpoint.close()

    def _writing_thread(self) -> ThreadPoolExecutor:
        """Return the thread that writes to the cache; a forked child has one of its own."""
        if self._writer is None or self._process != os.getpid():
            self._writer, self._process = ThreadPoolExecutor(1, "agentgym-endpoint-cache"), os.getpid()
        return self._writer

    def _end_writing(self) -> None:
        if self._writer is not None and self._process == os.getpid():
            self._writer.shutdown()

    async def _end(self, wait: bool) -> None:
        self.ending = True
        loop = asyncio.get_running_loop()
        calls = [task for task in self.calls if task.get_loop() is loop]  # a parent process has others
        for task in calls:
            if not (wait and task in self._sent):
                task.cancel()
        await asyncio.gather(*calls, return_exceptions=True)


_SESSIONS: list[EndpointSession] = []
NO_SESSION = EndpointSession()
"""Session of calls outside any other: no cache, no ledger, no budget."""


def current_session() -> EndpointSession | None:
    """Return the innermost open session; None without one."""
    return _SESSIONS[-1] if _SESSIONS else None
