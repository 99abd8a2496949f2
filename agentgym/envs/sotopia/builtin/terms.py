"""Terms of a built-in scenario: the possible deals, and their value to each side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, TypeAlias

from agentgym.envs.sotopia.scenarios import Scenario, Side
from agentgym.errors import UsageError

DealPoints: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""A number for each deal, by side."""


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A piece of evidence that one side can show to the other."""

    name: str
    about: str
    """The concern that it speaks to."""
    weight: int
    """Points that it adds to every deal, for a side with this concern."""


@dataclass(frozen=True)
class Terms:
    """Verifiable terms of a scenario. Only `deals` is known to both sides.

    Points are private to the side that has them. A deal's gain is what it brings a side beyond no deal, all
    evidence that speaks to the side's concern included: evidence that is not shown is true all the same.
    """

    deals: tuple[str, ...]
    """Deals that can be made, as binding moves name them; each in the form of `normal_name`."""
    points: DealPoints
    """Worth of each deal to each side, before any evidence."""
    without: tuple[int, int]
    """Worth of no deal to each side: the walk-away value."""
    evidence: tuple[tuple[Exhibit, ...], tuple[Exhibit, ...]] = ((), ())
    """Evidence that each side can show."""
    concerns: tuple[str, str] = ("", "")
    """Concern by which each side can be convinced; empty for none."""
    secrets: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """Words that give away each side's secret; lower case."""
    limits: tuple[str, str] = ("", "")
    """The private number beyond which a side is better off without a deal; empty where there is none."""
    material: bool = False
    """Whether money or goods change hands."""
    keeper: int | None = None
    """The side whose secret the other is after; None where nobody is."""

    @cached_property
    def relevant(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Numbers of the evidence of each side that speaks to the other's concern."""
        mine, other = (
            tuple(i for i, one in enumerate(self.evidence[side]) if one.about == self.concerns[1 - side])
            for side in (0, 1)
        )
        return mine, other

    @cached_property
    def gains(self) -> DealPoints:
        """Each deal's gain for each side beyond no deal."""
        everything = tuple((1 << len(one)) - 1 for one in self.evidence)
        return self.seen_gains(0, everything[1]), self.seen_gains(1, everything[0])

    @cached_property
    def zone(self) -> tuple[int, ...]:
        """Deals that bring both sides something: the zone of agreement."""
        return tuple(i for i in range(len(self.deals)) if self.gains[0][i] > 0 < self.gains[1][i])

    @cached_property
    def most(self) -> tuple[int, int]:
        """The greatest gain of each side among deals in the zone of agreement."""
        first, second = (max(self.gains[side][deal] for deal in self.zone) for side in (0, 1))
        return first, second

    @cached_property
    def ranked(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Deals in the order in which each side likes them, the best first."""
        first, second = (
            tuple(sorted(range(len(self.deals)), key=lambda deal: (-self.points[side][deal], deal)))
            for side in (0, 1)
        )
        return first, second

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """Numbers of the deals, by name."""
        return {name: number for number, name in enumerate(self.deals)}

    @cached_property
    def evidence_numbers(self) -> tuple[Mapping[str, int], Mapping[str, int]]:
        """Numbers of each side's evidence, by name."""
        first, second = ({one.name: i for i, one in enumerate(self.evidence[side])} for side in (0, 1))
        return first, second

    def goal(self, side: int, deal: int) -> int:
        """Return the goal, 0 to 10, that a deal is for a side: tenths of the greatest gain, rounded up."""
        return max(0, min(10, -(-10 * self.gains[side][deal] // self.most[side])))

    def convinced(self, side: int, shown: int) -> int:
        """Return the points that evidence adds to every deal, for a side.

        ``shown``: the evidence of the other side that it has seen, as bits.
        """
        if not shown:
            return 0
        theirs = self.evidence[1 - side]
        return sum(theirs[i].weight for i in self.relevant[1 - side] if shown >> i & 1)

    def seen_gains(self, side: int, shown: int) -> tuple[int, ...]:
        """Return each deal's apparent gain for a side that has seen some evidence; see `convinced`."""
        more = self.convinced(side, shown) - self.without[side]
        return tuple([points + more for points in self.points[side]])

    @cached_property
    def difficulty(self) -> Literal["", "usual", "hard"]:
        """``hard`` where at most a third of the deals bring both sides something, else ``usual``.

        Empty for terms that no split has: where fewer than two deals do, or more than half.
        """
        size, all_deals = len(self.zone), len(self.deals)
        if size < 2 or 2 * size > all_deals:
            return ""
        return "hard" if 3 * size <= all_deals else "usual"


def terms_of(scenario: Scenario) -> Terms:
    """Return the terms of a built-in scenario; others have none."""
    if not isinstance(scenario.terms, Terms):
        raise UsageError(
            f"scenario {scenario.id!r:.60} has no terms to compute with: name a model as partner and judge, "
            'or use dataset="builtin"'
        )
    return scenario.terms


def other_side(side: Side) -> Side:
    """Return the side across the table."""
    return 1 if side == 0 else 0


@lru_cache(maxsize=1 << 16)
def normal_name(text: str) -> str:
    """Return the form in which names are compared: lower case, single blanks, sorted where joined by "and".

    Example:
        >>> normal_name("Rope and  LAMP for kettle.")
        'lamp and rope for kettle'
    """
    words = " ".join(text.lower().strip(" .!\t\n").split())
    return " for ".join(" and ".join(sorted(part.split(" and "))) for part in words.split(" for "))
