"""The plain form: N environments of one class in one process, over one read-only world."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from agentgym.core.queries import UnansweredError
from agentgym.core.types import Snapshot
from agentgym.vector.arguments import checked_rollouts, checked_seeds, per_slot
from agentgym.vector.batching import Moves, Starts, batch_observations, info_columns
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.slot_answers import Answered, SlotAnswers, Wake


class SerialVectorEnv(AgentVectorEnv):
    """N environments of one class in one process, sharing one read-only world.

    Example:
        >>> from agentgym.envs.ezpoints.env import EZPointsEnv
        >>> SerialVectorEnv(3, env_class=EZPointsEnv, split="test").num_envs
        3
    """

    @classmethod
    def of_split(cls, envs: AgentVectorEnv, split: str, num_envs: int = 1) -> SerialVectorEnv:
        """Return slots of another environment's kind, with its options, over another split; mode DISABLED.

        Args:
            envs: of any form.
            split: whose tasks are played.
            num_envs: number of slots.

        Raises:
            UsageError: there is no such split.
        """
        single = type(envs.prototype)
        options = {**envs.prototype._arguments[1], "split": split}
        return SerialVectorEnv(num_envs, env_class=single, autoreset_mode=AutoresetMode.DISABLED, **options)

    def _make_slots(self) -> None:
        self.envs = [self.prototype.spawn() for _ in range(self.num_envs)]
        self._seen: list[Any] = [None] * self.num_envs
        self._answers = SlotAnswers(self.envs, self.prototype)
        self._queries = bool(self.prototype.query_backends)

    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        found = {key: self.tasks.find(key) for key in set(tasks) if key is not None}
        picked = [
            self.envs[i]._pick(None if task is None else found[task], seed, self._rollouts[i])
            for i, task, seed in zip(slots, tasks, seeds, strict=True)
        ]
        if self._queries:
            rollouts = [self._rollouts[i] for i in slots]
            self._answers.begin_resets(slots, picked, rollouts)
            for _, reason in self._answers.settle(slots):
                self._answers.forget(slots)
                raise UnansweredError(reason)
            for i, task, rollout in zip(slots, picked, rollouts, strict=True):
                self.envs[i].answers = self._answers.take(i, (task.id, rollout))
        rows = []
        for i, task in zip(slots, picked, strict=True):
            self._seen[i], info = self.envs[i]._start(task)  # undone below if a later slot's reset fails
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
        has_queries, envs, seen = self._queries, self.envs, self._seen
        if has_queries:
            self.gather_answers(slots, actions)
            for i, action in zip(slots, actions, strict=True):
                envs[i].answers = self._answers.take(i, action)
        moves = []
        for i, action in zip(slots, actions, strict=True):
            move = envs[i]._play(action)  # `_advance` and `gather_answers` have made the checks of `step`
            seen[i] = move[0]
            moves.append(move)
        observations, rewards, terminations, truncations, rows = zip(*moves, strict=True)
        return Moves(
            batch_observations(observations),
            np.array(rewards, dtype=np.float64),
            np.array(terminations, dtype=np.bool_),
            np.array(truncations, dtype=np.bool_),
            info_columns(rows),
        )

    def gather_answers(self, slots: Sequence[int], actions: Sequence[str]) -> None:
        """Answer the actions' queries in all slots, those of one kind in one call, before any slot moves.

        Answers are kept for the call that plays the same actions.

        Raises:
            UnansweredError: names the slots whose questions have no answer.
        """
        self._answers.begin_steps(slots, actions)
        if failed := self._answers.settle(slots):
            raise UnansweredError.at(failed)

    def begin_resets(self, slots: Sequence[int], tasks: Sequence[str], rollouts: Sequence[int]) -> None:
        """Send the queries of resetting ``slots`` to ``tasks``, by id, for attempts number ``rollouts``."""
        self._answers.begin_resets(slots, [self.tasks.find(task) for task in tasks], rollouts)

    def ask_resets(self, slots: Sequence[int], tasks: Any, seeds: Any, rollouts: Any) -> None:
        """Send the queries that `reset_at` is going to have, of tasks drawn as well.

        ``slots``, ``tasks``, ``seeds`` and ``rollouts`` as `reset_at` takes them.
        """
        n, picked = len(slots), []
        keys, given = per_slot(tasks, n, "tasks"), checked_seeds(per_slot(seeds, n, "seeds"))
        attempts = checked_rollouts(per_slot(rollouts, n, "rollouts"))
        for i, key, seed, rollout in zip(slots, keys, given, attempts, strict=True):
            twin = self.prototype.spawn()
            twin._np_random = copy.deepcopy(self.envs[i].np_random)  # the slot's own must not advance
            picked.append(twin._pick(None if key is None else self.tasks.find(key), seed, rollout))
        self._answers.begin_resets(slots, picked, attempts)

    def begin_steps(self, slots: Sequence[int], actions: Sequence[str]) -> None:
        """Send the queries of playing actions."""
        self._answers.begin_steps(slots, actions)

    def collect_answers(self) -> Answered:
        """Return the slots whose answers have come since the last call; `step_at` or `reset_at` uses them."""
        return self._answers.collect()

    def wake_with(self, wake: Wake | None) -> None:
        """Have a function called when `collect_answers` may have more."""
        self._answers.wake_with(wake)

    def forget_answers(self, slots: Sequence[int]) -> None:
        """Ask no more for slots."""
        self._answers.forget(slots)

    def _observe_slots(self, slots: Sequence[int]) -> Any:
        return batch_observations([self._seen[i] for i in slots])

    def measures(self, slot: int) -> dict[str, float]:
        """Return the measures of the episode in a slot, as `AgentEnv.measures`."""
        return self.envs[slot].measures()

    def _snapshot_slot(self, slot: int) -> Snapshot:
        return self.envs[slot].snapshot()

    def _restore_slot(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        self._answers.forget([slot])
        self._seen[slot], info = self.envs[slot].restore(snapshot)
        return self._seen[slot], info
