"""The contract of an environment, enforced once: games implement small hooks."""

from __future__ import annotations

import copy
import inspect
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self, TypeVar, final

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded

from agentgym.core.generators import GeneratorState, restored_generator
from agentgym.core.hashing import StateHasher, canonical
from agentgym.core.options import check_choice, check_max_steps, check_options, options_of, reset_request
from agentgym.core.query_scheduler import QueryingEnv
from agentgym.core.render_modes import Rendered
from agentgym.core.rewards import WIN, RewardScheme
from agentgym.core.snapshots import EpisodeCopies, Undo, check_kind, checked, refusals_explained
from agentgym.core.spaces import UnicodeText
from agentgym.core.suite_spec import SuiteSpec
from agentgym.core.tasks import DEFAULT_SIZES, NoTaskError, Task, TaskSet
from agentgym.core.types import Outcome as Outcome
from agentgym.core.types import Policy, Snapshot
from agentgym.core.types import Status as Status
from agentgym.errors import UsageError

ObsT = TypeVar("ObsT")

RESET_OPTIONS = ("task", "rollout")
"""Keys that ``reset(options=...)`` understands."""

MAX_ACTION_LENGTH = 8_192
"""Characters of an action at most. A longer one is rejected before any game reads it."""


class AgentEnv(Rendered, gymnasium.Env[ObsT, str], EpisodeCopies, QueryingEnv):
    """An environment for language agents: text in, text out, with state that can be held.

    **Actions** are strings. An action the game does not accept changes nothing, is reported as
    ``info["action_is_valid"] = False`` and costs a step; so is one of more than `MAX_ACTION_LENGTH`
    characters, whatever the game. Where `invalid_may_end` is set, it may end the episode instead. An action
    of another type is a `TypeError`.

    **Info** always has ``task_id, task_type, turn, state_hash, admissible_actions,
    action_is_valid, won, score, progress``, of constant types.

    **Termination** is the game's own end, **truncation** the step limit; never both.

    **Copies**: `pickle` and `copy.deepcopy` give an environment that goes on exactly as this one would,
    before the first reset, within an episode and after its end. A pickle holds the constructor's arguments
    and the episode, not the world; a deep copy shares the read-only world. Attributes that were set from
    outside are not part of either.

    A game sets the class attributes below, passes its tasks to ``super().__init__``, and implements
    `_load`, `_apply`, `_observe`, `_admissible`, `_status`, `_state` and `_set_state`. `_load` and
    `_set_state` must bind fresh state and never change what the constructor made: the slots of a
    vector environment share it.
    """

    suite: ClassVar[str]
    """Name of the state space; part of every state hash."""
    suite_spec: ClassVar[SuiteSpec] = SuiteSpec(name="")
    """Facts about the suite for prompts, training, data and sites."""
    state_schema: int = 1
    """Version of what state hashes cover, and part of each; an older one may be set before a reset."""
    past_schemas: ClassVar[tuple[int, ...]] = ()
    """Older versions that `_identity` knows, of the same `_state`: runs were recorded by them."""
    state_type: ClassVar[Any] = Any
    """Type of the values of `_state`, such as a NamedTuple: `agentgym.core.encoding.typed` checks them."""
    action_kind: Literal["enumerated", "template"] = "enumerated"
    """Whether admissible actions are complete, or templates with slots in angle brackets."""
    splits: ClassVar[tuple[str, ...]] = tuple(DEFAULT_SIZES)
    """Splits of the built-in data set."""
    split_sizes: ClassVar[Mapping[str, int]] = {}
    """Number of tasks in each split, where it is known before one is opened."""
    default_max_steps: ClassVar[int]
    sides: int = 1
    """Number of sides, each with private knowledge, that a policy plays in turn; of several, ``info["side"]``
    says which acts."""
    invalid_may_end: bool = False
    """Whether an action that is not accepted may end the episode, as a response without a call does in
    search games."""
    load_may_fail: bool = True
    """Whether `_load` may raise, as where it reads files; False spares resets what would undo them."""
    reward_scheme: RewardScheme = "native"
    """Rule by which steps are rewarded; constructors with an option ``reward`` set it."""
    past_keys: ClassVar[frozenset[str]] = frozenset()
    """Keys of info that depend on the past: states that hash equal may differ in them."""

    metadata: dict[str, Any] = {"render_modes": ["ansi", "rgb_array", "human"], "render_fps": 4}  # noqa: RUF012

    _hasher: StateHasher
    _spec: EnvSpec | None = None
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __init_subclass__(cls, **kwargs: Any):
        """Show the constructor's own signature, which `inspect` would look for in ``__new__``."""
        super().__init_subclass__(**kwargs)
        _, *parameters = inspect.signature(cls.__init__).parameters.values()
        cls.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]

    def __new__(cls, *args: Any, **options: Any) -> Self:
        """Keep the arguments for copies, and check them before the constructor runs.

        Raises:
            UsageError: an option that the constructor does not take, or a value that its annotation does not
                declare; the message names the nearest.
        """
        check_options(options, options_of(cls))
        self = super().__new__(cls)
        self._arguments = (args, options)
        return self

    def __init__(
        self,
        tasks: TaskSet,
        *,
        data_key: str,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ):
        """Set what every game has.

        Args:
            tasks: the tasks of the split played.
            data_key: names the data the tasks come from; snapshots restore within it.
            max_steps: step limit; None for the suite's default.
            render_mode: one of ``metadata["render_modes"]``, or None.

        Raises:
            UsageError: a step limit below 1, or an unknown render mode.
        """
        limit = check_max_steps(max_steps)
        if render_mode is not None:
            check_choice("render_mode", render_mode, self.metadata["render_modes"])
        self.tasks = tasks
        self.data_key = data_key
        self.max_steps = self.default_max_steps if limit is None else limit
        self.render_mode = render_mode
        self.tools = self.suite_spec.tools  # a game may set those of its options
        self.action_space = UnicodeText()
        self.observation_space: gymnasium.Space[Any] = UnicodeText()
        self._task: Task | None = None
        self._turn = 0
        self._valid = True
        self._terminated = False
        self._truncated = False

    # ---- hooks of a game -------------------------------------------------------------------

    @abstractmethod
    def _load(self, task: Task) -> None:
        """Set the initial state of ``task``; chance beyond it comes from ``self.np_random``."""

    @abstractmethod
    def _apply(self, action: str) -> Outcome:
        """Play one action; an action the game rejects leaves the state as it was.

        Actions of more than `MAX_ACTION_LENGTH` characters go to `_reject` instead.
        """

    @abstractmethod
    def _observe(self) -> ObsT:
        """Return the observation of the state now; ``self._valid`` says if an action was rejected."""

    @abstractmethod
    def _admissible(self) -> tuple[str, ...]:
        """Return every action accepted in the state now, in a fixed order."""

    @abstractmethod
    def _status(self) -> Status:
        """Return the status of the current state."""

    @abstractmethod
    def _state(self) -> Any:
        """Return the complete game state as an immutable, picklable value."""

    @abstractmethod
    def _set_state(self, state: Any) -> None:
        """Inverse of `_state`, for the task that is loaded."""

    def _check_state(self, task: Task, state: Any, terminated: bool) -> None:
        """Raise a ValueError that says why no episode of ``task`` comes to ``state``, a `state_type`.

        Every snapshot is asked about before it is restored.
        """

    def _identity(self) -> Any:
        """Return the content of the state hash: a plain value, by default the whole state."""
        return self._state()

    def _context(self) -> Any:
        """Return the content of ``state_hash("context")``: coarser than `_identity`, or the same."""
        return self._identity()

    def _reject(self, action: str) -> Outcome:
        """Return the outcome of an action that is not accepted, cut to `MAX_ACTION_LENGTH` characters.

        For games whose rejected actions pay something. The state stays as it is.
        """
        return Outcome(0.0, valid=False)

    def _score_and_success(self, native: float, won: bool) -> float:
        """Return the last step's reward by the scheme ``score+success``.

        Args:
            native: what it pays by the game's own rule.
            won: whether it ended the episode, and won it.
        """
        return WIN["score+success"] * won

    def _accepts(self, action: str) -> bool:
        """Return whether an action would be accepted now, by default whether it is listed."""
        return action in self.admissible_actions()

    def _measures(self) -> dict[str, float]:
        """Return a value for each of the suite's measures, of the episode as it stands."""
        return {}

    def _extra_info(self) -> dict[str, Any]:
        """Return the suite's own info keys: always the same keys, of constant types."""
        return {}

    def oracle(self) -> Policy:
        """Return the policy that plays this environment as well as is known."""
        raise UsageError(f"{type(self).__name__} has no oracle; use a random agent")

    # ---- Gymnasium -------------------------------------------------------------------------

    @final
    def reset(
        self, seed: int | None = None, *, options: dict[str, Any] | None = None
    ) -> tuple[ObsT, dict[str, Any]]:
        """Start an episode.

        Args:
            seed: seeds the environment's own generator, which picks the task where none is named
                and drives later chance.
            options: ``{"task": id}`` names the task, by id or source id; ``{"rollout": 1}`` says which
                attempt at it this is.

        Returns:
            The first observation and info.

        Raises:
            UsageError: unknown option or task, or a seed that is no whole number of at least 0.
            UnansweredError: no answer could be had to what loading the task needs.
        """
        key, rollout, seed = reset_request(options, RESET_OPTIONS, seed)
        named = None if key is None else self.tasks.find(key)
        if not self.load_may_fail and not self.query_backends:
            return self._start(self._pick(named, seed, rollout))
        undo = self._checkpoint(seed)
        try:
            task = self._pick(named, seed, rollout)
            if self.query_backends:
                self.answers = self._answers_of(self._load_episode_queries(task, rollout))
            return self._start(task)
        except BaseException:
            self._roll_back(undo)
            raise

    @final
    def step(self, action: str) -> tuple[ObsT, float, bool, bool, dict[str, Any]]:
        """Play one action.

        Args:
            action: any string.

        Returns:
            observation, reward, terminated, truncated, info.

        Raises:
            TypeError: the action is not a string.
            ResetNeeded: no episode is running.
            UnansweredError: no answer could be had to what the action needs; the episode stands still.
        """
        if not isinstance(action, str):
            raise TypeError(
                f"an action of {type(self).__name__} is a string such as one of "
                f"admissible_actions(), got {type(action).__name__}"
            )
        if self._task is None or self._terminated or self._truncated:
            raise ResetNeeded(f"no episode of {type(self).__name__} is running: call reset() before step()")
        if self.query_backends and len(action) <= MAX_ACTION_LENGTH:
            self.answers = self._answers_of(self._action_episode_queries(action))
        return self._play(action)

    def _play(self, action: str) -> tuple[ObsT, float, bool, bool, dict[str, Any]]:
        """Play an action with its answers."""
        short = len(action) <= MAX_ACTION_LENGTH
        outcome = self._apply(action) if short else self._reject(action[:MAX_ACTION_LENGTH])
        reward, self._valid, self._terminated = outcome
        self._turn += 1
        self._truncated = not self._terminated and self._turn >= self.max_steps
        if self.reward_scheme != "native":
            won = (self._terminated or self._truncated) and self._status().won
            sparse = self.reward_scheme == "sparse10"
            reward = WIN["sparse10"] * won if sparse else self._score_and_success(reward, won)
        if self.render_mode == "human":
            self._show()
        return self._observe(), reward, self._terminated, self._truncated, self._info()

    @property
    def spec(self) -> EnvSpec | None:
        """Gymnasium's record of how the environment was made; None where its class was called.

        Its ``max_episode_steps`` is the step limit, for wrappers that ask for one; the environment
        truncates itself, and no ``TimeLimit`` is added.
        """
        return self._spec

    @spec.setter
    def spec(self, spec: EnvSpec | None) -> None:
        self._spec = copy.copy(spec)
        if self._spec is not None:
            self._spec.max_episode_steps = self.max_steps

    # ---- what language agents need besides --------------------------------------------------

    @property
    def task(self) -> Task:
        """The task being played; NoTaskError (a `ResetNeeded`, an `AttributeError`) before any reset."""
        if self._task is None:
            raise NoTaskError(f"{type(self).__name__} plays no task yet: call reset()")
        return self._task

    def __dir__(self) -> list[str]:
        """Return the names of attributes that are there now: wrappers of gem read each of them."""
        return [name for name in super().__dir__() if hasattr(self, name)]

    def admissible_actions(self) -> tuple[str, ...]:
        """Return every action accepted now, in a fixed order; empty once the episode is over."""
        if self._terminated or self._truncated:
            return ()
        self.task  # noqa: B018 (raises before the first reset)
        return self._admissible()

    def is_admissible(self, action: str) -> bool:
        """Return whether ``action`` would be accepted now, templates filled in."""
        return len(action) <= MAX_ACTION_LENGTH and self._accepts(action)

    @final
    def state_hash(self, kind: Literal["state", "context"] = "state") -> str:
        """Return 32 hex digits of the state: blake2b-128 scoped by suite, schema and task.

        It covers the game's state and whether it has ended; not the step count, the generator, or how the
        state is shown. Kind ``context`` joins states that differ in free words alone, where a game has such.
        """
        self.task  # noqa: B018 (raises before the first reset)
        covered = self._identity() if kind == "state" else self._context()
        return self._hasher.hash(canonical(covered), self._terminated)

    @final
    def measures(self) -> dict[str, float]:
        """Return a value for each of ``suite_spec.measures``, of the episode as it stands."""
        self.task  # noqa: B018 (raises before the first reset)
        return self.suite_spec.checked(self._measures())

    def state_text(self) -> str:
        """Return the content of `state_hash`, readable."""
        ended = " (ended)" if self._terminated else ""
        return f"{self.suite} {self.task.id}{ended}\n{self._identity()}"

    @final
    def snapshot(self) -> Snapshot:
        """Return everything that decides the episode's future."""
        snapshot = Snapshot(
            self.suite,
            self.state_schema,
            self.data_key,
            self.task,
            self._state(),
            self._turn,
            self._valid,
            self._terminated,
            self._truncated,
            GeneratorState.of(self._np_random),
        )
        object.__setattr__(snapshot, "origin", self._arguments)
        return snapshot

    @final
    def restore(self, snapshot: Snapshot) -> tuple[ObsT, dict[str, Any]]:
        """Go back (or over) to a snapshot's episode; return the observation and info of that moment.

        Raises:
            UsageError: the snapshot belongs to another suite, schema or data set, or holds what no episode
                comes to. The episode being played stays as it was.
        """
        self.rewind(snapshot)
        return self._observe(), self._info()

    @final
    def rewind(self, snapshot: Snapshot) -> None:
        """Go back as `restore` does, without making observation and info: searches need neither."""
        if self._took(snapshot) and snapshot.task is self._task:
            return self._resume(snapshot)  # cannot fail
        undo = self._checkpoint(None)
        try:
            with refusals_explained(snapshot):
                self._put_back(snapshot)
        except BaseException:
            self._roll_back(undo)
            raise

    def spawn(self) -> Self:
        """Return another environment over the same read-only world, with no episode yet.

        This is how a vector environment holds a thousand episodes over one catalogue.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._task = None
        twin._np_random = None
        twin._np_random_seed = None
        return twin

    # ---- inside ----------------------------------------------------------------------------

    def _pick(self, task: Task | None, seed: int | None, rollout: int) -> Task:
        """Seed the generator, and return the task of the next episode: the one named, or one drawn."""
        super().reset(seed=seed)
        self.rollout = rollout
        return self.tasks.draw(self.np_random) if task is None else task

    def _start(self, task: Task) -> tuple[ObsT, dict[str, Any]]:
        """Start an episode with its answers; an error leaves it half begun."""
        self._begin(task)
        if self.render_mode == "human":
            self._show()
        return self._observe(), self._info()

    def _checkpoint(self, seed: int | None) -> Undo:
        return Undo.of(self, seed)  # a restore is a reset without a seed

    def _roll_back(self, undo: Undo) -> None:
        undo.apply(self)

    def _put_back(self, snapshot: Snapshot) -> None:
        snapshot = self._check_snapshot(snapshot)
        if snapshot.task is not self._task:
            self.answers = None
            self._begin(snapshot.task)
        self._resume(snapshot)

    def _resume(self, snapshot: Snapshot) -> None:
        """Take over a snapshot of the task that is loaded."""
        self._set_state(snapshot.state)
        self._turn = snapshot.turn
        self._valid = snapshot.valid
        self._terminated = snapshot.terminated
        self._truncated = snapshot.truncated
        self._np_random = restored_generator(snapshot, self._np_random)
        self._np_random_seed = None if self._np_random is None else -1

    def _begin(self, task: Task) -> None:
        if self._task is None or (task.id, self.state_schema) != (self._task.id, self._hasher.schema):
            self._hasher = StateHasher(self.suite, self.state_schema, task.id)
        self._task = task
        self._turn = 0
        self._valid = True
        self._terminated = False
        self._truncated = False
        self._load(task)

    def _info(self) -> dict[str, Any]:
        task = self.task
        won, score, progress = self._status()
        info = {
            "task_id": task.id,
            "task_type": task.type,
            "turn": self._turn,
            "state_hash": self._hasher.hash(canonical(self._identity()), self._terminated),
            "admissible_actions": self.admissible_actions(),
            "action_is_valid": self._valid,
            "won": won,
            "score": score,
            "progress": progress,
        }
        info.update(self._extra_info())
        return info

    def _check_snapshot(self, snapshot: Snapshot) -> Snapshot:
        """Return a snapshot as it is restored, its task looked up and its state of the game's type."""
        if self._took(snapshot):
            return snapshot
        check_kind(snapshot, self.suite, (self.state_schema, *self.past_schemas), self.data_key)
        snapshot = checked(snapshot, self.state_type, self.max_steps, self.tasks.find)
        with refusals_explained(snapshot):
            self._check_state(snapshot.task, snapshot.state, snapshot.terminated)
        return snapshot

    def _took(self, snapshot: Snapshot) -> bool:
        """Return whether an environment over this very world took a snapshot."""
        return getattr(snapshot, "origin", None) is self._arguments
