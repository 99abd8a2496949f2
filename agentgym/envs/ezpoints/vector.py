"""N games of EZPoints as arrays: a step is a look-up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode

from agentgym.env import GeneratorState, restored_generator
from agentgym.envs.ezpoints.cards import pair_of
from agentgym.envs.ezpoints.env import EZPointsEnv, title
from agentgym.envs.ezpoints.picture import card_index, paint
from agentgym.envs.ezpoints.table import COLUMNS, NO_TOKEN, table
from agentgym.hashing import StateHasher
from agentgym.tasks import Task
from agentgym.types import Snapshot
from agentgym.vector.batching import Infos, info_rows, object_array, unbatch_observations
from agentgym.vector.core import AgentVectorEnv, Moves, Starts, merge_step_limits


class EZPointsVectorEnv(AgentVectorEnv):
    """`EZPointsEnv`, N at a time; equal to N single environments step for step and bit for bit."""

    prototype: EZPointsEnv

    def __init__(
        self,
        num_envs: int = 1,
        *,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        max_steps: int | None = None,
        max_episode_steps: int | None = None,
        **options: Any,
    ):
        """Make N slots.

        Args:
            num_envs: number of slots.
            autoreset_mode: what happens to a slot whose episode is over.
            max_steps: step limit; None for 15.
            max_episode_steps: Gymnasium's name for ``max_steps``.
            **options: of `EZPointsEnv`, which rejects unknown ones.
        """
        limit = merge_step_limits(max_steps, max_episode_steps)
        super().__init__(EZPointsEnv(max_steps=limit, **options), num_envs, autoreset_mode)
        self._table = table()
        self._row = np.zeros(num_envs, dtype=np.intp)
        self._turn = np.zeros(num_envs, dtype=np.int64)
        self._valid = np.ones(num_envs, dtype=np.bool_)
        self._truncated = np.zeros(num_envs, dtype=np.bool_)
        self._tasks: list[Task] = [self.tasks[0]] * num_envs
        self._hashers: list[StateHasher] = [StateHasher("", 0, "")] * num_envs
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._cards = np.zeros((num_envs, 2), dtype=np.intp)
        self._ids, self._types, self._titles = (np.empty(num_envs, dtype=object) for _ in range(3))

    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        for i, key, seed in zip(slots, tasks, seeds, strict=True):
            if seed is not None:
                self._generators[i], _ = seeding.np_random(seed)
            self._begin(i, self._draw(i) if key is None else self.tasks.find(key))
        return Starts(self._observe_slots(slots), self._infos(slots))

    def _step_slots(self, slots: Sequence[int], actions: Sequence[str]) -> Moves:
        where = np.array(slots)
        columns = [COLUMNS.get(action, NO_TOKEN) for action in actions]
        before, rewards = self._row[where], self.prototype.rewards
        rows = self._table.next[before, columns]
        accepted = self._table.accepts[before, columns]
        over, won = self._table.over[rows], self._table.won[rows]
        self._row[where] = rows
        self._valid[where] = accepted
        self._turn[where] += 1
        self._truncated[where] = truncated = ~over & (self._turn[where] >= self.max_steps)
        paid = np.where(
            over, np.where(won, rewards.won, rewards.lost), np.where(accepted, 0.0, rewards.rejected)
        )
        return Moves(self._observe_slots(slots), paid, over, truncated, self._infos(slots))

    def _observe_slots(self, slots: Sequence[int]) -> Any:
        where = np.array(slots)
        rows = self._row[where]
        bodies = self._table.bodies[rows, self._valid[where].astype(np.intp)]
        texts = tuple((self._titles[where] + bodies).tolist())
        if not self.prototype.shows_image:
            return texts
        left, right = self._cards[where].T
        return {"text": texts, "image": paint(left, right, self._table.tiles[rows])}

    def _snapshot_slot(self, slot: int) -> Snapshot:
        generator, row = self._generators[slot], self._row[slot]
        return Snapshot(
            suite=self.prototype.suite,
            schema=self.prototype.state_schema,
            data=self.prototype.data_key,
            task=self._tasks[slot],
            state=self._table.tokens[row],
            turn=int(self._turn[slot]),
            valid=bool(self._valid[slot]),
            terminated=bool(self._table.over[row]),
            truncated=bool(self._truncated[slot]),
            rng=GeneratorState.of(generator),
        )

    def _restore_slot(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        self.prototype.restore(snapshot)  # checks that it belongs here
        self._begin(slot, snapshot.task)
        self._row[slot] = self._table.rows[pair_of(snapshot.task.content), snapshot.state]
        self._turn[slot] = snapshot.turn
        self._valid[slot] = snapshot.valid
        self._truncated[slot] = snapshot.truncated
        self._generators[slot] = restored_generator(snapshot, self._generators[slot])
        (observation,) = unbatch_observations(self._observe_slots([slot]), 1)
        (info,) = info_rows(self._infos([slot]), 1)
        return observation, info

    def _draw(self, slot: int) -> Task:
        generator = self._generators[slot]
        if generator is None:
            self._generators[slot] = generator = seeding.np_random()[0]
        return self.tasks.draw(generator)

    def _begin(self, slot: int, task: Task) -> None:
        self._tasks[slot] = task
        self._hashers[slot] = StateHasher(self.prototype.suite, self.prototype.state_schema, task.id)
        self._ids[slot], self._types[slot], self._titles[slot] = task.id, task.type, title(task.content)
        self._cards[slot] = [card_index(card) for card in task.content]
        self._row[slot] = self._table.rows[pair_of(task.content), ()]
        self._turn[slot] = 0
        self._valid[slot] = True
        self._truncated[slot] = False

    def _infos(self, slots: Sequence[int]) -> Infos:
        where = np.array(slots)
        rows = self._row[where]
        won = self._table.won[rows]
        score = won.astype(np.float64)
        hashers, states, over = self._hashers, self._table.states, self._table.over[rows].tolist()
        hashes = [
            hashers[i].hash(states[row], end) for i, row, end in zip(slots, rows.tolist(), over, strict=True)
        ]
        admissible = self._table.admissible[rows]
        for k in np.flatnonzero(self._truncated[where]):
            admissible[k] = ()
        return {
            "task_id": self._ids[where],
            "task_type": self._types[where],
            "turn": self._turn[where],
            "state_hash": object_array(hashes),
            "admissible_actions": admissible,
            "action_is_valid": self._valid[where],
            "won": won,
            "score": score,
            "progress": score.copy(),
        }
