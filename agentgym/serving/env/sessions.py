"""Sessions of a served environment: the slots of one vector environment, so that all share its world."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any

from agentgym.core.options import PositiveFloat, PositiveInt, check_fields
from agentgym.core.queries import UnansweredError
from agentgym.core.types import Snapshot
from agentgym.errors import UsageError
from agentgym.serving.turns import Waiting
from agentgym.vector.batching import Infos, batch_observations, info_columns
from agentgym.vector.core import AgentVectorEnv
from agentgym.vector.serial import SerialVectorEnv
from agentgym.vector.slot_answers import Answered


@dataclass(frozen=True, slots=True)
class EnvLimits:
    """Limits of an environment's server."""

    sessions: PositiveInt = 1_024
    """Most sessions, and most WebSockets."""
    idle: PositiveFloat = 600.0
    """Seconds after which an idle session ends and an idle WebSocket is closed."""
    body: PositiveInt = 4 << 20
    """Largest size of a message, in bytes."""
    rate: PositiveInt = 10_000
    """Most messages a second from one address."""
    patience: PositiveFloat = 30.0
    """Longest time for a request to arrive, in seconds."""

    def __post_init__(self) -> None:
        """Raise a UsageError unless each limit lets something through."""
        check_fields(self, "limits: ")


class SessionError(Exception):
    """A message that is not carried out; nothing has changed."""

    def __init__(self, status: int, code: str, line: str):
        """Keep HTTP's status, the code that OpenEnv has for it, and why."""
        super().__init__(line)
        self.status, self.code, self.line = status, code, line


@dataclass(slots=True)
class EnvSession:
    """One episode after the other, in a slot."""

    id: str
    slot: int
    used: float
    """Time of the last message for this session."""
    episode_id: str = ""
    turn: int = 0
    terminated: bool = False
    truncated: bool = False
    state_hash: str = ""
    snapshots: bool = False
    """Whether observations are returned with snapshots."""
    instructions: bool = False
    """Whether observations are returned with instructions."""
    attached: bool = False
    """Whether a WebSocket has opened it."""


@dataclass(frozen=True, slots=True)
class SessionResults:
    """Results of n sessions after a reset, a step or a restore."""

    sessions: Sequence[EnvSession]
    observations: Any
    """Batch of observations, as `AgentVectorEnv.step_at` returns it."""
    rewards: Sequence[float | None]
    """Rewards; None for a reset."""
    infos: Mapping[str, list[Any]]


