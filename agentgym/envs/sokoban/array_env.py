"""The array form of Sokoban for numeric learners: Box observations, Discrete actions, an action mask in info.

Levels, tasks, splits, seeds, rewards and ends are those of `agentgym.envs.sokoban.env.SokobanEnv`; there
is no text. It is a plain Gymnasium environment, outside of the text contract and of evaluation suites.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.utils import seeding
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from agentgym.core.arrays import Bools, Floats
from agentgym.core.options import check_options, check_reset_options, check_seed, options_of
from agentgym.core.tasks import Task, TaskSet
from agentgym.env import RESET_OPTIONS as SINGLE_OPTIONS
from agentgym.envs.sokoban.arrays import BoardBatch
from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.envs.sokoban.level import SYMBOLS
from agentgym.envs.sokoban.tiles import draw
from agentgym.errors import UsageError
from agentgym.vector.arguments import (
    as_seeds,
    autoreset_mode_of,
    checked_count,
    checked_mask,
    one_step_limit,
    per_slot,
)
from agentgym.vector.batching import object_array, spread, with_masks
from agentgym.vector.core import RESET_OPTIONS

BoardPlanes: TypeAlias = npt.NDArray[np.uint8]

PLANES = ("wall", "target", "box", "player")
"""Channels of an observation, each 0 or 1; a floor cell is 0 in all of them."""

_OF_PLANE = ("#", ".*+", "$*", "@+")
_TABLE = np.zeros((128, len(PLANES)), dtype=np.uint8)
for _symbol in SYMBOLS:
    _TABLE[ord(_symbol)] = [_symbol in symbols for symbols in _OF_PLANE]


class SokobanArrayEnv(gymnasium.Env[BoardPlanes, np.int64]):
    """`SokobanEnv` as arrays.

    **Observation**: uint8[height, width, 4], one-hot `PLANES`. Levels smaller than the set's largest are
    at the top left; the rest is wall.
    **Actions**: Discrete; number k is ``names[k]`` of the action set, whatever the board.
    **Reward, termination, truncation**: as `SokobanEnv`.
    **Info**: ``action_mask`` (int8, 1 for the actions that change the board, at least one), ``task_id``,
    ``turn``, ``won`` and ``progress``. A masked action may be played; it costs a step.

    Example:
        >>> env = SokobanArrayEnv(split="test")
        >>> observation, info = env.reset(options={"task": "6x6-1#6"})
        >>> observation.shape, env.names, info["action_mask"].tolist()
        ((6, 6, 4), ('up', 'down', 'left', 'right'), [0, 1, 0, 1])
    """

    metadata: dict[str, Any] = SokobanEnv.metadata

    def __init__(self, **options: Any):
        """Make the environment.

        Args:
            **options: those of `SokobanEnv` but ``effective_only``: the mask says which actions are.

        Raises:
            UsageError: an option is unknown, or has no such value.
        """
        known = {**options_of(SokobanEnv)}
        del known["effective_only"]
        check_options(options, known)
        self.game = SokobanEnv(**options)
        self.names = self.game.names
        self.render_mode = self.game.render_mode
        self.action_space = spaces.Discrete(len(self.names))
        shape = (*self.game.extent, len(PLANES))
        self.observation_space = spaces.Box(0, 1, shape, dtype=np.uint8)
        self._spec: EnvSpec | None = None

    @property
    def tasks(self) -> TaskSet:
        """The tasks of the split played."""
        return self.game.tasks

    @property
    def max_steps(self) -> int:
        """The step limit of an episode."""
        return self.game.max_steps

    @property
    def spec(self) -> EnvSpec | None:
        """As `agentgym.env.AgentEnv.spec`: its ``max_episode_steps`` is the step limit."""
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = copy.copy(spec)
        if self._spec is not None:
            self._spec.max_episode_steps = self.max_steps

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[BoardPlanes, dict[str, Any]]:
        """Start an episode; arguments and errors as `agentgym.env.AgentEnv.reset`."""
        key = check_reset_options(options, SINGLE_OPTIONS).get("task")
        if key is not None:
            self.tasks.find(key)  # raises before the generator is seeded
        super().reset(seed=check_seed(seed))
        self.game.np_random = self.np_random
        _, info = self.game.reset(options=options)
        return self._observe(), self._info(info)

    def step(self, action: Any) -> tuple[BoardPlanes, float, bool, bool, dict[str, Any]]:
        """Play one action, a number below ``action_space.n``.

        Returns observation, reward, terminated, truncated, info. `ResetNeeded` where no episode is running.
        """
        if not self.action_space.contains(action):
            raise UsageError(f"an action is a number from 0 to {len(self.names) - 1}, got {action!r}")
        _, reward, terminated, truncated, info = self.game.step(self.names[int(action)])
        return self._observe(), reward, terminated, truncated, self._info(info)

    def action_masks(self) -> Bools:
        """Return the mask in sb3-contrib's form: bool, True for the actions that change the board."""
        self.game.task  # noqa: B018 (raises before the first reset)
        return np.array(self.game.effective(), dtype=np.bool_)

    def render(self) -> Any:
        """Return the board as text (``ansi``) or as a picture (``rgb_array``), else None."""
        return self.game.render()

    def _observe(self) -> BoardPlanes:
        planes: BoardPlanes = _TABLE.take(self.game.symbols(), axis=0)
        return planes

    def _info(self, info: dict[str, Any]) -> dict[str, Any]:
        kept = {key: info[key] for key in ("task_id", "turn", "won", "progress")}
        return kept | {"action_mask": self.action_masks().astype(np.int8)}


