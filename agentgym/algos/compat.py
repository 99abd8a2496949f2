"""Compatibility with public code: the choices in which it differs from the papers, as one record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from agentgym.core.options import check_fields

EpisodeStat: TypeAlias = Literal["trajectory", "cross_steps"]
"""What the statistics of a group of episodes count once: a trajectory (the papers), or each of its steps
(verl-agent), so that long and usually failed episodes weigh more."""

Singleton: TypeAlias = Literal["zero", "raw"]
"""Advantage of a group of one: 0, or (verl) its raw value, divided by 1 + eps where others are scaled."""

InvalidPenalty: TypeAlias = Literal["reward", "row", "step_only"]
"""Where the invalid-action penalty goes: into the step's reward, so into every return (the papers); off the
row's own scores, after discounting (verl-agent); into the discounted returns only, so that episodes are
compared without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compat:
    """Choices in which public code differs from the papers; the defaults are the papers'.

    Example:
        >>> Compat(singleton="raw").episode_stat
        'trajectory'
    """

    episode_stat: EpisodeStat = "trajectory"
    """What the statistics of a group of episodes count once."""
    singleton: Singleton = "zero"
    """Advantage of an episode alone in its group."""
    invalid_penalty: InvalidPenalty = "reward"
    """Where the invalid-action penalty goes."""
    penalty: float = 0.1
    """Size of the invalid-action penalty; 0.01 in search."""

    def __post_init__(self) -> None:
        """Check the choices.

        Raises:
            ValueError: names the field and its choices.
        """
        check_fields(self)


PAPER: Final = Compat()
"""What the papers write."""

VERL_AGENT: Final = Compat(episode_stat="cross_steps", singleton="raw", invalid_penalty="row")
"""What verl-agent does, the public code of GiGPO, HGPO and GraphGPO."""
