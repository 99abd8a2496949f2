"""Sokoban as arrays: N episodes on one `BoardBatch`, equal to N single environments bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding

from agentgym.core.arrays import Ints
from agentgym.core.generators import GeneratorState, restored_generator
from agentgym.core.hashing import StateHasher, canonical
from agentgym.core.tasks import Task
from agentgym.core.types import Snapshot
from agentgym.envs.sokoban.arrays import BoardBatch
from agentgym.envs.sokoban.deadlock import is_deadlocked
from agentgym.envs.sokoban.env import REJECTED, SokobanEnv, SokobanState, VisualSokobanEnv, measures_of
from agentgym.envs.sokoban.level import Level
from agentgym.envs.sokoban.tiles import draw
from agentgym.vector.arguments import as_slots, checked_count
from agentgym.vector.batching import (
    Infos,
    Moves,
    Starts,
    info_rows,
    object_array,
    unbatch_observations,
)
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.serial import SerialVectorEnv


class _Scope(NamedTuple):
    """Scope of a slot's state hashes."""

    prefix: bytes
    """Bytes that `canonical` puts before those of a board."""
    length: int
    """Length of the board's text."""
    hasher: StateHasher


class SokobanVectorEnv(AgentVectorEnv):
    """N episodes of `SokobanEnv` on arrays.

    Texts and hashes are kept per slot and made anew only where the state changed.
    """

    env_class: ClassVar[type[SokobanEnv | VisualSokobanEnv]] = SokobanEnv
    prototype: SokobanEnv | VisualSokobanEnv

    # ---- hooks -----------------------------------------------------------------------------

    def _make_slots(self) -> None:
        single, num_envs = self.prototype, self.num_envs
        self._batch = BoardBatch(
            num_envs,
            single.extent.height * (single.extent.width + 1),
            single.actions,
            single.rewards,
            max_steps=single.max_steps,
            upstream_count=single.upstream_count,
        )
        self._number = {name: i for i, name in enumerate(single.names)}
        self._weights = 1 << np.arange(len(single.names))  # an action set is a sum of these
        self._subsets: dict[int, tuple[str, ...]] = {}
        self._tasks: list[Task | None] = [None] * num_envs
        self._scopes: dict[int, _Scope] = {}
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._texts = [""] * num_envs
        self._task_ids = np.full(num_envs, None, dtype=object)
        self._task_types = np.full(num_envs, None, dtype=object)
        self._hashes = [""] * num_envs
        self._valid = np.ones(num_envs, dtype=np.bool_)
        self._truncated = np.zeros(num_envs, dtype=np.bool_)
        self._deadlocks = np.zeros(num_envs, dtype=np.bool_)

    def _checkpoint(self, slots: Sequence[int], seeds: Sequence[int | None]) -> None:
        """Keep nothing: once tasks and seeds are checked, no reset of a level fails."""

    def _roll_back(self, checkpoint: None) -> None:
        pass

    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        found = {key: self.tasks.find(key) for key in set(tasks) if key is not None}
        for slot, key, seed in zip(slots, tasks, seeds, strict=True):
            generator = self._generators[slot]
            if seed is not None or (generator is None and key is None):
                generator = self._generators[slot] = seeding.np_random(seed)[0]
            if key is None:
                assert generator is not None
                self._begin(slot, self.tasks.draw(generator))
            else:
                self._begin(slot, found[key])
        self._refresh(slots)
        return Starts(self._observe_slots(slots), self._infos(np.array(slots)))

    def _step_slots(self, slots: Sequence[int], actions: Sequence[str]) -> Moves:
        idle = len(self._number)
        number_of = self._number.get
        numbers = np.array([number_of(action, idle) for action in actions])
        where = None if slots is self._every_slot else np.array(slots)
        steps = self._batch.step(numbers, where)
        valid = steps.moved if self.prototype.effective_only else numbers != idle
        if where is None:
            self._valid, self._truncated = valid, steps.truncated
        else:
            self._valid[where], self._truncated[where] = valid, steps.truncated
        if self.prototype.upstream_count:  # the count may change where nothing moves
            self._refresh(slots)
        else:
            self._refresh([slots[k] for k in np.flatnonzero(steps.moved).tolist()])
        for k in np.flatnonzero(steps.pushed).tolist():
            slot = slots[k]
            if not self._deadlocks[slot]:
                self._deadlocks[slot] = is_deadlocked(self._batch.board(slot), int(self._batch.strides[slot]))
        infos = self._infos(where)
        return Moves(
            self._observe_slots(slots), steps.rewards, steps.terminated, steps.truncated.copy(), infos
        )

    def _observe_slots(self, slots: Sequence[int]) -> Any:
        return self._observed_texts(slots)

    def _snapshot_slot(self, slot: int) -> Snapshot:
        batch, single = self._batch, self.prototype
        generator = self._generators[slot]
        missing = int(batch.missing[slot])
        on_target = int(batch.boxes[slot]) - missing
        # single environments count either way; where nothing is left to compare, the counts are equal
        counted = int(batch.counted[slot]) if single.upstream_count else on_target
        return Snapshot(
            single.suite,
            single.state_schema,
            single.data_key,
            self._tasks[slot],
            SokobanState(
                batch.board(slot), batch.player(slot), on_target, counted, bool(self._deadlocks[slot])
            ),
            int(batch.turns[slot]),
            bool(self._valid[slot]),
            missing == 0,
            bool(self._truncated[slot]),
            GeneratorState.of(generator),
        ).taken_by(single._arguments)

    def measures(self, slot: int) -> dict[str, float]:
        """Return the measures of the episode in a slot, as `AgentEnv.measures`."""
        (slot,) = as_slots([slot], self.num_envs)
        task = self._tasks[slot]
        if task is None:
            raise ResetNeeded(f"slot {slot} plays no task yet: call reset() before measures()")
        won, steps = int(self._batch.missing[slot]) == 0, int(self._batch.turns[slot])
        return self.prototype.suite_spec.checked(measures_of(task, won=won, steps=steps))

    def _restore_slot(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        snapshot = self.prototype._check_snapshot(snapshot)
        self._begin(slot, snapshot.task)
        state: SokobanState = snapshot.state
        level: Level = snapshot.task.content
        batch = self._batch
        batch.put(slot, state.board, state.player, level.stride, level.boxes, level.boxes - state.on_target)
        batch.counted[slot] = state.counted
        batch.turns[slot] = snapshot.turn
        self._valid[slot] = snapshot.valid
        self._truncated[slot] = snapshot.truncated
        self._deadlocks[slot] = state.deadlock
        self._generators[slot] = restored_generator(snapshot, self._generators[slot])
        self._refresh([slot])
        (observation,) = unbatch_observations(self._observe_slots([slot]), 1)
        (info,) = info_rows(self._infos(np.array([slot])), 1)
        return observation, info

    # ---- inside ----------------------------------------------------------------------------

    def _begin(self, slot: int, task: Task) -> None:
        level: Level = task.content
        if self._task_ids[slot] != task.id:
            prefix = canonical(level.board)[: -len(level.board)]
            hasher = StateHasher(self.prototype.suite, self.prototype.state_schema, task.id)
            self._scopes[slot] = _Scope(prefix, len(level.board), hasher)
        self._tasks[slot] = task
        self._task_ids[slot], self._task_types[slot] = task.id, task.type
        self._batch.load(slot, level)
        self._deadlocks[slot] = level.deadlock
        self._valid[slot] = True
        self._truncated[slot] = False

    def _refresh(self, slots: Sequence[int]) -> None:
        """Make texts and hashes of slots anew."""
        batch, texts, hashes, scopes = self._batch, self._texts, self._hashes, self._scopes
        boards, size = batch.boards.tobytes(), batch.size
        running = batch.missing.tolist()
        upstream = self.prototype.upstream_count
        for slot in slots:
            prefix, length, hasher = scopes[slot]
            board = boards[slot * size : slot * size + length]
            texts[slot] = board.decode("ascii")
            # the prefix saves `canonical` the look at type and length
            state = canonical((board, int(batch.counted[slot]))) if upstream else prefix + board
            hashes[slot] = hasher.hash(state, not running[slot])

    def _observed_texts(self, slots: Sequence[int]) -> tuple[str, ...]:
        if self._valid.all():
            return tuple(self._texts if slots is self._every_slot else [self._texts[i] for i in slots])
        return tuple(
            self._texts[i] if valid else REJECTED + self._texts[i]
            for i, valid in zip(slots, self._valid[list(slots)].tolist(), strict=True)
        )

    def _infos(self, where: Ints | None) -> Infos:
        """Return fresh columns for slots; None for all of them."""
        at: Any = slice(None) if where is None else where
        batch = self._batch
        hashes = self._hashes if where is None else [self._hashes[slot] for slot in where.tolist()]
        missing, boxes = batch.missing[at], batch.boxes[at]
        won = missing == 0
        return {
            "task_id": self._task_ids[at].copy(),
            "task_type": self._task_types[at].copy(),
            "turn": batch.turns[at].copy(),
            "state_hash": object_array(hashes),
            "admissible_actions": self._admissible(where, won | self._truncated[at]),
            "action_is_valid": self._valid[at].copy(),
            "won": won,
            "score": won.astype(np.float64),
            "progress": (boxes - missing) / boxes,
            "deadlock": self._deadlocks[at].copy(),
        }

    def _admissible(self, where: Ints | None, ended: npt.NDArray[np.bool_]) -> npt.NDArray[np.object_]:
        column = np.empty(len(ended), dtype=object)
        if self.prototype.effective_only:
            codes = self._batch.effective(where) @ self._weights
            column[:] = [self._subset(code) for code in codes.tolist()]
        else:
            column.fill(self.prototype.names)
        for k in np.flatnonzero(ended).tolist():
            column[k] = ()
        return column

    def _subset(self, code: int) -> tuple[str, ...]:
        """Return the actions whose bits are set in ``code``."""
        names = self._subsets.get(code)
        if names is None:
            names = tuple(name for i, name in enumerate(self.prototype.names) if code >> i & 1)
            self._subsets[code] = names
        return names


ARRAYS_FROM = 5
"""Slots from which on arrays pay; fewer go faster one by one."""


def sokoban_vector_env(num_envs: int = 1, **options: Any) -> AgentVectorEnv:
    """Return N episodes of `SokobanEnv` in the faster of two forms, which are equal bit for bit.

    Args:
        num_envs: slots.
        **options: options of `SokobanVectorEnv`.
    """
    if checked_count(num_envs) < ARRAYS_FROM:
        return SerialVectorEnv(num_envs, env_class=SokobanEnv, **options)
    return SokobanVectorEnv(num_envs, **options)


class VisualSokobanVectorEnv(SokobanVectorEnv):
    """N episodes of `VisualSokobanEnv` on arrays, drawn together."""

    env_class: ClassVar[type[SokobanEnv | VisualSokobanEnv]] = VisualSokobanEnv

    def _observe_slots(self, slots: Sequence[int]) -> Any:
        return {"text": self._observed_texts(slots), "image": self._pictures(slots)}

    def _pictures(self, slots: Sequence[int]) -> npt.NDArray[np.uint8]:
        where = None if slots is self._every_slot else np.array(slots)
        return draw(self._batch.symbols(where, self.prototype.extent), self.prototype.tile_size)
