"""Outcome of a step and status of a game."""

from __future__ import annotations

from typing import NamedTuple


class Outcome(NamedTuple):
    """Result of an action, in the game's words."""

    reward: float
    valid: bool = True
    """Whether the action was accepted."""
    terminated: bool = False
    """Whether the game ended by its own rules."""


class Status(NamedTuple):
    """Status of an episode; a function of the game's state alone."""

    won: bool
    score: float  # the benchmark's own number
    progress: float  # in [0, 1]
