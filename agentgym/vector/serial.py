"""The plain form: N environments of one class in one process, over one read-only world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from agentgym.types import Snapshot
from agentgym.vector.batching import Moves, Starts, batch_observations, info_columns
from agentgym.vector.core import AgentVectorEnv


class SerialVectorEnv(AgentVectorEnv):
    """N environments of one class in one process, sharing one read-only world.

    Example:
        >>> from agentgym.envs.ezpoints.env import EZPointsEnv
        >>> SerialVectorEnv(3, env_class=EZPointsEnv, split="test").num_envs
        3
    """

    def _make_slots(self) -> None:
        self.envs = [self.prototype.spawn() for _ in range(self.num_envs)]
        self._seen: list[Any] = [None] * self.num_envs

    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        rows = []
        found = {key: self.tasks.find(key) for key in set(tasks) if key is not None}
        for i, task, seed in zip(slots, tasks, seeds, strict=True):
            named = None if task is None else found[task]
            self._seen[i], info = self.envs[i]._start(named, seed)  # undone here if a later slot's fails
            rows.append(info)
        return Starts(self._observe_slots(slots), info_columns(rows))

    def _checkpoint(self, slots: Sequence[int], seeds: Sequence[int | None]) -> list[tuple[int, Any, Any]]:
        envs, seen = self.envs, self._seen
        return [(i, envs[i]._checkpoint(seed), seen[i]) for i, seed in zip(slots, seeds, strict=True)]

    def _roll_back(self, checkpoint: list[tuple[int, Any, Any]]) -> None:
        for slot, before, seen in checkpoint:
            self.envs[slot]._roll_back(before)
            self._seen[slot] = seen

    def _step_slots(self, slots: Sequence[int], actions: Sequence[str]) -> Moves:
        n = len(slots)
        rewards = np.empty(n)
        terminations = np.empty(n, dtype=np.bool_)
        truncations = np.empty(n, dtype=np.bool_)
        rows = []
        for k, (i, action) in enumerate(zip(slots, actions, strict=True)):
            self._seen[i], rewards[k], terminations[k], truncations[k], info = self.envs[i].step(action)
            rows.append(info)
        return Moves(self._observe_slots(slots), rewards, terminations, truncations, info_columns(rows))

    def _observe_slots(self, slots: Sequence[int]) -> Any:
        return batch_observations([self._seen[i] for i in slots])

    def _snapshot_slot(self, slot: int) -> Snapshot:
        return self.envs[slot].snapshot()

    def _restore_slot(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        self._seen[slot], info = self.envs[slot].restore(snapshot)
        return self._seen[slot], info
