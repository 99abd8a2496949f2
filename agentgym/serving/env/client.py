"""Environments on a server of ``agentgym serve env``: as the environment itself, single and vectorised."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, Literal, NoReturn, TypeVar

import gymnasium
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode

from agentgym.core.options import reset_request
from agentgym.core.queries import UnansweredError
from agentgym.core.spaces import UnicodeText
from agentgym.core.tasks import Task, TaskSet
from agentgym.core.types import Snapshot
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json, printable
from agentgym.retrieval.engines.http_client import TIMEOUT, HttpClient
from agentgym.serving.env.wire import frozen, read_observations, read_space, typed
from agentgym.vector.arguments import autoreset_mode_of, checked_count
from agentgym.vector.batching import Moves, Starts, batch_observations, info_column, unbatch_observations
from agentgym.vector.core import AgentVectorEnv

T = TypeVar("T")

PAGE = 1_000
"""Number of tasks in one request."""
_KINDS: dict[str, type] = {
    "task_id": str, "task_type": str, "turn": int, "state_hash": str, "admissible_actions": list,
    "action_is_valid": bool, "won": bool, "score": float, "progress": float,
}  # fmt: skip
"""Types of the info keys that every environment has."""


class RemoteServer:
    """A server of an environment, as its client knows it."""

    def __init__(
        self, url: str, env_id: str | None, token: str | None, timeout: float, options: dict[str, Any]
    ):
        """Query the server's environment and options, which must be these.

        `UnansweredError` where it cannot be reached.
        """
        headers = None if token is None else {"Authorization": f"Bearer {token}"}
        if not url:
            raise UsageError("agentgym/Remote-v0 plays on a server: pass url='http://HOST:PORT'")
        self._http = HttpClient(url, "the environment server", timeout=timeout, headers=headers)
        self.about: dict[str, Any] = self._send("GET", "/environment", None)
        self.env_id: str = self.read(lambda: self.about["id"])
        if env_id not in (None, self.env_id):
            raise UsageError(f"{url} serves {self.env_id}, not {env_id!r}: name that, or another server")
        served = self.read(lambda: dict(self.about["options"]))
        for name, value in options.items():
            if name not in served or served[name] != value:
                found = f"with {name}={served[name]!r}" if name in served else f"without {name}"
                raise UsageError(f"{url} serves {self.env_id} {found}: start another server for {value!r}")
        self.space = self.read(lambda: read_space(self.about["observation_space"]))

    def ask(self, kind: str, **data: Any) -> Any:
        """Send a message, and return its answer.

        `ResetNeeded` where a session's episode is over, or stands at another step; `LookupError` where the
        server does not know a session any more; `UnansweredError` where it does not answer.
        """
        return self._send("POST", f"/{kind}", json.dumps(data).encode())

    def read(self, function: Callable[[], T]) -> T:
        """Return a function's value of an answer; UnansweredError for an answer of another form."""
        try:
            return function()
        except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, AssertionError) as error:
            why = " ".join(printable(str(error)).split())
            self._http.fail(f"gives no answer of an environment server ({type(error).__name__}: {why:.80})")

    def _send(self, method: str, path: str, body: bytes | None) -> Any:
        answer = self._http.send(method, self._http.path.rstrip("/") + path, body)
        try:
            table = loads_json(answer.body, "the answer", half_characters="kept")
        except UsageError as error:
            self._http.fail(f"answers {answer.status} without JSON ({error!s:.80}): is it another server?")
        if answer.status == 200:
            return table
        reason = table.get("error", table) if isinstance(table, dict) else table
        line = " ".join(printable(str(reason)[:300]).split())
        match answer.status:
            case 404 if isinstance(table, dict) and table.get("code") == "SESSION_ERROR":
                raise LookupError(line)
            case 409:
                raise ResetNeeded(line)
            case 400 | 401 | 403 | 404 | 408 | 413 | 421 | 422:
                raise UsageError(f"{self._http.url} refuses {path}: {line}")
            case status:
                self._http.fail(f"answers {status}: {line}")


