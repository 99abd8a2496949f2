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
"""Labels of a session."""
MAX_METADATA = 64 << 10
"""Characters of a session's metadata and parameters, as JSON."""


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Limits of a gateway."""

    sessions: PositiveInt = 1_024
    """Sessions at once."""
    idle: PositiveFloat = 3_600.0
    """Seconds after which a session without a request is closed, until it is named again."""
    body: PositiveInt = 16 << 20
    """Bytes of a request."""
    tokens: PositiveInt = 1_024
    """Of an answer, where a request does not say."""
    patience: PositiveFloat = 30.0
    """Seconds in which a request has to come whole."""

    def __post_init__(self) -> None:
        """Raise a UsageError unless each limit lets something through."""
        check_fields(self, "limits: ")


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """What a session is begun with: the body of ``POST /sessions``."""

    session_id: str = ""
    task: str | None = None
    """Id of the task, or its source id."""
    index: int | None = None
    """Of the task, in its place."""
    seed: int | None = None
    """Of the environment and of sampling; a group's members share it."""
    group: str = ""
    """Attempts at one task that are compared; empty for a group of its own."""
    group_size: PositiveInt | None = None
    rollout: Annotated[int, COUNTED] | None = None
    """Place in the group; None for the next."""
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sampling_params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of requests that do not set them."""
    env_id: str = ""
    """Written into the episode, where no environment is served."""

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
    """In seconds of the epoch."""
    served: str
    """The environment that it plays; empty for none."""


@dataclass(frozen=True, slots=True)
class SessionOutcome:
    """What a session came to: the body of ``POST /sessions/ID/complete``."""

    reward: float = 0.0
    """Added to that of the last call."""
    won: bool | None = None
    """None for what the environment says; without one, whether the score is at least 1."""
    score: float | None = None
    """None for what the environment says; without one, the reward."""
    labels: tuple[str, ...] = ()
    trainable: bool | None = None
    """None where all was sampled at one temperature above 0."""


@dataclass(frozen=True, slots=True)
class CompletedSession:
    """A session whose episode is stored."""

    answer: Mapping[str, Any]
    """Of the request that completed it."""


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session that cannot go on."""

    reason: str


@dataclass(slots=True)
class GatewaySession:
    """A session that is open, or complete."""

    spec: SessionRecord
    used: float
    """When a request last named it, by the gateway's clock."""
    env: Client = field(default_factory=Client)
    """Plays its environment."""
    rows: list[EnvRow] = field(default_factory=list)
    """What the environment showed: at first, and after each step."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """The environment's last info."""
    tree: CallTree = field(default_factory=CallTree)
    asked: int = 0
    """Requests so far."""
    busy: int = 0
    """Requests under way."""
    full: bool = False
    """Whether the last request did not fit the model's context."""
    closing: bool = False
    """Whether it takes no more, or nothing yet."""
    completed: Mapping[str, Any] | None = None
    """What was answered when it was completed."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Of steps, and of completing it."""

    def play(self, move: EnvRow, info: Mapping[str, Any]) -> None:
        """Note a step of the environment, which belongs to the call that was answered last."""
        if self.tree.calls:
            self.tree.calls[-1].moves += (move,)
        self.rows.append(move)
        self.info = info


def env_row(row: Mapping[str, Any], action: str = "", seconds: float = 0.0) -> EnvRow:
    """Return what an environment's server answered to a reset, or to an action."""
    info = row["metadata"]
    return EnvRow(
        state_hash=info["state_hash"],
        observation=row["observation"].get("text", ""),
        admissible_actions=tuple(info["admissible_actions"]),
        turn=info["turn"],
        progress=float(info["progress"]),
        action=action[: MAX_ACTION_LENGTH + 1],  # a longer one is not read either, and plays the same
        reward=row["reward"] or 0.0,
        valid=info["action_is_valid"],
        terminated=row["terminated"],
        truncated=row["truncated"],
        cost=float(info.get("step_cost", 1.0)),
        seconds=seconds,
    )
