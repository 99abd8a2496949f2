"""Several environments in one run: groups of each in every batch, advantages by an algorithm of its own.

One policy plays all of them, and one update minimises the run's objective over all their steps. Each further
environment is a `TrainingSetup` of its own that shares model, engine and learner; its pool and its scorer
know nothing of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agentgym.algos.filters import select
from agentgym.training.collect.mixed_environment import short_name
from agentgym.training.collect.rollout_batch import Collected
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages.outcome import open_pool, stages_of
from agentgym.training.stages.protocols import Collector, RolloutBatch, Scorer, Scores


class MixedCollector:
    """The pools of several environments, one after the other."""

    def __init__(self, pools: Mapping[str, Collector]):
        """Bind the pools, by the names of their environments."""
        self.pools = pools

    @classmethod
    def open(cls, setup: TrainingSetup) -> MixedCollector:
        """Open a pool for each environment of a run."""
        return cls({short_name(each.config.env_id): open_pool(each) for each in (setup, *setup.mixed)})

    @property
    def episodes(self) -> int:
        """Episodes played to their ends."""
        return sum(pool.episodes for pool in self.pools.values())

    def collect(self, version: int) -> Collected:
        """Return the groups of one update: each environment's in the order in which they began."""
        found = {name: pool.collect(version) for name, pool in self.pools.items()}
        success = {
            name: sum(end.won for end in each.episode_ends) / max(len(each.episode_ends), 1)
            for name, each in found.items()
        }
        return Collected(
            [group for each in found.values() for group in each.groups],
            parts=tuple(len(each.groups) for each in found.values()),
            diagnostics={
                "success": success,
                "states": {"by_hash": sum(each.diagnostics["states"]["by_hash"] for each in found.values())},
            },
        )

    def over_ranks(self) -> tuple[int, int]:
        """Return the numbers of untrained and of pending groups of all ranks, which all have to call."""
        lost, pending = zip(*(pool.over_ranks() for pool in self.pools.values()), strict=True)
        return sum(lost), sum(pending)

    def close(self) -> None:
        """End all pools."""
        for pool in self.pools.values():
            pool.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the pools' states."""
        return {name: pool.state_dict() for name, pool in self.pools.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        for name, pool in self.pools.items():
            pool.load_state_dict(state[name])


@dataclass(frozen=True, slots=True)
class MixedScorer:
    """The scorers of several environments, each of the steps of its own groups."""

    scorers: Sequence[Scorer]

    @classmethod
    def open(cls, setup: TrainingSetup) -> MixedScorer:
        """Open the scorer of each environment's algorithm."""
        return cls([stages_of(each.config.algorithm).scorer(each) for each in (setup, *setup.mixed)])

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Return the advantages of all steps."""
        steps = rollouts.steps
        advantages = np.zeros(len(steps))
        owner = np.searchsorted(np.cumsum(rollouts.parts), steps.group, side="right")
        for place, scorer in enumerate(self.scorers):
            own = owner == place
            if own.any():
                scores = scorer.score(replace(rollouts, steps=select(steps, own)))
                advantages[own] = scores.advantages
        return Scores(advantages, "step")

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: scorers of outcomes remember nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over nothing."""