class RemoteTaskSet(TaskSet):
    """Tasks of the served split, by id; their content stays on the server."""

    def __init__(self, server: RemoteServer):
        """Take the server's word for their number and manifest."""
        about = server.about
        super().__init__(server.read(lambda: str(about["options"]["split"])), {"env": server.env_id})
        self._server = server
        self._size: int = server.read(lambda: typed([about["tasks"]], int, 1)[0])
        self._sha256: str = server.read(lambda: typed([about["manifest_sha256"]], str, 1)[0])

    @property
    def manifest_sha256(self) -> str:
        """64 hex digits over the manifest, as the server has it."""
        return self._sha256

    def __len__(self) -> int:
        """Number of tasks."""
        return self._size

    def _make(self, index: int) -> Task:
        return self._listed(index, index + 1)[0]

    def _index(self, key: str) -> int | None:
        return self._places.get(key)

    @property
    def ids(self) -> Sequence[str]:
        """The task ids in order."""
        return [task.id for task in self._all]

    @cached_property
    def _all(self) -> list[Task]:
        return [task for start in range(0, self._size, PAGE) for task in self._listed(start, start + PAGE)]

    @cached_property
    def _places(self) -> dict[str, int]:
        places = {task.source_id: number for number, task in enumerate(self._all)}
        return places | {task.id: number for number, task in enumerate(self._all)}

    def _listed(self, start: int, stop: int) -> list[Task]:
        server = self._server
        answer = server.ask(f"{server.env_id}/task_range", split=self.split, start=start, stop=stop)
        count, names = min(stop, self._size) - start, ("id", "source_id", "type")

        def read() -> list[Task]:
            rows = [
                typed([row[name] for name in names], str, 3) for row in typed(answer["tasks"], dict, count)
            ]
            return [Task(id, None, source_id, kind) for id, source_id, kind in rows]

        return server.read(read)


class _Prototype:
    """The part of a single environment that `AgentVectorEnv` reads."""

    metadata: dict[str, Any] = {"render_modes": [], "render_fps": 4}  # noqa: RUF012
    render_mode = None
    query_backends: dict[str, Any] = {}  # noqa: RUF012

    def __init__(self, server: RemoteServer):
        about = server.about
        named = server.read(lambda: typed([about["suite"], about["action_kind"]], str, 2))
        self.suite, self.action_kind = named
        self.max_steps: int = server.read(lambda: typed([about["max_steps"]], int, 1)[0])
        self.tasks = RemoteTaskSet(server)
        self.action_space = UnicodeText()
        self.observation_space = server.space

    def oracle(self) -> NoReturn:
        raise UsageError("the oracle plays where the environment is: open it there")


