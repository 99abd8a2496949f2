"""Evaluation while a policy learns: the same episodes each time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.rollout import EpisodeSpec, RolloutWorker
from agentgym.training.metrics import Evaluated


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A fixed list of episodes, and who plays them."""

    worker: RolloutWorker
    episodes: tuple[EpisodeSpec, ...]

    @classmethod
    def of(cls, worker: RolloutWorker, *, tasks: int, seed: int) -> Evaluation:
        """Plan one episode for each of the first tasks of the worker's split.

        Args:
            worker: its policy is evaluated.
            tasks: how many; all where the split has fewer.
            seed: of the episodes.
        """
        chosen = worker.envs.tasks[:tasks]
        seeds = np.random.SeedSequence(seed).generate_state(len(chosen), np.uint64).tolist()
        pairs = zip(chosen, seeds, strict=True)
        return cls(worker, tuple(EpisodeSpec(task.id, task_seed, 0) for task, task_seed in pairs))

    def run(self) -> Evaluated:
        """Play the episodes."""
        played = list(self.worker.run(self.episodes))
        return Evaluated(
            episodes=len(played),
            success=float(np.mean([trajectory.won for trajectory in played])),
            score=float(np.mean([trajectory.score for trajectory in played])),
        )
