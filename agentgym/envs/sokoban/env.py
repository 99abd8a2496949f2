"""Sokoban as an environment: text, or text with a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from agentgym.core.options import PositiveInt
from agentgym.core.path_measures import measured_path
from agentgym.core.spaces import UnicodeText
from agentgym.core.suite_spec import SuiteSpec
from agentgym.core.tasks import DEFAULT_SIZES, Task
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.envs.sokoban.builtin.generator import Config
from agentgym.envs.sokoban.deadlock import is_deadlocked
from agentgym.envs.sokoban.engine import ACTIONS, REWARDS, ActionSet, RewardRule, play
from agentgym.envs.sokoban.level import BOX_ON_TARGET, Level
from agentgym.envs.sokoban.oracle import SokobanOracle, solution
from agentgym.envs.sokoban.suite import SUITE, TOOLS
from agentgym.envs.sokoban.tasks import builtin_or_file_tasks, extent_of
from agentgym.envs.sokoban.tiles import TileSize, draw, grid, pixels_of
from agentgym.errors import UsageError

ObsT = TypeVar("ObsT")

SokobanParity: TypeAlias = Literal["gym-sokoban"]

REJECTED = "Nothing happened: this action is not possible here.\n"
"""Line above the board after an action that was not accepted."""


class SokobanState(NamedTuple):
    """Snapshot state of a board."""

    board: bytes
    player: int
    on_target: int
    """Boxes on targets."""
    counted: int
    """Boxes on targets as the reward rule knows."""
    deadlock: bool


class _Sokoban(AgentEnv[ObsT]):
    """Common part of the text and the image form: everything but the observation."""

    suite: ClassVar[str] = SUITE.name
    suite_spec: ClassVar[SuiteSpec] = SUITE
    state_schema = 1
    load_may_fail = False
    state_type: ClassVar[Any] = SokobanState
    split_sizes: ClassVar[Mapping[str, int]] = DEFAULT_SIZES
    default_max_steps: ClassVar[int] = 120

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: str = "builtin",
        dim_room: tuple[int, int] = (6, 6),
        num_boxes: int = 1,
        max_optimal: PositiveInt | None = None,
        max_steps: int | None = None,
        actions: ActionSet = "agent",
        reward: RewardRule = "native",
        parity: SokobanParity | None = None,
        effective_only: bool = False,
        stream: bool = False,
        tile_size: TileSize = 16,
        render_mode: str | None = None,
    ):
        """Make the environment.

        Args:
            split: ``"train"``, ``"valid"`` or ``"test"``; a sub-folder where ``dataset`` has some.
            dataset: ``"builtin"``; a level file or a folder, by path or by a name such as
                ``"boxoban/medium"`` in the data directory.
            dim_room: height and width of built-in levels, walls included.
            num_boxes: number of boxes of built-in levels.
            max_optimal: limit on the shortest solution of built-in levels, in moves; None for all levels.
            max_steps: step limit; None for 120, the papers play 15.
            actions: ``"agent"``: up, down, left, right, each push-or-move; ``"full"``: gym-sokoban's
                nine: no operation, four pushes (that move where there is nothing to push) and four
                moves (that never push).
            reward: ``"native"``: -0.1 a step, +1 / -1 for a box on / off a target, +10 for all;
                ``"sparse10"``, also ``"sparse"``: 10 for all, else 0; ``"score+success"``: 1 for all, else 0.
            parity: ``"gym-sokoban"``: the first step is also paid for boxes that begin on a target, as in
                gym-sokoban.
            effective_only: whether only actions that change the board are accepted.
            stream: whether built-in levels are drawn without end, instead of the split's first ones.
            tile_size: pixels per cell of pictures: 16, or ``"tiny"`` for one.
            render_mode: ``"ansi"``, ``"rgb_array"`` (the board in tiles), ``"human"`` or None.

        Raises:
            UsageError: an option has no such value, or the data set no such split.
            MissingDataError: the data set is not there.
        """
        self.actions = ACTIONS[actions]
        self._number = {action.name: i for i, action in enumerate(self.actions)}
        self.names = tuple(self._number)
        self.rewards = REWARDS[reward]
        self.upstream_count = parity is not None
        self.effective_only = effective_only
        self.tile_size: TileSize = tile_size
        self.pixels = pixels_of(tile_size)
        config = _config(dim_room, num_boxes)
        tasks = builtin_or_file_tasks(split, dataset, config, stream=stream, max_optimal=max_optimal)
        self.extent = extent_of(tasks)
        data_key = f"{tasks.manifest['dataset']}:{self.extent.height}x{self.extent.width}"
        super().__init__(tasks, data_key=data_key, max_steps=max_steps, render_mode=render_mode)
        self.tools = TOOLS[actions]

    # ---- hooks -----------------------------------------------------------------------------

    def _load(self, task: Task) -> None:
        level: Level = task.content
        self._board = bytearray(level.board)
        self._player = level.player
        self._boxes = level.boxes
        self._on_target = level.on_target
        self._counted = 0 if self.upstream_count else level.on_target
        self._stride = level.stride
        self._deadlock = level.deadlock

    def _apply(self, action: str) -> Outcome:
        number = self._number.get(action)
        if number is None:
            return self._reject(action)
        _, rows, columns, pushes = self.actions[number]
        move = play(self._board, self._player, rows * self._stride + columns, pushes)
        self._player = move.player
        if move.pushed and not self._deadlock:
            self._deadlock = is_deadlocked(self._board, self._stride)
        return self._settle(move.gain, valid=move.moved or not self.effective_only)

    def _reject(self, action: str) -> Outcome:
        return self._settle(0, valid=False)

    def _settle(self, gain: int, *, valid: bool) -> Outcome:
        """Pay for a step, by the sign of the change of the count of boxes on targets."""
        now = self._on_target + gain
        change = (now > self._counted) - (now < self._counted)
        self._on_target = self._counted = now
        won = now == self._boxes
        return Outcome(self.rewards[2 * (change + 1) + won], valid, won)

    def _admissible(self) -> tuple[str, ...]:
        if not self.effective_only:
            return self.names
        return tuple(compress(self.names, self.effective()))

    def _status(self) -> Status:
        won = self._on_target == self._boxes
        return Status(won, float(won), self._on_target / self._boxes)

    def _measures(self) -> dict[str, float]:
        return measures_of(self.task, won=self._on_target == self._boxes, steps=self._turn)

    def _state(self) -> SokobanState:
        return SokobanState(bytes(self._board), self._player, self._on_target, self._counted, self._deadlock)

    def _check_state(self, task: Task, state: SokobanState, terminated: bool) -> None:
        level: Level = task.content
        if level.height > self.extent.height or level.width > self.extent.width:
            raise ValueError(f"its level is larger than {self.extent.height} x {self.extent.width}")
        level.check_reached(state.board, state.player)
        on_target = state.board.count(BOX_ON_TARGET)
        if state.on_target != on_target or not 0 <= state.counted <= level.boxes:
            raise ValueError("its counts are not those of its board")
        if state.deadlock and on_target == level.boxes:
            raise ValueError("a solved board is no deadlock")
        if terminated != (on_target == level.boxes):
            raise ValueError("an episode ends when all boxes are on targets")

    def _set_state(self, state: SokobanState) -> None:
        self._board = bytearray(state.board)
        self._player = state.player
        self._on_target = state.on_target
        # a snapshot may come from an environment with the other `parity`
        self._counted = state.counted if self.upstream_count else state.on_target
        self._deadlock = state.deadlock

    def _identity(self) -> Any:
        board = bytes(self._board)
        return (board, self._counted) if self.upstream_count else board

    def _extra_info(self) -> dict[str, Any]:
        return {"deadlock": self._deadlock}

    # ---- views -----------------------------------------------------------------------------

    def _text(self) -> str:
        """Return the text observation."""
        return self._board.decode("ascii") if self._valid else REJECTED + self._board.decode("ascii")

    def _picture(self) -> npt.NDArray[np.uint8]:
        picture: npt.NDArray[np.uint8] = draw(self.symbols()[None], self.tile_size)[0]
        return picture

    def symbols(self) -> npt.NDArray[np.uint8]:
        """Return the board as byte values of shape `extent`; beyond a smaller level there is wall."""
        return grid(bytes(self._board), self._stride - 1, self.extent)

    def effective(self) -> tuple[bool, ...]:
        """Return, for each action in order, whether it would change the board."""
        return tuple(
            play(self._board.copy(), self._player, rows * self._stride + columns, pushes).moved
            for _, rows, columns, pushes in self.actions
        )

    def state_text(self) -> str:
        """Return the content of `state_hash`, readable: the board, and all else that decides the future."""
        ended = " (ended)" if self._terminated else ""
        text = f"{self.suite} {self.task.id}{ended}\n{self._board.decode('ascii')}"
        return f"{text}\nboxes counted on targets: {self._counted}" if self.upstream_count else text

    def oracle(self) -> SokobanOracle:
        """Return a solver's policy: it wins every level that can be won within its limits."""
        return SokobanOracle(self.names)


