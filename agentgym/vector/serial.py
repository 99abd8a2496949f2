"""The plain form: N environments of one class in one process, over one read-only world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from gymnasium.vector import AutoresetMode

from agentgym.env import AgentEnv
from agentgym.types import Snapshot
from agentgym.vector.batching import batch_observations, info_columns
from agentgym.vector.core import AgentVectorEnv, Moves, Starts, merge_step_limits


class SerialVectorEnv(AgentVectorEnv):
    """N environments of one class in one process, sharing one read-only world.

    Example:
        >>> from agentgym.envs.ezpoints.env import EZPointsEnv
        >>> SerialVectorEnv(3, env_class=EZPointsEnv, split="test").num_envs
        3
    """

    env_class: ClassVar[type[AgentEnv[Any]]]
    """The single environment, where a subclass fixes it."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        env_class: type[AgentEnv[Any]] | None = None,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_steps: int | None = None,
        max_episode_steps: int | None = None,
        **options: Any,
    ):
        """Make N slots.

        Args:
            num_envs: number of slots.
            env_class: the single environment; None for the class attribute of a subclass.
            autoreset_mode: what happens to a slot whose episode is over.
            max_steps: step limit; None for the suite's default.
            max_episode_steps: Gymnasium's name for ``max_steps``.
            **options: of the single environment; it rejects unknown ones.
        """
        limit = merge_step_limits(max_steps, max_episode_steps)
        single = env_class or self.env_class
        super().__init__(single(max_steps=limit, **options), num_envs, autoreset_mode)
        self._make_slots()

    def _make_slots(self) -> None:
        """Make the storage of the slots."""
        self.envs = [self.prototype.spawn() for _ in range(self.num_envs)]
        self._seen: list[Any] = [None] * self.num_envs

    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        rows = []
        for i, task, seed in zip(slots, tasks, seeds, strict=True):
            options = None if task is None else {"task": task}
            self._seen[i], info = self.envs[i].reset(seed=seed, options=options)
            rows.append(info)
        return Starts(self._observe_slots(slots), info_columns(rows))

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
