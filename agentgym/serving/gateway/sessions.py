"""Sessions of the gateway: an agent's episode, its model calls and, where one is served, its environment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from agentgym.core.options import NonNegativeInt, PositiveFloat, PositiveInt, check_fields
from agentgym.serving.env.service import Client, EnvService
from agentgym.serving.gateway.call_tree import CallTree, EnvMove, EnvView

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class GatewayLimits:
    """Limits of a gateway."""

    sessions: PositiveInt = 1_024
    """Sessions at once."""
    idle: PositiveFloat = 3_600.0
    """Seconds after which a session without a request is closed; with a journal, until it is named again."""
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
    rollout: NonNegativeInt | None = None
    """Place in the group; None for the next."""
    labels: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    sampling_params: Mapping[str, Any] = field(default_factory=dict)
    """Parameters of requests that do not set them."""
    env_id: str = ""
    """Written into the episode, where no environment is served."""

    def __post_init__(self) -> None:
        """Raise a UsageError for numbers that are out of range."""
        check_fields(self, "a session: ")


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


@dataclass(slots=True)
class GatewaySession:
    """A session that is open, or complete."""

    spec: SessionSpec
    """Every field but ``index`` with its value."""
    created: float
    used: float
    """When a request last named it, by the gateway's clock."""
    env: Client | None = None
    """Plays its environment."""
    task_type: str = ""
    views: list[EnvView] = field(default_factory=list)
    """What the environment showed: at first, and after each step."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """The environment's last info."""
    early: list[EnvMove] = field(default_factory=list)
    """Steps before the first answer, which belong to no call."""
    tree: CallTree = field(default_factory=CallTree)
    asked: int = 0
    """Requests so far."""
    busy: int = 0
    """Requests under way."""
    full: bool = False
    """Whether the last request did not fit the model's context."""
    closing: bool = False
    completed: dict[str, Any] | None = None
    """What was answered when it was completed."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Of steps, and of completing it."""

    @property
    def moves(self) -> list[EnvMove]:
        """All steps of the environment."""
        return [*self.early, *(move for call in self.tree.calls for move in call.moves)]

    def play(self, move: EnvMove) -> None:
        """Give a step to the call that was answered last."""
        (self.tree.calls[-1].moves if self.tree.calls else self.early).append(move)
        self.views.append(move.view)


class EnvJoin:
    """The environment that a gateway serves, one episode to a session."""

    def __init__(self, service: EnvService):
        """Take the service whose slots are played."""
        self.service = service
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="env") if service.waits else None

    async def begin(self, session: GatewaySession) -> dict[str, Any]:
        """Start a session's episode; return its first row, without a snapshot, or raise what `ask` does."""
        spec = session.spec
        asked = {"task": spec.task, "index": spec.index, "seed": spec.seed, "rollout": spec.rollout}
        client = session.env or Client()
        row = await self._call(lambda: self.service.handle(client, "reset", asked | {"snapshot": False}).data)
        session.env, session.info = client, row["metadata"]
        session.task_type = row["metadata"]["task_type"]
        session.views = [_view(row)]
        return dict(row)

    async def ask(self, session: GatewaySession, kind: str, data: Mapping[str, Any]) -> Any:
        """Return the answer to a message about a session's episode, as `EnvService.handle`."""
        return await self._call(lambda: self.service.handle(session.env or Client(), kind, data).data)

    def played(self, session: GatewaySession, action: str, row: Mapping[str, Any], seconds: float) -> EnvMove:
        """Note a step; return it."""
        session.info = info = row["metadata"]
        ends = row["terminated"], row["truncated"]
        cost = float(info.get("step_cost", 1.0))
        move = EnvMove(action, row["reward"], info["action_is_valid"], *ends, _view(row), cost, seconds)
        session.play(move)
        return move

    def close(self, session: GatewaySession) -> None:
        """End a session's episode."""
        named = session.env.session if session.env is not None else None
        if named is not None and named in self.service.sessions:
            self.service.sessions.close([named])
        session.env = None

    async def _call(self, function: Callable[[], T]) -> T:
        """Call a function of the service; never two at once."""
        if self._thread is None:
            return function()
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)


def _view(row: Mapping[str, Any]) -> EnvView:
    info = row["metadata"]
    return EnvView(
        info["state_hash"],
        info["turn"],
        row["observation"].get("text", ""),
        tuple(info["admissible_actions"]),
        float(info["progress"]),
    )
