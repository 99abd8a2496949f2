"""The game itself: whose turn it is, what may be done, and when it is over.

No input or output, and no chance but the order that a scenario draws.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from agentgym.envs.sotopia.actions import SocialAction
from agentgym.envs.sotopia.scenarios import Side

Order: TypeAlias = Literal["round-robin", "simultaneous", "random"]
StaleRule: TypeAlias = Literal["0.1.4", "acting-agents"]


class Turn(NamedTuple):
    """A turn: what each side did; the side that was not to act did nothing."""

    actions: tuple[SocialAction, SocialAction]
    acting: tuple[Side, ...]
    """Who was to act."""


class GameState(NamedTuple):
    """A conversation as it stands."""

    turns: tuple[Turn, ...] = ()
    pending: SocialAction | None = None
    """In simultaneous order: what side 0 does in the turn that side 1 has still to act in."""
    left: bool = False
    """Whether somebody left."""
    stale: bool = False
    """Whether nothing happened for too long."""