class SokobanArrayVectorEnv(VectorEnv[Any, Any, Any]):
    """N episodes of `SokobanArrayEnv` stepped together: uint8[N, height, width, 4], MultiDiscrete.

    What reset and step return equals `gymnasium.vector.SyncVectorEnv` over `SokobanArrayEnv` to the bit, in
    each autoreset mode. ``reset(options={"tasks": [...], "reset_mask": bool[N]})`` names each
    slot's task, and leaves slots outside of the mask alone.
    """

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
            num_envs: number of slots, N.
            autoreset_mode: what happens to a slot whose episode is over.
            max_steps: step limit; None for 120.
            max_episode_steps: Gymnasium's name for ``max_steps``.
            **options: of `SokobanArrayEnv`.

        Raises:
            UsageError: fewer than one slot, an unknown mode or option, or two step limits.
        """
        num_envs = checked_count(num_envs)
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        limit = one_step_limit(max_steps, max_episode_steps)
        self.prototype = SokobanArrayEnv(max_steps=limit, **options)
        self.num_envs = num_envs
        self.names = self.prototype.names
        self.render_mode = self.prototype.render_mode
        self.metadata = {**self.prototype.metadata, "autoreset_mode": self.autoreset_mode}
        self.single_action_space = self.prototype.action_space
        self.single_observation_space = self.prototype.observation_space
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        game = self.prototype.game
        self._batch = BoardBatch(
            num_envs,
            game.extent.height * (game.extent.width + 1),
            game.actions,
            game.rewards,
            max_steps=game.max_steps,
            upstream_count=game.upstream_count,
        )
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        self._task_ids = object_array([None] * num_envs)
        self._over = np.zeros(num_envs, dtype=np.bool_)

    @property
    def tasks(self) -> TaskSet:
        """The tasks of the split played."""
        return self.prototype.tasks

    @property
    def max_steps(self) -> int:
        """The step limit of an episode."""
        return self.prototype.max_steps

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[BoardPlanes, dict[str, Any]]:
        """Start episodes in all slots, or in those of a mask.

        An int seed s seeds slot i with s + i; a list seeds each slot. ``options``: ``tasks`` (length N, by id
        or source id; None draws) and ``reset_mask`` (bool[N]).
        """
        n = self.num_envs
        given = check_reset_options(options, RESET_OPTIONS)
        chosen = checked_mask(given.get("reset_mask"), n)
        named = per_slot(given.get("tasks"), n, "tasks")
        seeds = as_seeds(seed, chosen, n)
        if any(self._task_ids[i] is None for i in set(range(n)) - set(chosen)):
            raise ResetNeeded("reset all slots once, without a mask")
        tasks = [None if named[i] is None else self.tasks.find(named[i]) for i in chosen]
        # nothing has changed so far, and nothing is refused from here on
        self._begin(chosen, tasks, seeds)
        if len(chosen) == n:
            return self._observe(), with_masks(self._columns(np.arange(n)), n)
        slots = np.array(chosen)
        return self._observe(), _masked(self._columns(slots), slots, n)

    def step(self, actions: Any) -> tuple[BoardPlanes, Floats, Bools, Bools, dict[str, Any]]:
        """Step every slot, with N numbers.

        Returns observations, rewards float64[N], terminations bool[N], truncations bool[N], infos.
        `ResetNeeded` where a slot has not begun, or its episode is over and the mode is DISABLED.
        """
        n = self.num_envs
        numbers = np.asarray(actions)
        if numbers.shape != (n,) or numbers.dtype.kind not in "iu" or not self._known(numbers):
            raise UsageError(f"actions are {n} numbers from 0 to {len(self.names) - 1}, got {actions!r:.60}")
        self._require_tasks("step()")
        over = np.flatnonzero(self._over)
        if over.size and self.autoreset_mode is AutoresetMode.DISABLED:
            raise ResetNeeded(f"the episode in slot {over[0]} is over: reset it first, with reset_mask")
        steps = self._batch.step(numbers)
        rewards, terminated, truncated = steps.rewards, steps.terminated, steps.truncated.copy()
        infos: dict[str, Any] = {}
        if over.size:  # NEXT_STEP: their action is ignored
            rewards[over], terminated[over], truncated[over] = 0.0, False, False
            self._begin(over.tolist())
        ended = terminated | truncated
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self._over = np.zeros(n, dtype=np.bool_)
            if ended.any():
                infos = self._finals(np.flatnonzero(ended))
                self._begin(np.flatnonzero(ended).tolist())
        else:
            self._over = ended
        every = np.arange(n)
        return self._observe(), rewards, terminated, truncated, with_masks(self._columns(every), n) | infos

    def action_masks(self) -> Bools:
        """Return bool[N, actions]: True for the actions that change the board."""
        self._require_tasks("action_masks()")
        return self._batch.effective()

    def render(self) -> tuple[Any, ...] | None:
        """Return one frame per slot: text (``ansi``) or pictures (``rgb_array``), else None."""
        if self.render_mode is not None:
            self._require_tasks("render()")
        if self.render_mode == "ansi":
            return tuple(self._batch.text(i) for i in range(self.num_envs))
        if self.render_mode == "rgb_array":
            game = self.prototype.game
            return tuple(draw(self._batch.symbols(None, game.extent), game.tile_size))
        return None

    # ---- inside ----------------------------------------------------------------------------

    def _require_tasks(self, call: str) -> None:
        if self._task_ids[-1] is None:
            raise ResetNeeded(f"a slot plays no task yet: call reset() before {call}")

    def _known(self, numbers: npt.NDArray[np.integer]) -> bool:
        return bool(numbers.min() >= 0 and numbers.max() < len(self.names))

    def _begin(
        self, slots: list[int], tasks: Sequence[Task | None] = (), seeds: Sequence[int | None] = ()
    ) -> None:
        """Start episodes; ``tasks`` and ``seeds`` are as many as ``slots``, or empty for none."""
        nothing = [None] * len(slots)
        for slot, named, seed in zip(slots, tasks or nothing, seeds or nothing, strict=True):
            generator = self._generators[slot]
            if generator is None or seed is not None:
                generator = self._generators[slot] = seeding.np_random(seed)[0]
            task = self.tasks.draw(generator) if named is None else named
            self._task_ids[slot] = task.id
            self._batch.load(slot, task.content)
            self._over[slot] = False

    def _observe(self) -> BoardPlanes:
        planes: BoardPlanes = _TABLE.take(self._batch.symbols(None, self.prototype.game.extent), axis=0)
        return planes

    def _columns(self, slots: npt.NDArray[np.intp]) -> dict[str, npt.NDArray[Any]]:
        batch = self._batch
        missing, boxes = batch.missing[slots], batch.boxes[slots]
        return {
            "task_id": self._task_ids[slots],
            "turn": batch.turns[slots],
            "won": missing == 0,
            "progress": (boxes - missing) / boxes,
            "action_mask": batch.effective(slots).astype(np.int8),
        }

    def _finals(self, ended: npt.NDArray[np.intp]) -> dict[str, Any]:
        """Return ``final_obs`` and ``final_info`` of slots whose episodes have just ended."""
        observations = list(self._observe()[ended])
        mask = np.zeros(self.num_envs, dtype=np.bool_)
        mask[ended] = True
        return {
            "final_obs": spread(object_array(observations), ended.tolist(), self.num_envs),
            "final_info": _masked(self._columns(ended), ended, self.num_envs),
            "_final_obs": mask,
            "_final_info": mask.copy(),
        }


def _masked(columns: dict[str, npt.NDArray[Any]], slots: npt.NDArray[np.intp], n: int) -> dict[str, Any]:
    """Spread columns of some slots over all n, and add the masks of these slots."""
    mask = np.zeros(n, dtype=np.bool_)
    mask[slots] = True
    infos: dict[str, Any] = {key: spread(column, slots.tolist(), n) for key, column in columns.items()}
    return infos | {f"_{key}": mask.copy() for key in columns}
