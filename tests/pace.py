"""Processor time in spins of a reference loop that runs beside what is measured.

A limit in seconds says as much about the machine and its other work as about the code; a spin slows down with
both. On a core of 2024 a spin takes about a millisecond.
"""

from collections.abc import Callable
from time import thread_time
from typing import TypeVar

Result = TypeVar("Result")

SHORTEST = 0.0002
"""Seconds that no machine's spin is shorter than."""


def spin() -> float:
    """Return the seconds of processor time that the reference takes now."""
    began, total = thread_time(), 0
    for number in range(25_000):
        total += number
    return thread_time() - began


def within(spins: float, work: Callable[..., Result], *arguments: object, attempts: int = 3) -> Result:
    """Return what a call returns; fail where its thread took more spins in every attempt.

    Args:
        spins: at most.
        work: is called.
        *arguments: of the call.
        attempts: calls at most, since the rest of the machine's work only adds.

    Raises:
        AssertionError: with the spins of the best attempt.
    """
    least = float("inf")
    for _ in range(attempts):
        began = thread_time()
        result = work(*arguments)
        took = thread_time() - began
        if took <= spins * SHORTEST:
            return result
        least = min(least, took / max(spin() for _ in range(3)))
        if least <= spins:
            return result
    shown = ", ".join(repr(argument)[:60] for argument in arguments)
    raise AssertionError(f"{least:,.0f} spins, not {spins:,}: {shown}")
