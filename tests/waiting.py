"""Waiting for a condition: the place where tests sleep and read a clock.

A test that sleeps, or that compares a clock with a number, says as much about the machine and its other work
as about the code. `tests.fragile` finds such tests.
"""

from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

Result = TypeVar("Result")

PATIENCE = 120.0
"""Seconds to wait for what takes a moment on an idle machine."""


def wait_until(condition: Callable[[], Result], seconds: float = PATIENCE) -> Result:
    """Return the first true value of a condition.

    Args:
        condition: is called again and again; what it raises ends the wait.
        seconds: to wait at most.

    Raises:
        AssertionError: it was never true.
    """
    deadline = monotonic() + seconds
    while not (value := condition()):
        assert monotonic() < deadline, f"not true within {seconds:g} s"
        sleep(0.002)
    return value
