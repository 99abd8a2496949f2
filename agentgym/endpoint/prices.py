"""Prices of models from a user's TOML file: dated, in dollars per million tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, Self

from agentgym.core.hashing import canonical_json
from agentgym.core.options import NonNegativeFloat, check_fields
from agentgym.endpoint.replies import TokenUsage
from agentgym.endpoint.spec import checked_url
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.io.untrusted import read_toml_table


@dataclass(frozen=True, slots=True)
class TokenPrice:
    """Prices of a model's tokens from a day on, in US dollars per million."""

    model: str
    since: str
    """First day of the price, as 2026-01-31."""
    input: NonNegativeFloat
    output: NonNegativeFloat
    """Price of an answer's tokens, reasoning included where the endpoint counts it."""
    cached_input: NonNegativeFloat | None = None
    """Price of prompt tokens that the endpoint read from its prefix cache; None for the price `input`."""
    url: str = ""
    """Endpoint that the price is for; empty for any."""

    def __post_init__(self) -> None:
        """Check the day and the numbers."""
        try:
            date.fromisoformat(self.since)
        except ValueError:
            raise UsageError(f"prices: since is a day such as 2026-01-31, not {self.since!r:.40}") from None
        check_fields(self, "prices: ")
        if self.url:
            object.__setattr__(self, "url", checked_url(self.url))

    def cost(self, usage: TokenUsage) -> float:
        """Return what tokens cost, in dollars."""
        cached = min(usage.cached, usage.prompt)
        again = self.input if self.cached_input is None else self.cached_input
        dollars = (usage.prompt - cached) * self.input + cached * again + usage.completion * self.output
        return dollars / 1e6


class PriceTable:
    """The prices that a user knows of."""

    def __init__(self, prices: Sequence[TokenPrice] = ()):
        """Keep the prices."""
        self._prices = sorted(prices, key=lambda price: (price.since, bool(price.url)))
        table = [[p.model, p.since, p.input, p.output, p.cached_input, p.url] for p in self._prices]
        self.sha256 = hashlib.sha256(canonical_json(table).encode()).hexdigest()

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file of tables ``[[price]]`` with the fields of `TokenPrice`.

        Raises:
            UsageError: it cannot be read, or does not fit.
        """
        table = read_toml_table(path)
        rows = table.get("price")
        if set(table) != {"price"} or not isinstance(rows, list):
            raise UsageError(f"{path}: a file of prices holds tables [[price]] and nothing else")
        return cls([parse(TokenPrice, _dated(row), f"{path}: price") for row in rows])

    def of(self, url: str, model: str, day: str) -> TokenPrice | None:
        """Return the price on a day: the newest one until then, those of the endpoint before those of any."""
        fitting = [
            price
            for price in self._prices
            if price.model == model and price.url in ("", url) and price.since <= day
        ]
        own = [price for price in fitting if price.url]
        return next(reversed(own or fitting), None)


def _dated(row: Any) -> Any:
    """Return a table with its day as text, which TOML may write as a date."""
    if isinstance(row, dict) and isinstance(row.get("since"), date):
        return {**row, "since": row["since"].isoformat()}
    return row
