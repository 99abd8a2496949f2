"""The order in which a run plays its tasks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from agentgym.core.arrays import Ints
from agentgym.core.tasks import TaskSet
from agentgym.rollout.worker import EpisodeSpec
from agentgym.training.collect.curriculum import Curriculum

_SHUFFLE, _EPISODE = 0, 1
"""Purposes of the random streams derived from the seed."""


class TaskOrder:
    """An endless, fixed order of a split's tasks: shuffled anew each time all have been played.

    Under a curriculum these are the tasks of a stage, from the position on at which it begins.

    Example:
        >>> from agentgym.envs.ezpoints.env import EZPointsEnv
        >>> tasks = EZPointsEnv().tasks
        >>> order = TaskOrder(tasks, seed=3)
        >>> first, again = order.episodes(0, 2)
        >>> first.seed == again.seed, first.rollout, again.rollout
        (True, 0, 1)
        >>> len({order.episodes(position, 1)[0].task_id for position in range(len(tasks))}) == len(tasks)
        True
    """

    def __init__(self, tasks: TaskSet, seed: int, curriculum: Curriculum | None = None):
        """Fix the order of tasks; ``seed`` is of the order and of the episodes' environments."""
        self.tasks = tasks
        self.seed = seed
        self.curriculum = curriculum
        self._epoch = lru_cache(maxsize=4)(self._shuffled)

    def _shuffled(self, epoch: int, stage: int) -> Ints:
        stages = () if self.curriculum is None else (stage,)
        draws = np.random.default_rng(np.random.SeedSequence([self.seed, _SHUFFLE, epoch, *stages]))
        if self.curriculum is None:
            return draws.permutation(len(self.tasks))
        return draws.permutation(self.curriculum.tasks(stage))

    def _place(self, position: int) -> int:
        """Return the place in the split of a position's task."""
        curriculum = self.curriculum
        if curriculum is None:
            epoch, place = divmod(position, len(self.tasks))
            return int(self._epoch(epoch, 0)[place])
        stage = curriculum.stage_at(position)
        epoch, place = divmod(position - curriculum.start(stage), len(self._epoch(0, stage)))
        return int(self._epoch(epoch, stage)[place])

    def episodes(self, position: int, group_size: int) -> list[EpisodeSpec]:
        """Return the episodes of a group, which share task and environment seed; positions count from 0."""
        task = self.tasks[self._place(position)].id
        stream = np.random.SeedSequence([self.seed, _EPISODE, position])
        seed = int(stream.generate_state(1, np.uint64)[0])
        return [EpisodeSpec(task, seed, member) for member in range(group_size)]

    def state_dict(self) -> dict[str, Any]:
        """Return how far the curriculum has come; nothing without one."""
        return {} if self.curriculum is None else self.curriculum.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        if self.curriculum is not None:
            self.curriculum.load_state_dict(state)