class RemoteVectorEnv(AgentVectorEnv):
    """N sessions of a server, all of which one message steps. It draws nothing, and is not pickled."""

    def __init__(
        self,
        num_envs: int = 1,
        *,
        url: str = "",
        env_id: str | None = None,
        token: str | None = None,
        timeout: float = TIMEOUT,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        **options: Any,
    ):
        """Connect; sessions begin with the first reset.

        Args:
            num_envs: number of slots.
            url: of the server, as ``http://127.0.0.1:8000``.
            env_id: what it is to serve; None for whatever it does.
            token: what it asks for as a bearer token.
            timeout: seconds for each answer.
            autoreset_mode: as of any vector environment.
            **options: of the environment, which have to be those that it is served with.

        Raises:
            UsageError: it serves something else, or wants another token.
            UnansweredError: it cannot be asked.
        """
        self.autoreset_mode = autoreset_mode_of(autoreset_mode)
        self._server = RemoteServer(url, env_id, token, timeout, options)
        self.prototype = _Prototype(self._server)  # type: ignore[assignment]  # of its kind, as far as slots go
        self._prepare(checked_count(num_envs))

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied: sessions are on the server."""
        raise UsageError("a remote environment is not copied: open another, and restore its snapshots there")

    __deepcopy__ = __reduce__  # type: ignore[assignment]

    def _make_slots(self) -> None:
        self._sessions: list[str | None] = [None] * self.num_envs
        self._turns = [0] * self.num_envs
        self._seen: list[Any] = [None] * self.num_envs

    def _check_tasks(self, slots: Sequence[int], tasks: Sequence[str | None]) -> None:
        """Leave it to the server, which resets all of the slots or none."""

    def _checkpoint(self, slots: Sequence[int], seeds: Sequence[int | None]) -> None:
        """Keep nothing, for the same reason."""

    def _roll_back(self, checkpoint: None) -> None:
        pass

    def _reset_slots(
        self, slots: Sequence[int], tasks: Sequence[str | None], seeds: Sequence[int | None]
    ) -> Starts:
        rollouts = [self._rollouts[slot] for slot in slots]
        given = {"tasks": list(tasks), "seeds": list(seeds), "rollouts": rollouts}
        sessions = [self._sessions[slot] for slot in slots]
        try:
            answer = self._server.ask("reset_many", sessions=sessions, **given)
        except LookupError:  # the sessions expired: the new episodes get new ones
            answer = self._server.ask("reset_many", sessions=[None] * len(slots), **given)
        return Starts(*self._shown(slots, answer))

    def _step_slots(self, slots: Sequence[int], actions: Sequence[str]) -> Moves:
        turns = [self._turns[slot] for slot in slots]
        sessions = [self._sessions[slot] for slot in slots]
        try:
            answer = self._server.ask("step_many", sessions=sessions, actions=list(actions), turns=turns)
        except LookupError as error:
            raise ResetNeeded(str(error)) from error
        observations, infos = self._shown(slots, answer)
        kinds = {"reward": float, "terminated": bool, "truncated": bool}
        rewards, ended, cut = self._server.read(
            lambda: [info_column(typed(answer[name], kind, len(slots))) for name, kind in kinds.items()]
        )
        return Moves(observations, rewards, ended, cut, infos)

    def _observe_slots(self, slots: Sequence[int]) -> Any:
        return batch_observations([self._seen[slot] for slot in slots])

    def _snapshot_slot(self, slot: int) -> Snapshot:
        answer = self._server.ask("snapshot", session_id=self._sessions[slot])
        return Snapshot.from_bytes(self._server.read(lambda: b64decode(answer["snapshot"])))

    def _restore_slot(self, slot: int, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        held = b64encode(snapshot.to_bytes()).decode()
        row = self._server.ask("restore", session_id=self._sessions[slot], snapshot=held)
        parts = ("observation", "metadata")
        answer = self._server.read(
            lambda: {
                name: {key: [value] for key, value in row[name].items() if key != "episode_id"}
                for name in parts
            }
        )
        _, infos = self._shown([slot], answer)
        return self._seen[slot], {key: column.tolist()[0] for key, column in infos.items()}

    def measures(self, slot: int) -> dict[str, float]:
        """Return the measures of the episode in a slot, as `AgentEnv.measures`."""
        answer = self._server.ask("state", session_id=self._sessions[slot])
        return self._server.read(
            lambda: {name: typed([value], float, 1)[0] for name, value in answer["measures"].items()}
        )

    def close_extras(self, **kwargs: Any) -> None:
        """End the sessions; where the server is away, they end after their idle time."""
        sessions = [session for session in self._sessions if session is not None]
        self._sessions = [None] * self.num_envs
        with suppress(UnansweredError, LookupError):
            if sessions:
                self._server.ask("close_many", sessions=sessions)

    def _shown(self, slots: Sequence[int], answer: Any) -> tuple[Any, dict[str, Any]]:
        """Take over what sessions show."""

        def read() -> tuple[Any, dict[str, Any], list[str]]:
            count, metadata = len(slots), answer["metadata"]
            sessions = typed(metadata.pop("session_id"), str, count)
            for actions in typed(metadata["admissible_actions"], list, count):
                typed(actions, str, len(actions))
            if len({*sessions}) < count or not metadata.keys() >= _KINDS.keys():
                raise ValueError("sessions are there twice, or infos are missing")
            infos = {
                key: info_column([*map(frozen, typed(values, _KINDS.get(key), count))])
                for key, values in metadata.items()
            }
            return read_observations(answer["observation"], self._server.space, count), infos, sessions

        observations, infos, sessions = self._server.read(read)
        turns, singles = infos["turn"].tolist(), unbatch_observations(observations, len(slots))
        for slot, session, turn, seen in zip(slots, sessions, turns, singles, strict=True):
            self._sessions[slot], self._turns[slot], self._seen[slot] = session, turn, seen
        return observations, infos


class RemoteEnv(gymnasium.Env[Any, str]):
    """One session of a server, with the methods of the environment that it serves."""

    metadata = _Prototype.metadata

    def __init__(
        self,
        url: str = "",
        env_id: str | None = None,
        *,
        token: str | None = None,
        timeout: float = TIMEOUT,
        **options: Any,
    ):
        """Connect; arguments and errors as `RemoteVectorEnv`."""
        self._slots = RemoteVectorEnv(
            1, url=url, env_id=env_id, token=token, timeout=timeout, autoreset_mode="Disabled", **options
        )
        single = self._slots.prototype
        self.action_space, self.observation_space = single.action_space, single.observation_space
        self.tasks, self.max_steps, self.action_kind = single.tasks, single.max_steps, single.action_kind
        self._info: dict[str, Any] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode, as `AgentEnv.reset`."""
        task, rollout, seed = reset_request(options, ("task", "rollout"), seed)
        observations, infos = self._slots.reset_at([0], [task], [seed], [rollout])
        return self._seen(observations, infos)

    def step(self, action: str) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one action, as `AgentEnv.step`."""
        observations, rewards, terminations, truncations, infos = self._slots.step_at([0], [action])
        ends = bool(terminations[0]), bool(truncations[0])
        observation, info = self._seen(observations, infos)
        return observation, float(rewards[0]), *ends, info

    def admissible_actions(self) -> tuple[str, ...]:
        """Return every action accepted now, in a fixed order; empty once the episode is over."""
        actions: tuple[str, ...] = self._now("admissible_actions")
        return actions

    def state_hash(self, kind: Literal["state"] = "state") -> str:
        """Return 32 hex digits of the state, as `AgentEnv.state_hash`."""
        return str(self._now("state_hash"))

    def snapshot(self) -> Snapshot:
        """Return everything that decides the episode's future; the environment itself restores it too."""
        return self._slots.snapshot(0)

    def restore(self, snapshot: Snapshot) -> tuple[Any, dict[str, Any]]:
        """Go back (or over) to a snapshot's episode, taken here or where the environment is."""
        observation, info = self._slots.restore(0, snapshot)
        self._info = info
        return observation, dict(info)

    def measures(self) -> dict[str, float]:
        """Return the measures of the current episode, as `AgentEnv.measures`."""
        return self._slots.measures(0)

    def close(self) -> None:
        """End the session."""
        self._slots.close()

    def _seen(self, observations: Any, infos: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        self._info = {key: column.tolist()[0] for key, column in infos.items()}
        return unbatch_observations(observations, 1)[0], dict(self._info)

    def _now(self, key: str) -> Any:
        if not self._info:
            raise ResetNeeded("the remote environment plays no task yet: call reset()")
        return self._info[key]


def remote(url: str, env_id: str | None = None, **options: Any) -> RemoteEnv:
    """Open an environment that ``agentgym serve env`` serves; arguments and errors as `RemoteVectorEnv`."""
    return RemoteEnv(url, env_id, **options)
