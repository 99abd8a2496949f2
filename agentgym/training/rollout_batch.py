"""Rollout batch: groups to train on, and the episodes to report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TypeAlias

from agentgym.core.types import Group, Trajectory

Diagnostics: TypeAlias = Mapping[str, Mapping[str, float]]
"""Numbers for the log by the name of what they tell, and each by its own name."""


@dataclass(frozen=True, slots=True)
class EpisodeEnd:
    """Report of a finished episode."""

    won: bool
    score: float
    episode_return: float
    steps: int

    @classmethod
    def of(cls, trajectory: Trajectory) -> Self:
        """Take it from an episode."""
        return cls(trajectory.won, trajectory.score, trajectory.episode_return, len(trajectory.steps))


@dataclass(frozen=True, slots=True)
class Collected:
    """One update's rollouts.

    Example:
        >>> Collected([]).episode_ends
        []
    """

    groups: list[Group]
    """To be trained on. Without any there is no update."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Columns of the step batch that do not follow from the groups, such as ``reward``: arrays of (n,)."""
    ends: Sequence[EpisodeEnd] | None = None
    """Of the episodes to be reported, where they are not the groups' members."""
    notes: Sequence[Mapping[str, float]] | None = None
    """Numbers by name that are kept with each member of the groups, where rollouts are kept."""
    diagnostics: Diagnostics = field(default_factory=dict)
    """For the log."""
    parts: tuple[int, ...] = ()
    """Groups of each environment, one environment after the other, where there are several."""
    over: bool = False
    """Whether the collector has played all that it was to: the run ends with this iteration."""

    @property
    def episode_ends(self) -> Sequence[EpisodeEnd]:
        """The ends of the episodes to be reported; empty where none is over yet."""
        if self.ends is not None:
            return self.ends
        return [EpisodeEnd.of(member) for group in self.groups for member in group.trajectories]