class SokobanEnv(_Sokoban[str]):
    """Push every box onto a target.

    **Task**: a level. Built-in ones are generated; level files are read.
    **Observation**: the board in the symbols of .xsb files: ``#`` wall, space floor, ``.`` target,
    ``$`` box, ``*`` box on target, ``@`` player, ``+`` player on target.
    **Actions**: ``up``, ``down``, ``left`` and ``right``, which push where a box is; the option ``actions``
    has gym-sokoban's nine. Any other string changes nothing and costs a step.
    **Reward**: -0.1 a step, +1 / -1 for a box on / off a target, +10 for all; see the option ``reward``.
    **Termination**: all boxes are on targets.
    **Info**: ``deadlock`` says that a box is frozen off its target: the level is lost.

    Example:
        >>> env = SokobanEnv(split="test")
        >>> observation, info = env.reset(options={"task": "6x6-1#6"})
        >>> info["admissible_actions"]
        ('up', 'down', 'left', 'right')
    """

    def _observe(self) -> str:
        return self._text()


class VisualSokobanEnv(_Sokoban[dict[str, Any]]):
    """Sokoban with pictures: the text of `SokobanEnv`, and a picture of the board.

    An observation is ``{"text": str, "image": uint8[height, width, 3]}``. States, hashes and tasks are those
    of `SokobanEnv`. Levels smaller than the set's largest are drawn at the top left; the rest of the picture
    is wall.
    """

    def __init__(self, **options: Any):
        """Make the environment.

        Args:
            **options: those of `SokobanEnv`; ``tile_size`` sets the size of the picture.
        """
        super().__init__(**options)
        shape = (self.extent.height * self.pixels, self.extent.width * self.pixels, 3)
        self.observation_space = spaces.Dict(
            {"text": UnicodeText(), "image": spaces.Box(0, 255, shape, dtype=np.uint8)}
        )

    def _observe(self) -> dict[str, Any]:
        return {"text": self._text(), "image": self._picture()}


def measures_of(task: Task, *, won: bool, steps: int) -> dict[str, float]:
    """Return an episode's measures, against the shortest solution where it is known, else the solver's."""

    def fewest_moves() -> int | None:
        known: int | None = task.metadata.get("optimal_moves")
        if known is not None:
            return known
        level: Level = task.content
        moves = solution(level.board)
        return None if moves is None else len(moves)

    return measured_path(won=won, steps=steps, reference=fewest_moves)


def _config(dim_room: Any, num_boxes: int) -> Config:
    sizes = tuple(dim_room) if isinstance(dim_room, Sequence) else ()
    if len(sizes) != 2 or not all(type(number) is int for number in sizes):
        raise UsageError(f"dim_room is (height, width), got {dim_room!r:.60}")
    return Config(sizes[0], sizes[1], int(num_boxes))
