"""The records that cross layers, and the protocol of policies, which users implement."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from agentgym.core.arrays import sum_in_order
from agentgym.core.encoding import decode, encode, typed
from agentgym.errors import UsageError

Observation: TypeAlias = Any
"""A string, or for image games a dict ``{"text": str, "image": uint8[H, W, 3]}``."""

EndReason: TypeAlias = Literal[
    "success", "failure", "step_limit", "context_limit", "parse_error", "agent_error", "env_error"
]
"""Reason for an episode's end. The last four are faults of the agent or the machine, never the game's."""


SNAPSHOT_MARK = b"agentgym snapshot 1\n"
"""First bytes of a snapshot; the number is the version of the format."""

MAX_SNAPSHOT_SIZE = 4 << 20
"""Largest size of a snapshot, in bytes."""

_DIGEST_BYTES = 16
_TASK_ID = re.compile(r"[0-9a-f]{32}(-[1-9][0-9]{0,8})?")
_FIELDS = tuple[
    str, int, str, str, Any, int, bool, bool, bool, tuple[int, int, int, int] | None
]  # the order of `Snapshot`, the task by its id


@dataclass(frozen=True, slots=True)
class NamedTask:
    """A task by its id alone, as a snapshot read from bytes has it; `AgentEnv.restore` looks it up."""

    id: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that decides an episode's future, as an immutable, picklable value.

    Restores into any environment or slot of the same suite and data. Unpickling runs whatever code the pickle
    names, so take pickles from yourself only; `to_bytes` and `from_bytes` are for all others.
    """

    suite: str
    """Suite of the environment it was taken from."""
    schema: int
    """The suite's ``state_schema``."""
    data: str
    """Key of the data that the task comes from, as `AgentEnv.data_key` gives it."""
    task: Any
    """The `agentgym.core.tasks.Task` being played; a `NamedTask` where it was read from bytes."""
    state: Any
    """The game's own immutable state."""
    turn: int
    """Steps taken."""
    valid: bool
    """Whether the last action was accepted."""
    terminated: bool
    """Whether the game ended by its own rules."""
    truncated: bool
    """Whether the step limit was reached."""
    rng: tuple[int, int, int, int] | None
    """An `agentgym.core.generators.GeneratorState`; None when the environment has never drawn or been
    seeded."""
    origin: Any = field(default=None, init=False, compare=False, repr=False)
    """Constructor arguments of the environment that took it: environments with that same object restore it
    unchecked. None for a snapshot that was made, changed, unpickled or read."""

    def taken_by(self, origin: Any) -> Self:
        """Set `origin`; return the snapshot."""
        object.__setattr__(self, "origin", origin)
        return self

    def __getstate__(self) -> tuple[Any, ...]:
        """Return all fields but `origin`, which another process knows nothing of."""
        return tuple(getattr(self, name) for name in self.__match_args__)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Set all fields, `origin` to None."""
        for name, value in zip(self.__match_args__, state, strict=True):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "origin", None)

    def to_bytes(self) -> bytes:
        """Return the snapshot as bytes: the same ones for equal snapshots, on any machine.

        The task is in them by its id: they restore where the task set holds it.

        Raises:
            UsageError: the game's state is no plain value (see `agentgym.core.encoding.encode`), or too
            large.
        """
        values = (
            self.suite,
            self.schema,
            self.data,
            self.task.id,
            self.state,
            self.turn,
            self.valid,
            self.terminated,
            self.truncated,
            None if self.rng is None else tuple(self.rng),
        )
        try:
            body = encode(values)
        except ValueError as error:
            raise UsageError(
                f"a snapshot of suite {self.suite!r} has no bytes, for {error}: let _state() return None, "
                "bool, int, float, str, bytes and tuples of them"
            ) from error
        if len(body) > MAX_SNAPSHOT_SIZE:
            raise UsageError(f"a snapshot has at most {MAX_SNAPSHOT_SIZE:,} bytes, this has {len(body):,}")
        return SNAPSHOT_MARK + body + _digest(body)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Read the bytes of `to_bytes`. Nothing in them is run, whatever their source.

        That the state is one of the game is checked by `AgentEnv.restore`, which knows the game.

        Raises:
            UsageError: they are not the bytes of a snapshot of this version, or were changed.
        """
        given: object = data
        if not isinstance(given, bytes) or len(data) > MAX_SNAPSHOT_SIZE + 100:
            raise UsageError(
                f"a snapshot is read from what Snapshot.to_bytes() gives: at most {MAX_SNAPSHOT_SIZE:,} bytes"
            )
        if not data.startswith(SNAPSHOT_MARK):
            raise UsageError(
                f"these are no bytes of a snapshot: they begin with {data[: len(SNAPSHOT_MARK)]!r}, not with "
                f"{SNAPSHOT_MARK!r}; take those of Snapshot.to_bytes()"
            )
        body, digest = data[len(SNAPSHOT_MARK) : -_DIGEST_BYTES], data[-_DIGEST_BYTES:]
        try:
            if digest != _digest(body):
                raise ValueError("their checksum does not fit")
            values = list(typed(_FIELDS, decode(body), "it"))
            if _TASK_ID.fullmatch(values[3]) is None:
                raise ValueError(f"{values[3]!r:.60} is not an id of a task")
        except ValueError as error:
            raise UsageError(f"these bytes of a snapshot are damaged: {error}; write them anew") from error
        values[3] = NamedTask(values[3])
        return cls(*values)


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a policy: what does it do in this episode now?

    Example:
        >>> Request(episode=0, task_id="t", task_type="", turn=0, observation="a", seed=7,
        ...         admissible_actions=("up",), state_hash="0").turn
        0
    """

    episode: int
    """Number of the episode within this rollout; policies key their memory by it."""
    task_id: str
    task_type: str
    turn: int
    """Steps taken so far; 0 for an episode's first request."""
    observation: Observation
    admissible_actions: tuple[str, ...]
    """Every action accepted now, or templates with slots in angle brackets."""
    state_hash: str
    seed: int
    """Seed of this episode's sampling; mix it with ``turn``."""
    history: tuple[Step, ...] = ()
    """The episode's steps so far, oldest first; where a policy plays several sides, those of the side to act
    alone, since what another side saw and thought is private."""
    snapshot: Callable[[], Snapshot] | None = None
    """Takes a snapshot of the episode. Oracles look through it; fair agents do not."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """The suite's own info keys, as they are now."""
    rollout: int = 0
    """Index of this attempt at its task."""
    others: int = 0
    """Steps of other sides, which `history` leaves out."""

    @property
    def own_steps(self) -> int:
        """Number of the steps taken that are in `history`."""
        return self.turn - self.others


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a chat, as it was sent to a model."""

    role: str
    """``system``, ``user``, ``assistant`` or ``tool``; ``tools`` for the schemas that a chat template was
    handed, a line each."""
    text: str


@dataclass(frozen=True, slots=True)
class Completion:
    """A policy's answer: the parsed action and, for language models, exactly what was sampled."""

    action: str
    """Action sent to the environment."""
    text: str = ""
    """Raw response from which the action was parsed; empty without one."""
    prompt_ids: tuple[int, ...] = ()
    """Token ids of the prompt, as the model saw them."""
    response_ids: tuple[int, ...] = ()
    """Token ids sampled, never re-tokenised."""
    logprobs: tuple[float, ...] = ()
    """Natural-log probability of each response token under the sampling policy."""
    version: int = 0
    """Version of the weights that sampled it; of the first token's where they changed within the response."""
    versions: tuple[int, ...] = ()
    """Weights' version for each token where it changed within the response; else empty."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    """Model time spent on this answer."""
    cost: float = 0.0
    """Price of this answer, in US dollars."""
    error: EndReason | None = None
    """Reason why there is no action; the episode then ends with this reason and score 0."""
    messages: tuple[Message, ...] = ()
    """The prompt as it was sent, where the policy keeps it: benchmarks do, training does not."""
    format_error: str = ""
    """Why the parser could not read an action from ``text``; empty where it could."""
    note: str = ""
    """Remark on an action read from a text that departs from the format, such as the first of two calls."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step, the unit of credit: observation, action and reward."""

    observation: Observation
    """Observation before acting."""
    state_hash: str
    """Hash of the state before acting."""
    admissible_actions: tuple[str, ...]
    completion: Completion
    reward: float
    next_state_hash: str
    valid: bool
    """Whether the environment accepted the action."""
    terminated: bool
    truncated: bool
    progress: float = field(
        default=0.0, compare=False
    )  # run files, from which steps are read, hold neither this nor the next field
    """Change of the environment's own ``progress`` by this step."""
    cost: float = field(default=1.0, compare=False)
    """``info["step_cost"]`` where the suite says what its steps cost, not negative: GraphGPO's c(s, a)."""
    side: int | None = field(default=None, compare=False)
    """``info["side"]``, who took it, where a policy plays several sides (`agentgym.env.AgentEnv.sides`)."""

    @property
    def action(self) -> str:
        """The action sent to the environment."""
        return self.completion.action


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One episode, from reset to its end."""

    env_id: str
    task_id: str
    task_type: str
    seed: int
    """Seed the episode was reset with."""
    rollout: int
    """Index of this attempt at its task."""
    initial_hash: str
    steps: tuple[Step, ...]
    final_observation: Observation
    won: bool
    score: float
    progress: float
    end_reason: EndReason
    env_seconds: float = 0.0
    model_seconds: float = 0.0
    extra: Mapping[str, Any] = field(default_factory=dict)
    """The last info's suite-specific keys."""
    unplayed: Completion | None = None
    """The answer that reported an error and ended the episode: no step, but its tokens were paid for."""
    measures: Mapping[str, float] = field(default_factory=dict)
    """The suite's measures where the episode ended, by name; empty where they were not asked for."""

    @property
    def completions(self) -> tuple[Completion, ...]:
        """Every answer that was had, `unplayed` included: what tokens and costs are summed over."""
        played = tuple(step.completion for step in self.steps)
        return played if self.unplayed is None else (*played, self.unplayed)

    @property
    def episode_return(self) -> float:
        """Sum of rewards, accumulated in step order."""
        return sum_in_order(step.reward for step in self.steps)

    @property
    def invalid_count(self) -> int:
        """Number of rejected actions."""
        return sum(not step.valid for step in self.steps)

    @property
    def state_hashes(self) -> tuple[str, ...]:
        """Hashes of the T + 1 states visited."""
        return (self.initial_hash, *(step.next_state_hash for step in self.steps))


