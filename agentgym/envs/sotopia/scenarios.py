"""Scenarios: two characters, their relationship, their place, and their goals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Side: TypeAlias = Literal[0, 1]
"""Number of one of the two characters of a scenario."""

STRANGER, KNOW_BY_NAME, ACQUAINTANCE, FRIEND, ROMANTIC, FAMILY = range(6)
"""Relationships of the two, as SOTOPIA numbers them."""


@dataclass(frozen=True, slots=True)
class Character:
    """A person: SOTOPIA's agent profile."""

    id: str
    first_name: str
    last_name: str
    age: int
    gender: str
    pronouns: str
    occupation: str
    public_info: str = ""
    big_five: str = ""
    moral_values: tuple[str, ...] = ()
    schwartz_values: tuple[str, ...] = ()
    personality_and_values: str = ""
    decision_making_style: str = ""
    secret: str = ""
    mbti: str = ""

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first_name} {self.last_name}".strip()


@dataclass(frozen=True, slots=True)
class Scenario:
    """Scenario of two characters: SOTOPIA's environment profile with a pair of agents.

    Texts may hold SOTOPIA's tags ``<extra_info>``, ``<clarification_hint>`` and ``<strategy_hint>``, with
    ``viewer="agent_0"`` or ``viewer="agent_1"`` for what only side 0 or 1 is shown (see `markup`).
    """

    id: str
    """Names it in its data set."""
    text: str
    """The situation, as both are told it."""
    goals: tuple[str, str]
    """Goal of each side; private."""
    relationship: int
    """0 stranger, 1 know by name, 2 acquaintance, 3 friend, 4 romantic, 5 family."""
    characters: tuple[Character, Character]
    kind: str = ""
    """Kind of interaction, such as ``negotiation``; SOTOPIA's codename for real scenarios."""
    source: str = ""
    terms: Any = None
    """Terms that make a built-in scenario verifiable; None for real ones."""

    def __hash__(self) -> int:
        """Return a hash of two texts, which keep theirs: a scenario is looked up at every step."""
        return hash((self.id, self.text))
