"""Evaluation while a policy learns: the same episodes each time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentgym.history.metrics import Evaluated
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.learner.distributed import Ranks


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A fixed list of episodes, and who plays them."""

    worker: RolloutWorker
    episodes: tuple[EpisodeSpec, ...]
    ranks: Ranks

    @classmethod
    def of(cls, worker: RolloutWorker, *, tasks: int, seed: int, ranks: Ranks | None = None) -> Evaluation:
        """Plan one episode for each of the first tasks of the worker's split; all where it has fewer."""
        chosen = worker.envs.tasks[:tasks]
        seeds = np.random.SeedSequence(seed).generate_state(len(chosen), np.uint64).tolist()
        pairs = zip(chosen, seeds, strict=True)
        episodes = tuple(EpisodeSpec(task.id, task_seed, 0) for task, task_seed in pairs)
        return cls(worker, episodes, ranks or Ranks())

    def run(self) -> Evaluated:
        """Play the episodes."""
        own = [(t.won, t.score) for t in self.worker.run(self.ranks.share(self.episodes))]
        played = np.array(sorted(self.ranks.gather(own)), dtype=np.float64)
        success, score = played.mean(axis=0).tolist()
        return Evaluated(episodes=len(played), success=success, score=score)
