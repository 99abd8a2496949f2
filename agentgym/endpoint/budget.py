"""Budgets of requests, tokens and dollars: nothing is sent that could go beyond them."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from agentgym.core.options import NonNegativeFloat, NonNegativeInt, check_fields
from agentgym.endpoint.errors import BudgetSpentError


@dataclass(frozen=True, slots=True)
class EndpointBudget:
    """Limits of a session's spending on all its endpoints; None for no limit."""

    requests: NonNegativeInt | None = None
    """Most requests sent, retries included."""
    tokens: NonNegativeInt | None = None
    """Most tokens of prompts and answers."""
    dollars: NonNegativeFloat | None = None
    """Most US dollars, by the session's prices."""

    def __post_init__(self) -> None:
        """Refuse a limit that is negative or no number."""
        check_fields(self, "budget: ")


class Spending(NamedTuple):
    """Amounts spent, or the most that a call may spend."""

    requests: int = 0
    tokens: int = 0
    dollars: float = 0.0

    def plus(self, other: Spending) -> Spending:
        """Return the sum."""
        return Spending(
            self.requests + other.requests, self.tokens + other.tokens, self.dollars + other.dollars
        )

    def minus(self, other: Spending) -> Spending:
        """Return the difference."""
        return Spending(
            self.requests - other.requests, self.tokens - other.tokens, self.dollars - other.dollars
        )


class BudgetMeter:
    """Meter of the amounts spent, and of the most that calls in flight may spend. Used by one event loop.

    A call is sent if the budget holds even where all in flight cost what was estimated for them. If it does
    not, the call waits for them, and is refused once nothing in flight could make room for it.
    """

    def __init__(self, budget: EndpointBudget):
        """Begin with nothing spent."""
        self.budget = budget
        self.spent = Spending()
        self._reserved = Spending()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()
        self._settled = asyncio.Event()

    async def reserve(self, most: Spending) -> None:
        """Wait until a call fits, and count it as in flight; `settle` must be called with the same ``most``.

        One that cannot fit raises `BudgetSpentError`.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # the first call, or one in a forked child, where nothing is in flight
            self._loop, self._reserved = loop, Spending()
            self._turn, self._settled = asyncio.Lock(), asyncio.Event()
        async with self._turn:  # calls are sent in the order of their arrival
            while self._exceeded(self.spent.plus(self._reserved).plus(most)):
                problem = self._exceeded(self.spent.plus(most))
                if problem:
                    raise BudgetSpentError(problem)
                self._settled.clear()
                await self._settled.wait()
            self._reserved = self._reserved.plus(most)

    def settle(self, most: Spending, spent: Spending) -> None:
        """Count a call as ended."""
        self._reserved = self._reserved.minus(most)
        self.spent = self.spent.plus(spent)
        self._settled.set()

    def _exceeded(self, total: Spending) -> str:
        """Return the limit that a total exceeds, as a message; empty without one."""
        for name in ("requests", "tokens", "dollars"):
            limit, spent = getattr(self.budget, name), getattr(self.spent, name)
            # sums and differences of floats are off in the last digits, so that a limit has a tolerance
            if limit is not None and getattr(total, name) > limit + (1e-9 if name == "dollars" else 0):
                return (
                    f"the budget of {limit:,} {name} is spent: {spent:,.6g} so far, and the next call may go "
                    "beyond it; raise it and run the same command again"
                )
        return ""
