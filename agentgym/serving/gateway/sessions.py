"""Sessions of the gateway: an agent's episode, its model calls and, where one is served, its environment."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from agentgym.core.options import PositiveFloat, PositiveInt, check_fields, check_seed
from agentgym.env import MAX_ACTION_LENGTH
from agentgym.errors import UsageError
from agentgym.rollout.datapool import COUNTED, check_names
from agentgym.serving.env.service import Client
from agentgym.serving.gateway.call_tree import CallTree, EnvRow

MAX_LABELS = 64
"""Most labels of a session."""
MAX_METADATA = 64 << 10
"""Most characters of a session's metadata and parameters, as JSON."""


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Limits of a gateway."""

    sessions: PositiveInt = 1_024
    """Most open sessions."""
    idle: PositiveFloat = 3_600.0
    """Seconds after which an idle session is closed, until a request names it again."""
    body: PositiveInt = 16 << 20
    """Largest size of a request, in bytes."""
    tokens: PositiveInt = 1_024
    """Most tokens of an answer, where a request sets no limit."""
    patience: PositiveFloat = 30.0
    """Longest time for a request to arrive, in seconds."""

    def __post_init__(self) -> None:
        """Raise a UsageError unless each limit lets something through."""
        check_fields(self, "limits: ")


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """Settings of a new session: the body of ``POST /sessions``."""

    session_id: str = ""
    task: str | None = None
    """Task, by id or source id."""
    index: int | None = None
    """Index of the task, instead of its id."""
    seed: int | None = None
    """Seed of the environment and of sampling; a group's members share it."""
    group: str = ""
    """Group of attempts at one task that are compared; empty for a group of its own."""
    group_size: PositiveInt | None = None
    rollout: Annotated[int, COUNTED] | None = None
    """Index in the group; None for the next."""
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sampling_params: Mapping[str, Any] = field(default_factory=dict)
    """Default parameters of requests."""
    env_id: str = ""
    """Environment id of the episode, where no environment is served."""

    def __post_init__(self) -> None:
        """Raise a UsageError for what its episode could not be stored with, or its journal not hold."""
        check_fields(self, "a session: ")
        check_names(*filter(None, (self.group, self.task, self.env_id)), *self.labels)
        COUNTED.check("group_size", self.group_size or 1)
        if self.seed is not None:
            check_seed(self.seed)
        if len(self.labels) > MAX_LABELS:
            raise UsageError(f"labels: a session has at most {MAX_LABELS}, not {len(self.labels):,}")
        if len(json.dumps([self.metadata, self.sampling_params])) > MAX_METADATA:
            raise UsageError(f"metadata and sampling_params have at most {MAX_METADATA:,} characters as JSON")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord(SessionSpec):
    """A session as the journal has it: every field but ``index`` with its value."""

    created: float
    """Time of creation, in seconds since the epoch."""
    served: str
    """Id of the served environment that it plays; empty for none."""


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """Outcome of a session: the body of ``POST /sessions/ID/complete``."""

    reward: float = 0.0
    """Reward in addition to the last call's."""
    won: bool | None = None
    """Whether the episode was won; None for the environment's result, or without one for a score >= 1."""
    score: float | None = None
    """Score of the episode; None for the environment's, or without one for the reward."""
    labels: tuple[str, ...] = ()
    trainable: bool | None = None
    """Whether it may be trained on; None: only where everything was sampled at one temperature above 0."""


@dataclass(frozen=True, slots=True)
class CompletedSession:
    """A session whose episode is stored."""

    answer: Mapping[str, Any]
    """Answer to the request that completed it."""


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session that cannot go on."""

    reason: str


@dataclass(slots=True)
class GatewaySession:
    """A session that is open, or complete."""

    spec: SessionRecord
    used: float
    """Time of the last request for this session, by the gateway's clock."""
    env: Client = field(default_factory=Client)
    """Client of its environment."""
    rows: list[EnvRow] = field(default_factory=list)
    """Observations of the environment: the first one, and one after each step."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Last info of the environment."""
    tree: CallTree = field(default_factory=CallTree)
    request_count: int = 0
    """Number of requests so far."""
    busy: int = 0
    """Number of requests under way."""
    full: bool = False
    """Whether the last request exceeded the model's context."""
    closing: bool = False
    """Whether it refuses requests, since it is being opened or closed."""
    completed: Mapping[str, Any] | None = None
    """Answer to the completing request; None before."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock for steps and for completion."""

    def play(self, move: EnvRow, info: Mapping[str, Any]) -> None:
        """Note a step of the environment, which belongs to the call that was answered last."""
        if self.tree.calls:
            self.tree.calls[-1].moves += (move,)
        self.rows.append(move)
        self.info = info


def env_row(row: Mapping[str, Any], action: str = "", seconds: float = 0.0) -> EnvRow:
    """Return the row of an environment's answer to a reset, or to an action."""
    info = row["metadata"]
    return EnvRow(
        state_hash=info["state_hash"],
        observation=row["observation"].get("text", ""),
        admissible_actions=tuple(info["admissible_actions"]),
        turn=info["turn"],
        progress=float(info["progress"]),
        action=action[: MAX_ACTION_LENGTH + 1],  # the environment rejects all longer ones alike
        reward=row["reward"] or 0.0,
        valid=info["action_is_valid"],
        terminated=row["terminated"],
        truncated=row["truncated"],
        cost=float(info.get("step_cost", 1.0)),
        seconds=seconds,
    )
