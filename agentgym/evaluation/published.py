"""Results printed in papers: shown beside the leaderboard, never ranked with it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PublishedResult:
    """One number of a paper."""

    environment: str
    method: str
    success: float
    """Percent."""
    spread: float | None = None
    """What the paper prints after its plus-minus sign; None where it prints none."""
    model: str = ""
    """Where it is not the paper's usual one."""


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper's table."""

    name: str
    table: str
    model: str
    protocol: str
    """How the numbers came about, as far as the paper says."""
    result: tuple[PublishedResult, ...]


@dataclass(frozen=True, slots=True)
class Published:
    """The content of ``published.toml``."""

    paper: tuple[Paper, ...] = ()
