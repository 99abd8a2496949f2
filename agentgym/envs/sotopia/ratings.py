"""Ratings: SOTOPIA-EVAL's seven dimensions of a character in a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

DIMENSIONS: Mapping[str, tuple[int, int]] = {
    "believability": (0, 10),
    "relationship": (-5, 5),
    "knowledge": (0, 10),
    "secret": (-10, 0),
    "social_rules": (-10, 0),
    "financial_and_material_benefits": (-5, 5),
    "goal": (0, 10),
}
"""Least and greatest rating of each dimension, in the order of `Ratings`."""


class Ratings(NamedTuple):
    """Ratings of one character: a whole number for each of `DIMENSIONS`.

    Example:
        >>> Ratings(9, 2, 4, 0, 0, 0, 6).overall
        3.0
    """

    believability: int
    """Agreement of its behaviour with its person."""
    relationship: int
    """Change of the relationship: above 0 where the two are closer than before."""
    knowledge: int
    """Knowledge that it gained."""
    secret: int
    """Secrecy: 0 where it gave nothing away."""
    social_rules: int
    """Respect for rules and laws: 0 where it broke none."""
    financial_and_material_benefits: int
    """Gain or loss in money and goods."""
    goal: int
    """Degree to which it reached its goal."""

    @property
    def overall(self) -> float:
        """Plain mean of the seven, as in SOTOPIA."""
        return sum(self) / len(self)

    @property
    def within_bounds(self) -> bool:
        """Whether each rating is within its dimension's bounds."""
        return all(
            least <= rating <= greatest
            for rating, (least, greatest) in zip(self, DIMENSIONS.values(), strict=True)
        )
