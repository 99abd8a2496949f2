"""Compatibility with public code: the choices in which it differs from the papers, as one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from agentgym.core.options import check_fields

EpisodeStat: TypeAlias = Literal["trajectory", "cross_steps"]
"""Unit that a group's episode statistics count once: a trajectory (the papers), or each of its steps
(verl-agent), so that long and usually failed episodes weigh more."""

Singleton: TypeAlias = Literal["zero", "raw"]
"""Advantage of a group of one: 0, or (verl) its raw value, divided by 1 + eps where others are scaled."""

InvalidPenalty: TypeAlias = Literal["reward", "row", "step_only"]
"""Target of the invalid-action penalty: the step's reward, so every return (the papers); the row's own
scores, after discounting (verl-agent); the discounted returns alone, so that episodes are compared without
it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compat:
    """Choices in which public code differs from the papers; the defaults are the papers'.

    Example:
        >>> Compat(singleton="raw").episode_stat
        'trajectory'
    """

    episode_stat: EpisodeStat = "trajectory"
    """Unit that a group's episode statistics count once."""
    singleton: Singleton = "zero"
    """Advantage of an episode alone in its group."""
    invalid_penalty: InvalidPenalty = "reward"
    """Target of the invalid-action penalty."""
    penalty: float = 0.1
    """Size of the invalid-action penalty; 0.01 in search."""

    def __post_init__(self) -> None:
        """Check the choices.

        Raises:
            ValueError: names the field and its choices.
        """
        check_fields(self)


PAPER: Final = Compat()
"""Choices of the papers."""

VERL_AGENT: Final = Compat(episode_stat="cross_steps", singleton="raw", invalid_penalty="row")
"""Choices of verl-agent, the public code of GiGPO, HGPO and GraphGPO."""