class EnvSessions:
    """Plays sessions. A message names several of them and is carried out whole or not at all.

    While it waits for answers its sessions are as before, do not expire, and others take messages.
    """

    def __init__(
        self, envs: AgentVectorEnv, limits: EnvLimits, *, clock: Callable[[], float] = time.monotonic
    ):
        """Take a vector environment in autoreset mode DISABLED, a slot for each session."""
        self.envs = envs
        serial = envs if isinstance(envs, SerialVectorEnv) else None
        has_queries = bool(envs.prototype.query_backends)  # then the vector environment gathers the answers
        self._asking = serial if has_queries else None
        self._singles = None if serial is None or has_queries else serial.envs
        self._pending: dict[int, Future[str | None]] = {}  # slot -> reason why there is no answer
        self._limits = limits
        self._clock = clock
        self._free = list(range(envs.num_envs))[::-1]
        self._sessions: dict[str, EnvSession] = {}  # the least recently used first

    def __len__(self) -> int:
        """Number of sessions."""
        return len(self._sessions)

    def __contains__(self, id: object) -> bool:
        """Return whether there is a session of an id."""
        return id in self._sessions

    def ids(self) -> tuple[str, ...]:
        """Return the ids of all sessions, the least recently used first."""
        return tuple(self._sessions)

    def find(self, id: str) -> EnvSession:
        """Return a session, which then counts as used; `SessionError` for an unknown one."""
        session = self._sessions.pop(id, None)
        if session is None:
            raise SessionError(
                404, "SESSION_ERROR", f"no session {id!a:.50}: it was closed, or idle too long; reset anew"
            )
        session.used = self._clock()
        self._sessions[id] = session
        return session

    def reset(
        self,
        ids: Sequence[str | None],
        tasks: Sequence[str | None] | None = None,
        seeds: Sequence[int | None] | None = None,
        rollouts: Sequence[int | None] | None = None,
    ) -> Waiting[SessionResults]:
        """Start an episode in each session; None begins a session.

        `SessionError` for unknown or repeated sessions, or too many; `UsageError` as
        `AgentVectorEnv.reset_at`.
        """
        sessions, begun = self._named_or_new(ids)
        given = list(seeds or [None] * len(ids))
        if len(given) == len(ids):
            # a slot's generator may be left over from another session
            drawn = [secrets.randbits(63) if id is None else None for id in ids]
            given = [new if seed is None else seed for seed, new in zip(given, drawn, strict=True)]
        slots = [session.slot for session in sessions]
        try:
            yield from self._answered(sessions, lambda envs: envs.ask_resets(slots, tasks, given, rollouts))
            observations, infos = self.envs.reset_at(slots, tasks, given, rollouts)
        except BaseException:
            self._end(begun)
            raise
        return self._shown(sessions, observations, [None] * len(sessions), infos, anew=True)

    def step(
        self, ids: Sequence[str], actions: Sequence[str], turns: Sequence[int] | None = None
    ) -> Waiting[SessionResults]:
        """Play an action in each session, each once.

        ``turns``: the steps that the client knows of, so that a message that comes twice is not played twice.
        `SessionError` for unknown, repeated or finished sessions, or ones that stand at another step.
        """
        sessions = self._named(ids)
        if not len(sessions) == len(actions) == len(turns if turns is not None else ids):
            raise UsageError(f"{len(sessions)} sessions need as many actions, and as many turns if any")
        for number, session in enumerate(sessions):
            if session.terminated or session.truncated:
                problem = "its episode is over: reset it"
            elif turns is not None and session.turn != turns[number]:
                problem = f"it is at step {session.turn}, not {turns[number]}: restore a snapshot or reset it"
            else:
                continue
            raise SessionError(409, "EXECUTION_ERROR", f"session {session.id}: {problem}")
        if self._singles is not None and len(sessions) == 1:  # faster than a vector environment's arrays
            seen, reward, terminated, truncated, info = self._singles[sessions[0].slot].step(actions[0])
            columns = {key: [value] for key, value in info.items()}
            results = SessionResults(sessions, batch_observations([seen]), [reward], columns)
            return self._note(results, [terminated], [truncated])
        slots = [session.slot for session in sessions]
        try:
            yield from self._answered(sessions, lambda envs: envs.begin_steps(slots, actions))
            observations, rewards, terminations, truncations, infos = self.envs.step_at(slots, actions)
        except UnansweredError as error:
            line = f"no answer to what an action needs, and no episode has moved: {error}"
            raise SessionError(503, "EXECUTION_ERROR", line) from error
        ends = terminations.tolist(), truncations.tolist()
        return self._shown(sessions, observations, rewards.tolist(), infos, ends)

    def snapshot(self, session: EnvSession) -> bytes:
        """Return the bytes of a session's snapshot."""
        return self.envs.snapshot(session.slot).to_bytes()

    def restore(self, id: str | None, data: bytes) -> SessionResults:
        """Put the episode of a snapshot, of untrusted bytes, into a session; None begins one.

        Where they are no snapshot of this environment the session stays as it was.
        """
        snapshot = Snapshot.from_bytes(data)
        sessions, begun = self._named_or_new([id])
        try:
            observation, info = self.envs.restore(sessions[0].slot, snapshot)
        except BaseException:
            self._end(begun)
            raise
        ends = [snapshot.terminated], [snapshot.truncated]
        seen = batch_observations([observation])
        return self._shown(sessions, seen, [None], info_columns([info]), ends, anew=True)

    def undo_of(self, id: str) -> Callable[[], None]:
        """Return a function that restores a session to its present state."""
        session = self.find(id)
        snapshot, before = self.envs.snapshot(session.slot), replace(session)

        def undo() -> None:
            if self._sessions.get(id) is not session:
                return  # the session has ended, and its slot may have another
            self.envs.restore(session.slot, snapshot)
            for name in ("turn", "terminated", "truncated", "state_hash"):
                setattr(session, name, getattr(before, name))

        return undo

    def close(self, ids: Sequence[str]) -> None:
        """End sessions; SessionError where one is unknown or repeated."""
        self._end(self._named(ids))

    def expire(self) -> int:
        """End the sessions that have been idle for too long; return how many."""
        oldest = self._clock() - self._limits.idle
        idle = takewhile(lambda session: session.used <= oldest, self._sessions.values())
        late = [session for session in idle if session.slot not in self._pending]
        self._end(late)
        return len(late)

    def collect(self) -> None:
        """Let the messages go on whose answers have come."""
        ready, failed = self._asking.collect_answers() if self._asking is not None else Answered()
        for slot, reason in (*dict.fromkeys(ready).items(), *failed):
            if slot in self._pending:
                self._pending[slot].set_result(reason)

    # ---- inside ----------------------------------------------------------------------------

    def _answered(self, sessions: Sequence[EnvSession], ask: Callable[..., None]) -> Waiting[None]:
        """Wait for the answers to what ``ask`` asks in the sessions' slots; UnansweredError without one."""
        if self._asking is None:
            return
        futures: dict[int, Future[str | None]] = {session.slot: Future() for session in sessions}
        self._pending |= futures
        try:
            ask(self._asking)
            self.collect()
            yield from (future for future in futures.values() if not future.done())
        except BaseException:
            self._asking.forget_answers(list(futures))
            raise
        finally:
            for session in sessions:
                del self._pending[session.slot]
                self.find(session.id)  # counts as used, since it was not idle
        if failed := [(slot, why) for slot, each in futures.items() if (why := each.result()) is not None]:
            raise UnansweredError.at(failed)

    def _named(self, ids: Sequence[str]) -> list[EnvSession]:
        if not ids or len(set(ids)) < len(ids):
            raise SessionError(422, "VALIDATION_ERROR", "a message names at least one session, and each once")
        for id in ids:
            if id not in self._sessions:
                self.find(id)  # raises for an unknown one, before any counts as used
            if self._sessions[id].slot in self._pending:
                line = f"session {id} waits for an answer to another message: try when that has come"
                raise SessionError(409, "EXECUTION_ERROR", line)
        return [self.find(id) for id in ids]

    def _named_or_new(self, ids: Sequence[str | None]) -> tuple[list[EnvSession], list[EnvSession]]:
        """Return the sessions of a message, and those of them that begin with it."""
        given = [id for id in ids if id is not None]
        named = iter(self._named(given) if given or not ids else ())
        if ids.count(None) > len(self._free):
            raise SessionError(
                503,
                "CAPACITY_REACHED",
                f"{len(self):,} of {self.envs.num_envs:,} sessions are in use: close some, or try later",
            )
        sessions, begun = [], []
        for id in ids:
            if id is None:
                session = EnvSession(secrets.token_hex(16), self._free.pop(), self._clock())
                self._sessions[session.id] = session
                begun.append(session)
            sessions.append(session if id is None else next(named))
        return sessions, begun

    def _end(self, sessions: Sequence[EnvSession]) -> None:
        for session in sessions:
            del self._sessions[session.id]
            self._free.append(session.slot)

    def _shown(
        self,
        sessions: Sequence[EnvSession],
        observations: Any,
        rewards: Sequence[float | None],
        infos: Infos,
        ends: tuple[Sequence[bool], Sequence[bool]] | None = None,
        *,
        anew: bool = False,
    ) -> SessionResults:
        columns = {key: column.tolist() for key, column in infos.items()}
        for session in sessions if anew else ():
            session.episode_id = secrets.token_hex(16)
        results = SessionResults(sessions, observations, rewards, columns)
        return self._note(results, *(ends or ([False] * len(sessions), [False] * len(sessions))))

    def _note(
        self, results: SessionResults, terminations: Sequence[bool], truncations: Sequence[bool]
    ) -> SessionResults:
        """Store the sessions' present steps."""
        turns, hashes = results.infos["turn"], results.infos["state_hash"]
        for number, session in enumerate(results.sessions):
            session.turn, session.state_hash = turns[number], hashes[number]
            session.terminated, session.truncated = terminations[number], truncations[number]
        return results
