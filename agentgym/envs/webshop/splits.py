"""Splits of goals, by their own content or by their product's."""

from __future__ import annotations

from typing import Literal, TypeAlias

from agentgym.core.hashing import content_id
from agentgym.core.tasks import split_of

GoalDivision: TypeAlias = Literal["goal", "product"]
"""Parts of a goal that decide its split: product, attributes and options together, or the product alone."""


def split_of_goal(goal_id: str, asin: str, split_by: GoalDivision) -> str:
    """Return the split of a goal; a suffix of its id that numbers duplicates does not count.

    Example:
        >>> split_of_goal("0" * 31 + "5", "B000000001", "goal")
        'test'
        >>> {split_of_goal(f"{number:032x}", "B000000001", "product") for number in range(100)}
        {'train'}
    """
    return split_of(goal_id if split_by == "goal" else content_id(("product", asin)))
