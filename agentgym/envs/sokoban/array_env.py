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
from gymnasium.vector.utils import batch_space

from agentgym.core.arrays import Bools, Floats, Ints, all_of
from agentgym.core.options import Option, check_options, check_reset_options, check_seed, options_of
from agentgym.core.tasks import TaskSet
from agentgym.env import RESET_OPTIONS as SINGLE_OPTIONS
from agentgym.envs.sokoban.env import SokobanEnv, VisualSokobanEnv
from agentgym.envs.sokoban.level import SYMBOLS
from agentgym.envs.sokoban.vector import SokobanVectorEnv
from agentgym.errors import UsageError
from agentgym.vector.batching import Infos
from agentgym.vector.core import AgentVectorEnv

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
        check_options(options, _options())
        self.game = SokobanEnv(**options)
        self.names = self.game.names
        self.render_mode = self.game.render_mode
        self.action_space, self.observation_space = _spaces(self.game)
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
        shared = {key: info[key] for key in ("task_id", "turn", "won", "progress")}
        return shared | {"action_mask": self.action_masks().astype(np.int8)}


class SokobanArrayVectorEnv(SokobanVectorEnv):
    """N episodes of `SokobanArrayEnv` stepped together: uint8[N, height, width, 4], MultiDiscrete.

    What reset and step return equals `gymnasium.vector.SyncVectorEnv` over `SokobanArrayEnv` to the bit, in
    each autoreset mode. ``reset(options={"tasks": [...], "reset_mask": bool[N]})`` names each
    slot's task, and leaves slots outside of the mask alone.
    """

    def __init__(self, num_envs: int = 1, **options: Any):
        """Make N slots.

        Args:
            num_envs: number of slots, N.
            **options: options of `SokobanArrayEnv`, and ``autoreset_mode``.

        Raises:
            UsageError: fewer than one slot, an unknown mode or option, or two step limits.
        """
        check_options(options, {**options_of(AgentVectorEnv), **_options()})
        super().__init__(num_envs, **options)

    def _prepare(self, num_envs: int) -> None:
        super()._prepare(num_envs)
        self.names = self.prototype.names
        self.single_action_space, self.single_observation_space = _spaces(self.prototype)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def step(self, actions: Any) -> tuple[BoardPlanes, Floats, Bools, Bools, dict[str, Any]]:
        """Step every slot, with N numbers; otherwise as `agentgym.vector.core.AgentVectorEnv.step`."""
        numbers = np.asarray(actions)
        if numbers.shape != (self.num_envs,) or numbers.dtype.kind not in "iu" or not self._known(numbers):
            raise UsageError(
                f"actions are {self.num_envs} numbers from 0 to {len(self.names) - 1}, got {actions!r:.60}"
            )
        return super().step([self.names[number] for number in numbers.tolist()])

    def action_masks(self) -> Bools:
        """Return bool[N, actions]: True for the actions that change the board."""
        if not all_of(self._begun):
            raise ResetNeeded("a slot plays no task yet: call reset() before action_masks()")
        return self._batch.effective()

    # ---- inside ----------------------------------------------------------------------------

    def _known(self, numbers: npt.NDArray[np.integer]) -> bool:
        return bool(numbers.min() >= 0 and numbers.max() < len(self.names))

    def _refresh(self, slots: Sequence[int]) -> None:
        """Make nothing: no text or hash is handed out."""

    def _observe_slots(self, slots: Sequence[int]) -> BoardPlanes:
        where = None if slots is self._every_slot else np.array(slots)
        planes: BoardPlanes = _TABLE.take(self._batch.symbols(where, self.prototype.extent), axis=0)
        return planes

    def _infos(self, where: Ints | None) -> Infos:
        """Return fresh columns for slots; None for all of them."""
        at: Any = slice(None) if where is None else where
        batch = self._batch
        missing, boxes = batch.missing[at], batch.boxes[at]
        return {
            "task_id": self._task_ids[at].copy(),
            "turn": batch.turns[at].copy(),
            "won": missing == 0,
            "progress": (boxes - missing) / boxes,
            "action_mask": batch.effective(where).astype(np.int8),
        }


def _options() -> dict[str, Option]:
    """Return the options of the array forms: the mask says which actions are effective."""
    known = {**options_of(SokobanEnv)}
    del known["effective_only"]
    return known


def _spaces(game: SokobanEnv | VisualSokobanEnv) -> tuple[spaces.Discrete, gymnasium.Space[BoardPlanes]]:
    """Return the spaces of actions and observations."""
    shape = (*game.extent, len(PLANES))
    planes: Any = spaces.Box(0, 1, shape, dtype=np.uint8)  # its annotation knows no unsigned numbers
    return spaces.Discrete(len(game.names)), planes
