"""Rollout batch: groups to train on, and the episodes to report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self, TypeAlias

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.core.types import Group, Trajectory

Diagnostics: TypeAlias = Mapping[str, Mapping[str, float]]
"""Numbers for the log, by the name of their subject and their own."""


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
    """Groups to train on; without any there is no update."""
    columns: Mapping[str, Any] = field(default_factory=dict)
    """Columns of the step batch that do not follow from the groups, such as ``reward``: arrays of (n,)."""
    ends: Sequence[EpisodeEnd] | None = None
    """Ends of the episodes to report, where they are not the groups' members."""
    notes: Sequence[Mapping[str, float]] | None = None
    """Numbers by name for each member of the groups, which are stored with its rollout."""
    diagnostics: Diagnostics = field(default_factory=dict)
    """Numbers for the log."""
    parts: tuple[int, ...] = ()
    """Number of groups of each environment, in order, where there are several."""
    over: bool = False
    """Whether the collector has finished: the run ends with this iteration."""

    @property
    def episode_ends(self) -> Sequence[EpisodeEnd]:
        """The ends of the episodes to be reported; empty where none is over yet."""
        if self.ends is not None:
            return self.ends
        return [EpisodeEnd.of(member) for group in self.groups for member in group.trajectories]

    def with_values(self, values: Sequence[Floats]) -> Self:
        """Return the rollouts with the values of the states acted in, of each episode (T,); 0 follows it."""
        after = [np.append(each, 0.0)[1:] for each in values]
        none = np.zeros(0)
        columns = {"values": np.concatenate([none, *values]), "next_values": np.concatenate([none, *after])}
        return replace(self, columns={**self.columns, **columns})
