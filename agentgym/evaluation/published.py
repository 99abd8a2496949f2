"""Results printed in papers: shown beside the leaderboard, never ranked with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field


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
    beside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Suites below whose boards the results of an environment stand, by environment; the others stand at the
    end of the page."""

    def below(self, suite: str) -> list[tuple[Paper, PublishedResult]]:
        """Return the results that stand below a suite's boards."""
        return [
            (paper, result)
            for paper in self.paper
            for result in paper.result
            if suite in self.beside.get(result.environment, ())
        ]

    def apart(self, suites: Collection[str]) -> list[tuple[Paper, PublishedResult]]:
        """Return the results that stand below no board, given the suites that have one."""
        return [
            (paper, result)
            for paper in self.paper
            for result in paper.result
            if not set(suites) & set(self.beside.get(result.environment, ()))
        ]
