"""ALFWorld as an environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

from agentgym.core.path_measures import measured_path
from agentgym.core.rewards import RewardScheme
from agentgym.core.snapshots import Undo
from agentgym.core.suite_spec import SuiteSpec
from agentgym.core.tasks import Task, TaskSet
from agentgym.env import AgentEnv, Outcome, Status
from agentgym.envs.alfworld.builtin.tasks import builtin_tasks
from agentgym.envs.alfworld.engine.dialects import Dialect, current_logic
from agentgym.envs.alfworld.engine.scene import START, Scene, trace
from agentgym.envs.alfworld.engine.textworld import TextWorldEngine
from agentgym.envs.alfworld.oracle import ALFWorldOracle, first_plan
from agentgym.envs.alfworld.source import GameText, load_scene, read_game
from agentgym.envs.alfworld.suite import SUITE
from agentgym.envs.alfworld.tasks import OnError, check_types, stored_tasks
from agentgym.errors import UsageError
from agentgym.vector.serial import SerialVectorEnv

GameEngine: TypeAlias = Literal["native", "textworld"]
ObservationMode: TypeAlias = Literal["plain", "augmented"]

REJECTED = "Nothing happens."
"""Answer of the real engine to a command that it does not know."""

HELP = "help"


class ALFWorldState(NamedTuple):
    """Snapshot state of a game."""

    bits: int
    """Bits of the state, as `agentgym.envs.alfworld.engine.game.Game` reads them."""
    text: str
    """The answer to the last command that was accepted."""
    place: str
    """The receptacle gone to last."""
    moved: tuple[str, ...]
    """Objects that were put down, with status and place; oldest first."""
    commands: tuple[str, ...] = ()
    """Accepted commands, for an engine that knows no other way back to a state."""


class ALFWorldEnv(AgentEnv[str]):
    """Do a household task by text commands.

    **Task**: a game: a room, its receptacles and objects, and a goal of one of six families.
    **Observation**: the room and the goal at first, then the answer to each command.
    **Actions**: the commands that the game admits now, such as ``go to shelf 1`` or ``take mug 2 from
    shelf 1``. Any other string answers that nothing happens, changes nothing and costs a step.
    **Reward**: 1 for reaching the goal, else 0; with ``reward="sparse10"`` 10, with ``"score+success"``
    (StepPO's) 1.
    **Termination**: the goal is reached. **Score**: won as 0 or 1; **progress**: the share of the goal's
    conditions that are met.
    **Info**: ``goal`` (the task's sentence), ``location`` (the receptacle gone to last), ``held`` (what is
    held, with its status) and ``moved`` (what was put down where). Location and moved tell of the past:
    where places are shared or things were put back, states that hash equal differ in them.

    Example:
        >>> env = ALFWorldEnv(split="valid_seen")
        >>> observation, info = env.reset(seed=0)
        >>> info["location"], info["held"], info["moved"]
        ('middle of a room', 'nothing', ())
    """

    suite: ClassVar[str] = SUITE.name
    suite_spec: ClassVar[SuiteSpec] = SUITE
    state_schema = 2
    past_schemas: ClassVar[tuple[int, ...]] = (1,)
    splits: ClassVar[tuple[str, ...]] = ("train", "valid_seen", "valid_unseen")
    split_sizes: ClassVar[Mapping[str, int]] = dict(zip(splits, (10_000, 1_000, 1_000), strict=True))
    state_type: ClassVar[Any] = ALFWorldState
    default_max_steps: ClassVar[int] = 50
    past_keys: ClassVar[frozenset[str]] = frozenset({"location", "moved"})

    def __init__(
        self,
        *,
        split: str = "train",
        dataset: str = "builtin",
        engine: GameEngine = "native",
        observation: ObservationMode = "plain",
        dialect: Dialect = "game",
        show_help: bool = True,
        task_types: Iterable[str] | None = None,
        difficulty: str | None = None,
        reward: RewardScheme = "native",
        max_steps: int | None = None,
        on_error: OnError = "raise",
        render_mode: str | None = None,
    ):
        """Make the environment.

        Args:
            split: ``"train"``, ``"valid_seen"``, ``"valid_unseen"``; published games also ``"valid_train"``.
            dataset: ``"builtin"``; ``"official"`` or ``"alfworld-2.1.3/official"``, the published games in
                the data directory; or the path of a folder or archive of games.
            engine: ``"native"``; ``"textworld"``: the original engine (extra ``alfworld``), thousands of
                times slower.
            observation: ``"plain"``; ``"augmented"`` adds a line with the location, the held object and
                the moved objects.
            dialect: wording and rules: ``"game"``: those of each game's file; ``"current"``: the newest
                published ones.
            show_help: whether the command ``help`` is accepted where a game has it.
            task_types: families: ``pick``, ``look``, ``clean``, ``heat``, ``cool``, ``pick2``; None for all.
            difficulty: difficulty of built-in games: ``"easy"``, ``"medium"``, ``"hard"``; None for all.
            reward: for the goal: 1 if ``"native"`` or ``"score+success"``, 10 if ``"sparse10"``.
            max_steps: step limit; None for 50.
            on_error: unreadable games: ``"raise"``; ``"skip"`` plays the others, and names the unreadable
                ones in a warning and in ``env.tasks.failures``.
            render_mode: ``"ansi"``, ``"rgb_array"``, ``"human"`` or None.

        Raises:
            UsageError: an option has no such value, the data set no such split, or a game is no good.
            MissingDataError: the data set is not there.
        """
        if dialect == "current":
            current_logic()  # raises where it is missing, before any game is played
        if engine == "textworld":
            TextWorldEngine()
        self.engine, self.dialect, self.show_help = engine, dialect, show_help
        self.augmented = observation == "augmented"
        types = check_types(task_types)
        if dataset == "builtin":
            tasks: TaskSet = builtin_tasks(split, difficulty=difficulty, types=types)
        elif difficulty is not None:
            raise UsageError("difficulty goes with dataset='builtin': other games are of none")
        else:
            tasks = stored_tasks(split, dataset, types=types, dialect=dialect, on_error=on_error)
        data_key = f"{tasks.manifest['dataset']}:{dialect}:{engine}"
        self._real: TextWorldEngine | None = None
        self.load_may_fail = dataset != "builtin" or engine == "textworld"
        super().__init__(tasks, data_key=data_key, max_steps=max_steps, render_mode=render_mode)
        self.reward_scheme = reward

    # ---- hooks -----------------------------------------------------------------------------

    def _load(self, task: Task) -> None:
        self._scene: Scene = load_scene(task.content, self.dialect)
        self._game = self._scene.game
        self._stand(self._game.initial)
        self._text = self._scene.intro
        self._place = START
        self._moved: tuple[str, ...] = ()
        self._commands: tuple[str, ...] = ()
        if self.engine == "textworld":
            text = read_game(task.content, self.dialect)
            real = TextWorldEngine()  # a new one: a bad game must leave the last engine playing
            self._text = real.start(text.domain, text.grammar, text.problem)
            self._real = real

    def _checkpoint(self, seed: int | None) -> Undo:
        undo = super()._checkpoint(seed)
        return undo if self._real is None else undo._replace(more=self._real)

    def _roll_back(self, undo: Undo) -> None:
        super()._roll_back(undo)
        self._real = undo.more  # the former engine is still at its state

    def _stand(self, bits: int) -> None:
        self._bits = bits
        self._choices = self._game.choices(bits)

    def _apply(self, action: str) -> Outcome:
        command = action.strip()
        operation = self._game.find(self._choices, command)
        if operation is None or (command == HELP and not self.show_help):
            return Outcome(0.0, valid=False)
        place, moved = trace(command, self._scene.hands(self._bits))
        self._stand(self._game.apply(self._bits, operation))
        if self._real is None:
            self._text = self._game.feedback(operation, self._bits)
        else:
            self._text = self._real.step(command)
            self._commands = (*self._commands, command)
        if place:
            self._place = place
        elif moved:
            self._moved = (*self._moved, moved)
        won = self._status().won
        return Outcome(float(won), terminated=won)

    def _observe(self) -> str:
        text = self._text if self._valid else REJECTED
        if not self.augmented:
            return text
        held = self._scene.hands(self._bits)
        text = f"{text}\nLocation: {self._place}. Items in hand (status): {held}."
        return f"{text} Moved items: {', '.join(self._moved)}." if self._moved else text

    def shown_text(self) -> str:
        """Return the observation, below the goal where it lacks that."""
        text, goal = super().shown_text(), f"Your task is to: {self._scene.goal}"
        return text if self._scene.goal in text else f"{goal}\n\n{text}"

    def _admissible(self) -> tuple[str, ...]:
        commands = self._choices.commands if self._real is None else self._real.commands
        if self.show_help or HELP not in commands:
            return commands
        return tuple(command for command in commands if command != HELP)

    def _accepts(self, action: str) -> bool:
        """Blanks around a command do not matter."""
        return action.strip() in self.admissible_actions()

    def _status(self) -> Status:
        status = self._scene.standing(self._bits)
        if self._real is None:
            return status
        return Status(self._real.won, float(self._real.won), status.progress)

    def _measures(self) -> dict[str, float]:
        return measured_path(won=self._status().won, steps=self._turn, reference=self._fewest_steps)

    def _fewest_steps(self) -> int | None:
        """Return the length of the game's shortest plan where it is known, else of the planner's."""
        known: int | None = self.task.metadata.get("optimal_steps")
        if known is not None:
            return known
        plan = first_plan(self.task.content, self.dialect)
        return None if plan is None else len(plan)

    def _state(self) -> ALFWorldState:
        return ALFWorldState(self._bits, self._text, self._place, self._moved, self._commands)

    def _check_state(self, task: Task, state: ALFWorldState, terminated: bool) -> None:
        scene = load_scene(task.content, self.dialect)
        scene.game.check_state(state.bits)
        if terminated != scene.standing(state.bits).won:
            raise ValueError("an episode ends when the goal is reached")
        if state.commands and self.engine == "native":
            raise ValueError("it is of another engine")

    def _set_state(self, state: ALFWorldState) -> None:
        bits, self._text, self._place, self._moved, self._commands = state
        self._stand(bits)
        if self._real is not None:
            self._real.restart()
            for command in self._commands:
                self._real.step(command)

    def spawn(self) -> Self:
        """Return another environment over the same tasks, with an engine of its own."""
        twin = super().spawn()
        twin._real = None
        return twin

    def oracle(self) -> ALFWorldOracle:
        """Return a planner's policy: it wins from every state that the goal can be reached from."""
        return ALFWorldOracle(self.dialect)

    def walkthrough(self, task: Task) -> tuple[str, ...] | None:
        """Return the commands recorded with a game, which win it; None where its dialect has none."""
        text: GameText = task.content.read()
        return text.walkthrough if self.dialect == "game" else None

    def _identity(self) -> Any:
        of = self._game.physical if self.state_schema == 1 else self._scene.identity
        covered = of(self._bits)
        return covered if self.dialect == "game" else (self.dialect, covered)

    def _extra_info(self) -> dict[str, Any]:
        return {
            "goal": self._scene.goal,
            "location": self._place,
            "held": self._scene.hands(self._bits),
            "moved": self._moved,
        }


ALFWorldVectorEnv = partial(SerialVectorEnv, env_class=ALFWorldEnv)
"""N episodes in one process, over one read-only world."""