@dataclass(frozen=True, slots=True)
class Group:
    """Attempts at one task from one initial state: the population of group-relative methods."""

    task_id: str
    initial_hash: str
    trajectories: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        """Refuse members that did not start alike."""
        for member in self.trajectories:
            if (member.task_id, member.initial_hash) != (self.task_id, self.initial_hash):
                raise ValueError(
                    f"a group's members start from one state: expected task {self.task_id} at "
                    f"{self.initial_hash}, got task {member.task_id} at {member.initial_hash}"
                )


@dataclass(frozen=True, slots=True)
class Passage:
    """A document of a corpus: what searches find."""

    id: str
    """Identifier of the passage in its corpus."""
    title: str
    """Title, one line."""
    text: str

    @property
    def contents(self) -> str:
        """Text that indexes read: the title on a line of its own, then the text."""
        return f"{self.title}\n{self.text}"


@runtime_checkable
class Policy(Protocol):
    """Anything that answers requests, in batches, and never about finished episodes."""

    def act(self, requests: Sequence[Request]) -> Sequence[Completion]:
        """Return one completion per request, in order."""


@runtime_checkable
class AsyncPolicy(Protocol):
    """Answers every request in its own time, as a model behind an endpoint does."""

    def submit(self, request: Request) -> Future[Completion]:
        """Return the completion to come.

        What concerns one episode alone is in `Completion.error`; an exception ends the whole rollout.
        """


@runtime_checkable
class EpisodeListener(Protocol):
    """A policy that receives finished episodes, such as one that learns from earlier attempts at a task."""

    def ended(self, trajectory: Trajectory) -> None:
        """Take note of an episode, before it is yielded."""


class Outcome(NamedTuple):
    """Result of an action, in the game's words."""

    reward: float
    valid: bool = True
    """Whether the action was accepted."""
    terminated: bool = False
    """Whether the game ended by its own rules."""


class Status(NamedTuple):
    """Status of an episode; a function of the game's state alone."""

    won: bool
    score: float  # the benchmark's own number
    progress: float  # share in [0, 1]
