"""Drafts of interactions, before they are put into words for two people."""

from __future__ import annotations

from typing import NamedTuple, TypeVar

from agentgym.envs.sotopia.builtin.terms import Terms

GRAMMAR = (
    "Talk binds nobody. Only these moves count, each written as an action: action[offer TERMS] puts terms on "
    "the table in place of your earlier offer; action[accept] takes the other's offer and settles the "
    "matter; action[reject] takes the other's offer off the table; action[promise TERMS] vows to accept "
    "these terms as soon as the other offers them; action[exclude TERMS] states for the record that these "
    "terms are no better for you than no agreement."
)
"""Text about binding moves, in every scenario."""

SHOWING = " action[show NAME] shows the other a piece of your evidence."
"""Text about evidence, in scenarios that have some."""


Value = TypeVar("Value")


def by_role(role: int, first: Value, second: Value) -> tuple[Value, Value]:
    """Return values by side: the first for the side that has a role, the second for the other."""
    return (first, second) if role == 0 else (second, first)


class ScenarioDraft(NamedTuple):
    """A scenario without its people's secrets."""

    situation: str
    """A few sentences that both are told."""
    wishes: tuple[str, str]
    """Wish of each side, in a sentence or two; the worth of deals follows from the terms."""
    terms: Terms


def scenario_text(draft: ScenarioDraft) -> str:
    """Return the text that both sides read."""
    showing = SHOWING if any(draft.terms.evidence) else ""
    return f"{draft.situation} {GRAMMAR}{showing} TERMS are one of: {'; '.join(draft.terms.deals)}."


def goal_text(draft: ScenarioDraft, side: int) -> str:
    """Return one side's goal: its wish, its points and its evidence.

    Example:
        >>> terms = Terms(("40", "45"), ((0, 5), (5, 0)), (1, 1))
        >>> goal_text(ScenarioDraft("", ("Sell.", "Buy."), terms), 0)
        'Sell. What terms are worth to you, in points: 40 = 0; 45 = 5; no agreement = 1.'
    """
    terms = draft.terms
    worth = [f"{name} = {points}" for name, points in zip(terms.deals, terms.points[side], strict=True)]
    text = (
        f"{draft.wishes[side]} What terms are worth to you, in points: {'; '.join(worth)}; "
        f"no agreement = {terms.without[side]}."
    )
    if terms.evidence[side]:
        pieces = [f"{one.name} (about {one.about}, weight {one.weight})" for one in terms.evidence[side]]
        text += f" Your evidence: {'; '.join(pieces)}."
    if terms.concerns[side]:
        text += (
            f" Only evidence about {terms.concerns[side]} convinces you: its weight is added to the points "
            "of all terms."
        )
    return text
