"""Evaluation while a policy learns: the same episodes each time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

import numpy as np

from agentgym.core.options import check_choice
from agentgym.core.panels import TaskPanel
from agentgym.history.metrics import Evaluated, Outcomes, SplitOutcomes
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.learner.distributed import Ranks

MEASURES = ("success", "score")
"""Numbers of an evaluation that rank policies; more is better."""


@dataclass(frozen=True, slots=True)
class SplitEvaluation:
    """A fixed list of a split's episodes, and the worker that plays them."""

    worker: RolloutWorker
    episodes: tuple[EpisodeSpec, ...]
    types: tuple[str, ...]
    """Types of its tasks, in alphabetical order."""
    ranks: Ranks
    panel: TaskPanel

    @classmethod
    def of(
        cls, worker: RolloutWorker, *, tasks: int, seed: int, ranks: Ranks | None = None
    ) -> SplitEvaluation:
        """Plan one episode for each of the first tasks of the worker's split; all where it has fewer."""
        panel = TaskPanel.first(worker.envs.tasks, tasks)
        chosen = panel.tasks
        seeds = np.random.SeedSequence(seed).generate_state(len(chosen), np.uint64).tolist()
        pairs = zip(chosen, seeds, strict=True)
        episodes = tuple(EpisodeSpec(task.id, task_seed, 0) for task, task_seed in pairs)
        return cls(worker, episodes, tuple(sorted({task.type for task in chosen})), ranks or Ranks(), panel)

    def run(self) -> SplitOutcomes:
        """Play the episodes."""
        own = [(t.won, t.score, t.task_type) for t in self.worker.run(self.ranks.share(self.episodes))]
        played = sorted(self.ranks.gather(own))
        several = self.types if len(self.types) > 1 else ()
        types = {name: _outcomes([each for each in played if each[2] == name]) for name in several}
        return SplitOutcomes(**asdict(_outcomes(played)), types=types)


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The evaluations of a run, by the names of their splits."""

    splits: Mapping[str, SplitEvaluation]

    def run(self) -> Evaluated:
        """Play the episodes of all splits, one split after the other."""
        found = {name: split.run() for name, split in self.splits.items()}
        first = next(iter(found.values()))
        return Evaluated(
            episodes=first.episodes,
            success=first.success,
            score=first.score,
            types=first.types,
            splits=found if len(found) > 1 else {},
        )

    def check_measure(self, name: str) -> None:
        """Refuse the name of a number that these evaluations will not have."""
        check_choice("evaluation.keep_best", name, list(self._measures()))

    def manifests(self) -> str | dict[str, str]:
        """Return the digest of the split's tasks, or those of several by their splits."""
        found = {name: split.worker.envs.tasks.manifest_sha256 for name, split in self.splits.items()}
        return found if len(found) > 1 else next(iter(found.values()))

    def panels(self) -> dict[str, Mapping[str, str | int]]:
        """Return name, length and digest of each split's panel."""
        return {name: split.panel.header() for name, split in self.splits.items()}

    def close(self) -> None:
        """Close the environments."""
        for split in self.splits.values():
            split.worker.envs.close()

    def _measures(self) -> Iterator[str]:
        """Yield the names of all measures, as `Evaluated` nests them."""
        several = self.splits.items() if len(self.splits) > 1 else ()
        first = next(iter(self.splits.values()))
        for prefix, split in [("", first), *((f"splits/{name}/", split) for name, split in several)]:
            types = split.types if len(split.types) > 1 else ()
            for part in ("", *(f"types/{name}/" for name in types)):
                yield from (f"{prefix}{part}{measure}" for measure in MEASURES)


def _outcomes(played: list[tuple[bool, float, str]]) -> Outcomes:
    numbers = np.array([(won, score) for won, score, _ in played], dtype=np.float64)
    success, score = numbers.mean(axis=0).tolist()
    return Outcomes(episodes=len(played), success=success, score=score)
