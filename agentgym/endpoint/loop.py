"""The event loop of all endpoints of a process, on one background thread.

It starts with the first endpoint that asks something and ends with the last one that is closed, at the
latest with the process. A forked child has none of its parent's: it starts its own.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

ResultT = TypeVar("ResultT")

_STOP_SECONDS = 10.0
_THREADS = 4
"""Threads that look up the addresses of hosts."""


class LoopUser(Protocol):
    """Object that keeps the loop running until it is closed."""

    def close(self) -> None:
        """Leave the loop."""


class BackgroundLoop:
    """An event loop on a daemon thread of its own."""

    def __init__(self) -> None:
        """Start the thread."""
        self.loop = asyncio.new_event_loop()
        self._names = ThreadPoolExecutor(_THREADS, "agentgym-endpoint-names")
        self.loop.set_default_executor(self._names)
        self.users: set[LoopUser] = set()
        self.lock = threading.Lock()
        """Lock for objects that users create once per loop, from any thread."""
        self._thread = threading.Thread(target=self._run, name="agentgym-endpoints", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, ResultT]) -> Future[ResultT]:
        """Run a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def inside(self) -> bool:
        """Whether the caller is on the loop's thread, where waiting for it would take forever."""
        return threading.current_thread() is self._thread

    def stop(self) -> None:
        """End the loop and its thread; what still runs on it is cancelled."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        if not self.inside():
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            tasks = asyncio.all_tasks(self.loop)
            for task in tasks:
                task.cancel()
            self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self._names.shutdown(
                cancel_futures=True
            )  # asyncio's own executor starts a thread, which is refused during the interpreter's exit
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()


class _Current:
    """The loop that runs, and those that a forked child must neither use nor close."""

    lock = threading.Lock()
    loop: BackgroundLoop | None = None
    inherited: list[BackgroundLoop] = []  # noqa: RUF012


def join_loop(user: LoopUser) -> BackgroundLoop:
    """Return the loop of the process, and keep it running until the user leaves."""
    with _Current.lock:
        if _Current.loop is None:
            _Current.loop = BackgroundLoop()
        _Current.loop.users.add(user)
        return _Current.loop


def loop_of_process() -> BackgroundLoop | None:
    """Return the loop of the process; None where none runs."""
    return _Current.loop


def leave_loop(user: LoopUser) -> None:
    """End the loop of the process if it has no other user."""
    with _Current.lock:
        loop = _Current.loop
        if loop is None or user not in loop.users:
            return
        loop.users.discard(user)
        if loop.users:
            return
        _Current.loop = None
    loop.stop()


def _stop_at_exit() -> None:
    loop = _Current.loop
    for user in tuple(loop.users) if loop is not None else ():
        user.close()


def _forget_after_fork() -> None:
    # closing the inherited loop would end the parent's, whose epoll it shares
    _Current.lock = threading.Lock()
    if _Current.loop is not None:
        _Current.inherited.append(_Current.loop)
        _Current.loop = None


atexit.register(_stop_at_exit)
os.register_at_fork(after_in_child=_forget_after_fork)
