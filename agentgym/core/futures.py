"""Futures that follow from others."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def mapped(future: Future[T], function: Callable[[T], U]) -> Future[U]:
    """Return the future of ``function`` of a result, called in the thread that sets it.

    What the future or the function raises is its exception; to cancel it is to cancel ``future``.

    Example:
        >>> number: Future[int] = Future()
        >>> text = mapped(number, str)
        >>> number.set_result(3)
        >>> text.result()
        '3'
    """
    other: Future[U] = Future()

    def follow(done: Future[T]) -> None:
        if not other.set_running_or_notify_cancel():
            return
        try:
            other.set_result(function(done.result()))
        except BaseException as error:  # noqa: BLE001  # the returned future raises it
            other.set_exception(error)

    other.add_done_callback(lambda over: over.cancelled() and future.cancel())
    future.add_done_callback(follow)
    return other
