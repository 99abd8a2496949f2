"""Messages of OpenEnv's protocol, and those that name several sessions, carried out on sessions."""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, NamedTuple, Self, TypeVar

from agentgym.core.tools import ACT, Tool, ToolCall, ToolCallError, action_of
from agentgym.errors import UsageError, nearest
from agentgym.io.records import parse
from agentgym.registration import class_of, find_spec
from agentgym.serving.env.description import (
    INSTRUCTIONS,
    description_of,
    greeting,
    instructions_of,
    schemas_of,
    tool_list,
    tool_result,
)
from agentgym.serving.env.sessions import EnvLimits, EnvSession, EnvSessions, SessionError, SessionResults
from agentgym.serving.env.wire import write_observations
from agentgym.serving.turns import Away, Waiting
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.serial import SerialVectorEnv
from agentgym.version import __version__

T = TypeVar("T")

_LOGGER = logging.getLogger("uvicorn.error")  # the server's own, which is shown

MAX_RANGE = 1_000
"""Most tasks in one answer."""


class Reply(NamedTuple):
    """The answer to a message."""

    type: str
    """Type of the answer in OpenEnv's WebSocket protocol."""
    data: Any


@dataclass(slots=True)
class Client:
    """Sender of messages: one WebSocket, or one request."""

    session: str | None = None
    """Session of messages that name none."""
    attaches: bool = False
    """Whether no other WebSocket may open its session."""
    speaks_mcp: bool = False
    """Whether its session was begun by the Model Context Protocol's ``initialize``."""


@dataclass(frozen=True, slots=True)
class _Reset:
    seed: int | None = None
    episode_id: str | None = None
    task: str | None = None
    split: str | None = None
    index: int | None = None
    rollout: int | None = None
    snapshot: bool = True
    instructions: bool = True
    """Whether observations state rules, task and possible actions in words."""
    session_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sent:
    metadata: Mapping[str, Any] = field(default_factory=dict)
    session_id: str | None = None
    timeout_s: float | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step(_Sent):
    action: str
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ToolStep(_Sent):
    type: Literal["list_tools", "call_tool"]
    tool_name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Named:
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class _Restore:
    snapshot: str
    session_id: str | None = None


@dataclass(frozen=True, slots=True)
class _ResetMany:
    sessions: tuple[str | None, ...]
    tasks: tuple[str | None, ...] | None = None
    seeds: tuple[int | None, ...] | None = None
    rollouts: tuple[int | None, ...] | None = None


@dataclass(frozen=True, slots=True)
class _StepMany:
    sessions: tuple[str, ...]
    actions: tuple[str, ...]
    turns: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class _Close:
    sessions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Tasks:
    split: str
    index: int = 0
    start: int | None = None
    stop: int | None = None


class EnvService:
    """Answers the messages of all clients, one after the other; those that wait let others by."""

    def __init__(self, env_id: str, envs: AgentVectorEnv, limits: EnvLimits):
        """Serve a vector environment in autoreset mode DISABLED, a slot for each session."""
        self.env_id = env_id
        self.limits = limits
        self.envs = envs
        self.sessions = EnvSessions(envs, limits)
        waits = bool(envs.prototype.query_backends)  # waits for answers of query backends, such as a model's
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="env") if waits else None
        if self._thread is not None and isinstance(envs, SerialVectorEnv):
            envs.wake_with(partial(self._thread.submit, self.sessions.collect))
        self.tools: tuple[Tool, ...] = tuple(envs.prototype.tools) or (ACT,)
        self._operations: dict[str, Callable[[Client, Any], Reply | Waiting[Reply]]] = {
            "reset": self._reset,
            "step": self._step,
            "state": self._state,
            "snapshot": self._snapshot,
            "restore": self._restore,
            "reset_many": self._reset_many,
            "step_many": self._step_many,
            "close_many": self._close_many,
            "mcp": self._mcp,
            "num_tasks": self._num_tasks,
            "task": self._task,
            "task_range": self._task_range,
        }

    @classmethod
    def open(
        cls,
        env_id: str,
        limits: EnvLimits,
        *,
        split: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Self:
        """Open an environment, a slot for each session; arguments and errors as `agentgym.make_vec`."""
        spec = find_spec(env_id)
        named = {"split": split, "max_episode_steps": spec.max_episode_steps}
        chosen = {name: value for name, value in named.items() if value is not None}
        if "max_steps" in (options or {}):
            chosen.pop("max_episode_steps", None)
        settings = {**spec.kwargs, **chosen, **(options or {})}
        # single environments rather than arrays: most messages are for one session
        envs = SerialVectorEnv(
            limits.sessions, env_class=class_of(env_id), autoreset_mode="Disabled", **settings
        )
        return cls(spec.id, envs, limits)

    async def call(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of the service; never two at once."""
        if self._thread is None:
            return function(*arguments)
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *arguments)

    async def handle(self, client: Client, kind: Any, data: Any, away: Away = nullcontext) -> Reply:
        """Carry out a message; a `SessionError` leaves everything as it was.

        It waits for other machines in blocks of ``away``. Cancelled meanwhile, it has not happened.
        """
        message = self._carried_out(client, kind, data)
        try:
            while not isinstance(step := await self.call(next, message), Reply):
                async with away():
                    await asyncio.shield(asyncio.wrap_future(step))
        except asyncio.CancelledError:
            if self._thread is not None:
                self._thread.submit(message.close)
            raise
        return step

    def _carried_out(self, client: Client, kind: Any, data: Any) -> Generator[Future[Any] | Reply]:
        """Carry out a message; yields the reply in the end, since a thread's call raises no StopIteration."""
        operation = self._operations.get(kind) if isinstance(kind, str) else None
        if operation is None:
            known = nearest(kind, self._operations) if isinstance(kind, str) else ""
            line = f"unknown message type {kind!a:.50}{known}; known: {', '.join(self._operations)}, close"
            raise SessionError(422, "UNKNOWN_TYPE", line)
        try:
            reply = operation(client, {} if data is None else data)
            reply = reply if isinstance(reply, Reply) else (yield from reply)
        except SessionError:
            raise
        except UsageError as error:
            raise SessionError(422, "VALIDATION_ERROR", str(error)) from error
        except Exception as error:
            _LOGGER.exception("%s failed", kind)
            line = f"{kind} failed ({type(error).__name__}): see what the server printed"
            raise SessionError(500, "EXECUTION_ERROR", line) from error
        yield reply

    def attach(self, client: Client, id: str) -> None:
        """Let a WebSocket play a session that was begun elsewhere; SessionError where another one does."""
        session = self.sessions.find(id)
        if session.attached:
            line = f"session {id} is played by another WebSocket: close that"
            raise SessionError(409, "SESSION_ERROR", line)
        self._take(client, session)

    def _take(self, client: Client, session: EnvSession) -> None:
        """Have a client's messages name a session from now on."""
        client.session, session.attached = session.id, session.attached or client.attaches

    def leave(self, client: Client, *, owned: bool) -> None:
        """End the session of a WebSocket that has gone, or leave it to be attached again."""
        if client.session is not None and client.session in self.sessions:
            self.sessions.find(client.session).attached = False
            if owned:
                with suppress(SessionError):  # it waits for an answer, and expires later
                    self.sessions.close([client.session])

    # ---- what is served ----------------------------------------------------------------------

    def description(self) -> dict[str, Any]:
        """Return the environment's description for clients."""
        limits = {"sessions": self.envs.num_envs, "idle": self.limits.idle, "body": self.limits.body}
        here = {"sessions": len(self.sessions), "limits": limits}
        return description_of(self.env_id, self.envs.prototype) | here

    def metadata(self) -> dict[str, Any]:
        """Return OpenEnv's record of the environment."""
        about = (type(self.envs.prototype).__doc__ or self.env_id).partition("\n")[0]
        return {"name": self.env_id, "description": about, "version": __version__}

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schemas of actions, observations and states."""
        return schemas_of(self.env_id, self.envs.prototype, self.tools)

    def _check_split(self, split: str | None) -> None:
        served = self.envs.tasks.split
        if split not in (None, served):
            line = f"split {split!a:.50} is not served here, but {served!r}: start another server for it"
            raise SessionError(422, "VALIDATION_ERROR", line)

    # ---- messages ----------------------------------------------------------------------------

    def _reset(self, client: Client, data: Any) -> Waiting[Reply]:
        request = parse(_Reset, data, "reset")
        self._check_split(request.split)
        task = request.task
        if request.index is not None:
            if task is not None or not 0 <= request.index < len(self.envs.tasks):
                raise UsageError(f"reset: index is from 0 to {len(self.envs.tasks) - 1:,}, without a task")
            task = self.envs.tasks[request.index].id
        if request.episode_id is not None and len(request.episode_id) > 255:
            raise UsageError("reset: episode_id has at most 255 characters")
        own = request.session_id or (client.session if client.session in self.sessions else None)
        played = yield from self.sessions.reset([own], [task], [request.seed], [request.rollout])
        (session,) = played.sessions
        session.snapshots, session.instructions = request.snapshot, request.instructions
        if request.episode_id is not None:
            session.episode_id = request.episode_id
        if request.session_id is None:
            self._take(client, session)
        return Reply("observation", self._row(played))

    def _step(self, client: Client, data: Any) -> Waiting[Reply]:
        if isinstance(data, dict) and "type" in data:
            return (yield from self._tool_step(client, data))
        plain = isinstance(data, dict) and data.keys() == {"action"} and type(data["action"]) is str
        # a record takes as long to parse as a step to play
        request = _Step(action=data["action"]) if plain else parse(_Step, data, "step")
        session = self._of(client, request.session_id)
        turns = None if request.turn is None else [request.turn]
        played = yield from self.sessions.step([session.id], [request.action], turns)
        return Reply("observation", self._row(played))

    def _state(self, client: Client, data: Any) -> Reply:
        request = parse(_Named, data, "state")
        if (request.session_id or client.session) is None:
            return Reply("state", {"episode_id": None, "step_count": 0})
        session = self._of(client, request.session_id)
        state = {
            "episode_id": session.episode_id,
            "step_count": session.turn,
            "session_id": session.id,
            "state_hash": session.state_hash,
            "terminated": session.terminated,
            "truncated": session.truncated,
            "measures": self.envs.measures(session.slot),
        }
        return Reply("state", state)

    def _snapshot(self, client: Client, data: Any) -> Reply:
        session = self._of(client, parse(_Named, data, "snapshot").session_id)
        return Reply("snapshot", {"session_id": session.id, "snapshot": self._held(session)})

    def _restore(self, client: Client, data: Any) -> Reply:
        request = parse(_Restore, data, "restore")
        try:
            held = b64decode(request.snapshot, validate=True)
        except ValueError as error:
            raise UsageError(f"restore: the snapshot is not base64: {error}") from error
        own = request.session_id or (client.session if client.session in self.sessions else None)
        played = self.sessions.restore(own, held)
        if request.session_id is None:
            self._take(client, played.sessions[0])
        return Reply("observation", self._row(played))

    def _reset_many(self, client: Client, data: Any) -> Waiting[Reply]:
        request = parse(_ResetMany, data, "reset_many")
        sessions, tasks = request.sessions, request.tasks
        return self._rows((yield from self.sessions.reset(sessions, tasks, request.seeds, request.rollouts)))

    def _step_many(self, client: Client, data: Any) -> Waiting[Reply]:
        kinds = {"sessions": str, "actions": str, "turns": int}
        plain = isinstance(data, dict) and data.keys() == kinds.keys()
        if plain and all(type(data[k]) is list and set(map(type, data[k])) == {kinds[k]} for k in kinds):
            request = _StepMany(**data)
        else:
            request = parse(_StepMany, data, "step_many")
        return self._rows((yield from self.sessions.step(request.sessions, request.actions, request.turns)))

    def _close_many(self, client: Client, data: Any) -> Reply:
        request = parse(_Close, data, "close_many")
        self.sessions.close(request.sessions)
        return Reply("closed", {"sessions": len(request.sessions)})

    def _num_tasks(self, client: Client, data: Any) -> Reply:
        self._check_split(parse(_Tasks, data, "num_tasks").split)
        return Reply("tasks", {"num_tasks": len(self.envs.tasks)})

    def _task(self, client: Client, data: Any) -> Reply:
        index = parse(_Tasks, data, "task").index
        listed = self._task_range(client, {"split": data["split"], "start": index, "stop": index + 1}).data
        if not listed["tasks"]:
            raise UsageError(f"task: index is from 0 to {len(self.envs.tasks) - 1:,}, not {index}")
        return Reply("tasks", {"task": listed["tasks"][0]})

    def _task_range(self, client: Client, data: Any) -> Reply:
        request = parse(_Tasks, data, "task_range")
        self._check_split(request.split)
        tasks = self.envs.tasks
        wanted = range(*slice(request.start, request.stop).indices(len(tasks)))
        if len(wanted) > MAX_RANGE:
            raise UsageError(f"a range has at most {MAX_RANGE:,} tasks: ask for it in parts")
        found = (tasks[number] for number in wanted)
        listed = [{"id": task.id, "source_id": task.source_id, "type": task.type} for task in found]
        return Reply("tasks", {"tasks": listed, "env_name": self.env_id})

    # ---- inside ----------------------------------------------------------------------------

    def _of(self, client: Client, id: str | None) -> EnvSession:
        named = id or client.session
        if named is None:
            line = "name a session: reset begins one, and gives its session_id in the metadata"
            raise SessionError(422, "SESSION_ERROR", line)
        return self.sessions.find(named)

    def _held(self, session: EnvSession) -> str:
        return b64encode(self.sessions.snapshot(session)).decode()

    def _rows(self, played: SessionResults) -> Reply:
        """Return several sessions' results: the form of one, with a list for each value."""
        return Reply("observations", self._columns(played))

    def _row(self, played: SessionResults) -> dict[str, Any]:
        """Return one session's result, in OpenEnv's form."""
        columns = self._columns(played)
        for name in ("observation", "metadata"):
            columns[name] = {key: values[0] for key, values in columns[name].items()}
        for name in ("reward", "done", "terminated", "truncated"):
            columns[name] = columns[name][0]
        (session,) = played.sessions
        columns["metadata"]["episode_id"] = session.episode_id
        if session.instructions:
            columns["observation"][INSTRUCTIONS] = instructions_of(self.envs.prototype, columns)
        if session.snapshots:
            columns["metadata"]["snapshot"] = self._held(session)
        return columns

    def _columns(self, played: SessionResults) -> dict[str, Any]:
        sessions = played.sessions
        return {
            "observation": write_observations(played.observations),
            "reward": played.rewards,
            "done": [session.terminated or session.truncated for session in sessions],
            "terminated": [session.terminated for session in sessions],
            "truncated": [session.truncated for session in sessions],
            "metadata": {**played.infos, "session_id": [session.id for session in sessions]},
        }

    # ---- tools, as the Model Context Protocol has them ----------------------------------------

    def _mcp(self, client: Client, data: Any) -> Waiting[Reply]:
        """Answer JSON-RPC; an error in a call is an answer too."""
        number = data.get("id") if isinstance(data, dict) else None
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number if isinstance(number, str | int) else None}
        try:
            return Reply("mcp", answer | {"result": (yield from self._called(client, data))})
        except (UsageError, ToolCallError) as error:
            return Reply("mcp", answer | {"error": {"code": -32602, "message": str(error)}})
        except SessionError as error:
            code = -32000 if error.status >= 500 else error.status if error.status < 0 else -32602
            return Reply("mcp", answer | {"error": {"code": code, "message": error.line}})

    def _call(self, session: EnvSession, name: str, arguments: Mapping[str, Any]) -> Waiting[dict[str, Any]]:
        """Play the action of a tool call; ToolCallError where it fits no tool."""
        action = action_of(self.tools, ToolCall(name, arguments))
        return self._row((yield from self.sessions.step([session.id], [action])))

    def _tool_step(self, client: Client, data: Mapping[str, Any]) -> Waiting[Reply]:
        """Answer an action of OpenEnv's tool clients; a call that fits no tool is no step, but an answer."""
        request = parse(_ToolStep, data, "step")
        if request.type == "list_tools":
            shown = {"observation": {"tools": tool_list(self.tools, "input_schema")}}
            return Reply("observation", shown | {"reward": None, "done": False, "metadata": {}})
        session, name = self._of(client, request.session_id), request.tool_name
        try:
            row = yield from self._call(session, name, request.arguments)
        except ToolCallError as error:
            known = name in {tool.name for tool in self.tools}
            kind = "invalid_args" if known else "tool_not_found"
            failed = {"tool_name": name, "error": {"error_type": kind, "message": str(error)}}
            return Reply("observation", {"observation": failed, "reward": 0.0, "done": False, "metadata": {}})
        text = row["observation"].get("text", "")
        row["observation"] |= {"tool_name": name, "result": row["observation"].get(INSTRUCTIONS, text)}
        return Reply("observation", row)

    def _called(self, client: Client, data: Any) -> Waiting[dict[str, Any]]:
        table = data if isinstance(data, dict) and data.get("jsonrpc") == "2.0" else {}
        method, params = table.get("method"), table.get("params", {})
        if not isinstance(method, str) or not isinstance(params, dict):
            raise SessionError(-32600, "INVALID_JSON", "a request has jsonrpc '2.0', a method, and an object")
        own = params.get("session_id")
        if own is not None and not isinstance(own, str):
            raise UsageError("session_id is a string")
        match method:
            case "initialize":  # a session of the protocol is an episode
                chosen = params.get("reset", {})
                if not isinstance(chosen, dict):
                    raise UsageError("reset is an object, such as {'seed': 4}")
                begun = yield from self._reset(client, {"snapshot": False, **chosen})
                words = begun.data["observation"].get(INSTRUCTIONS, "")
                return greeting(self.env_id, params.get("protocolVersion"), words)
            case "ping":
                return {}
            case "tools/list":
                return {"tools": tool_list(self.tools, "inputSchema")}
            case "tools/call":
                name, arguments = params.get("name"), params.get("arguments", {})
                if not isinstance(name, str) or not isinstance(arguments, dict):
                    raise UsageError("tools/call takes a name and an object of arguments")
                try:
                    row = yield from self._call(self._of(client, own), name, arguments)
                except (ToolCallError, SessionError) as error:
                    if not client.speaks_mcp or name not in {tool.name for tool in self.tools}:
                        raise
                    return tool_result(str(error), None)  # a model reads it, and may try again
                text = row["observation"].get("text", "")
                if client.speaks_mcp:
                    text = row["observation"].pop(INSTRUCTIONS, text)
                return tool_result(text, row)
            case "openenv/session/create":
                settings = {key: value for key, value in params.items() if key != "session_id"}
                begun = yield from self._reset(Client(), settings)
                return {"session_id": begun.data["metadata"]["session_id"]}
            case "openenv/session/close":
                self.sessions.close([self._of(Client(), own).id])
                return {"session_id": own, "closed": True}
            case _:
                raise SessionError(-32601, "UNKNOWN_TYPE", f"there is no method {method!a:.50}")
