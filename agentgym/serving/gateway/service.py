"""The gateway: answers and records model calls of sessions, plays environments, stores episodes."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from agentgym.core.hashing import content_id
from agentgym.endpoint.chat import ChatMessage
from agentgym.errors import UsageError
from agentgym.inference.engines.types import Engine, Generation, GenerationRequest, Sampling
from agentgym.io.records import parse
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.rollout.datapool import DataPool
from agentgym.serving.env.service import EnvService
from agentgym.serving.env.sessions import SessionError
from agentgym.serving.gateway.call_tree import CallTree, EnvRow, ModelCall, Place
from agentgym.serving.gateway.episodes import make_trajectory, start_of
from agentgym.serving.gateway.journal import JournalRecord, SessionJournal, table_of
from agentgym.serving.gateway.model_queries import ModelQuery
from agentgym.serving.gateway.sessions import (
    CompletedSession,
    EndedSession,
    GatewayLimits,
    GatewaySession,
    SessionOutcome,
    SessionRecord,
    SessionSpec,
    env_row,
)
from agentgym.serving.gateway.token_rule import PromptWriter
from agentgym.serving.turns import Turns

T = TypeVar("T")

_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}")


class Gateway:
    """Server of all sessions in one event loop; the engine samples their requests in batches."""

    def __init__(
        self,
        chat: ChatTokenizer,
        engine: Engine,
        stop_ids: tuple[int, ...],
        journal: SessionJournal,
        *,
        model: str = "model",
        limits: GatewayLimits | None = None,
        env: EnvService | None = None,
        pool: DataPool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Bind what answers.

        ``stop_ids`` end an answer, ``model`` is the model's name, ``env`` plays the episodes of sessions and
        ``pool`` takes them, ``clock`` gives seconds.
        """
        self.chat, self.engine, self.model, self.env = chat, engine, model, env
        self.limits = limits or GatewayLimits()
        self.sessions: dict[str, GatewaySession] = {}
        self._writer = PromptWriter(chat)
        self._stop_ids = stop_ids
        self._pool, self._journal, self._clock = pool, journal, clock
        self._rollouts: dict[str, int] = {}
        """Next index in each group."""
        # a thread each: a long prompt, a weight sync or a slow disk delays only its own kind of work
        names = ("write", "submit", "store")
        self._threads = {name: ThreadPoolExecutor(1, thread_name_prefix=name) for name in names}
        self._turns = Turns()
        self._opening: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # session -> lock

    # ---- sessions --------------------------------------------------------------------------

    async def restore(self) -> None:
        """Take up the sessions of the journal that are not complete, as many as may be open."""
        for id in self._journal.ids():
            with suppress(SessionError, UsageError, LookupError):  # the session's next request gets it
                await self._taken_up(id)

    async def create(self, data: Any) -> tuple[GatewaySession, Any]:
        """Begin a session; return it, and the first row of its environment."""
        spec = parse(SessionSpec, data, "a session")
        id = spec.session_id or secrets.token_hex(16)
        if not _ID.fullmatch(id):
            line = "session_id: at most 128 letters, digits, _ and, but for the first, also -, . and :"
            raise UsageError(line)
        if id in self.sessions or id in self._journal:
            raise _conflict(f"session {id} is there already: choose another session_id")
        self._check_room()
        session = GatewaySession(self._record(spec, id), self._clock(), closing=True)
        self.sessions[id] = session
        try:
            async with session.lock:
                row = await self._begin(session)
                await self._check_group(session)
                self._write(session, session.spec)
                session.closing = False
        except BaseException:
            self._drop(session)
            raise
        return session, row

    def _record(self, spec: SessionSpec, id: str) -> SessionRecord:
        """Return the record of a new session from its spec."""
        if self.env is not None and spec.env_id not in ("", self._env_id):
            raise UsageError(f"env_id: {self._env_id} is served here: leave it out")
        if self.env is None and spec.index is not None:
            raise UsageError("index: no environment is served here: name the task with 'task'")
        group, size = spec.group or id, spec.group_size or (None if spec.group else 1)
        if size is None and self._pool is not None:
            size = self._pool.group_size
            if size is None:
                line = "group_size: say how many episodes the group is to have, here or by --group-size"
                raise UsageError(line)
        made = {
            "session_id": id,
            "task": spec.task or (group if self.env is None else None),
            "group": group,
            "group_size": size,
            "seed": int(content_id(("group", group))[:13], 16) if spec.seed is None else spec.seed,
            "rollout": self._take_place(group, spec.rollout),
        }
        return SessionRecord(**table_of(spec) | made, created=time.time(), served=self._env_id)

    async def _check_group(self, session: GatewaySession) -> None:
        """Refuse a session before it is played where the pool would refuse its episode."""
        if self._pool is None:
            return
        spec, start = session.spec, start_of(session)
        members = [each for each in self.sessions.values() if each.spec.group == spec.group]
        begun = [each for each in members if each.completed is None and (each.rows or self.env is None)]
        if any((each.spec.group_size, start_of(each)) != (spec.group_size, start) for each in begun):
            raise UsageError(f"group {spec.group} is of another task or group_size: name another group")
        named: dict[str, Any] = {"group": spec.group, "size": spec.group_size, "rollout": spec.rollout}
        await self._in_thread("store", partial(self._pool.check, **named, **start))

    async def _in_thread(self, name: str, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads[name], function, *arguments)

    def _take_place(self, group: str, rollout: int | None) -> int:
        """Return a place in a group, the next where none is named; those after it are the next ones."""
        place = self._rollouts.get(group, 0) if rollout is None else rollout
        self._rollouts[group] = max(self._rollouts.get(group, 0), place + 1)
        return place

    async def find(self, id: str) -> GatewaySession:
        """Return a session, which then counts as used; one of the journal is resumed first.

        `SessionError` for an unknown one, or where its environment does not replay as recorded.
        """
        session = self.sessions.get(id)
        if session is None and _ID.fullmatch(id) and id in self._journal:
            async with self._opening.setdefault(id, asyncio.Lock()):
                session = self.sessions.get(id) or await self._taken_up(id)
        if session is None:
            raise SessionError(404, "SESSION_ERROR", f"no session {id!a:.50}: begin one with POST /sessions")
        session.used = self._clock()
        return session

    async def _taken_up(self, id: str) -> GatewaySession | None:
        """Return the session of the journal; its environment is played anew, up to where it stood."""
        spec, records = self._journal.read(id)
        if spec is None:
            return None
        self._take_place(spec.group, spec.rollout)
        session = GatewaySession(spec, self._clock())
        match records[-1:]:
            case [CompletedSession() as completed]:
                session.completed, session.closing = completed.answer, True
                return session
            case [EndedSession() as ended]:
                raise SessionError(410, "SESSION_ERROR", ended.reason)
        if spec.served != self._env_id:
            served = spec.served or "(none)"
            raise _conflict(f"session {id} was begun with --env {served}: start the gateway so")
        self._check_room()
        try:
            await self._begin(session)
            for record in records:
                await self._take_up(session, record)
            self._check_room()  # other sessions were opened meanwhile
        except BaseException:
            self._drop(session)
            raise
        self.sessions[id] = session
        return session

    async def _take_up(self, session: GatewaySession, record: JournalRecord) -> None:
        """Add a call of the journal, or play a step."""
        tree = session.tree
        if isinstance(record, ModelCall):
            before = None if record.parent is None else tree.calls[record.parent]
            record.prompt_ids = tree.sampled(record.parent) + record.prompt_ids
            record.tools = record.tools if before is None else before.tools
            session.request_count = max(session.request_count, record.asked + 1)
            tree.add(record)
        elif isinstance(record, EnvRow):
            row = await self._ask(session, "step", {"action": record.action})
            if row["metadata"]["state_hash"] != record.state_hash:
                line = "the session has ended: played anew, its environment came to another state"
                self._journal.append(session.spec.session_id, EndedSession(line))
                raise SessionError(410, "SESSION_ERROR", line)
            session.play(record, row["metadata"])

    @property
    def _env_id(self) -> str:
        return "" if self.env is None else self.env.env_id

    def delete(self, session: GatewaySession) -> int:
        """Forget a session, but for a stored episode; return its number of calls. SessionError in a step."""
        if session.lock.locked():
            raise _conflict(f"session {session.spec.session_id} waits for an answer: delete it after that")
        self._drop(session)
        self._journal.remove(session.spec.session_id)
        return len(session.tree.calls)

    def expire(self) -> None:
        """Close the sessions that were idle for too long; the journal has them still."""
        oldest = self._clock() - self.limits.idle
        late = [each for each in self.sessions.values() if each.used < oldest and not each.busy]
        for session in [each for each in late if not each.lock.locked()]:
            self._drop(session)

    def _drop(self, session: GatewaySession) -> None:
        self.sessions.pop(session.spec.session_id, None)
        self._close_env(session)

    def _check_room(self) -> None:
        if len(self.sessions) >= self.limits.sessions:
            done = next((each for each in self.sessions.values() if each.completed is not None), None)
            if done is None:
                line = f"{len(self.sessions):,} sessions are open: complete or delete some, or try later"
                raise SessionError(503, "CAPACITY_REACHED", line)
            self._drop(done)

    def _check_open(self, session: GatewaySession) -> None:
        if session.closing or session.spec.session_id not in self.sessions:
            raise _conflict(f"session {session.spec.session_id} is not open: begin another")

    # ---- model calls -----------------------------------------------------------------------

    async def call(self, session: GatewaySession, query: ModelQuery) -> ModelCall:
        """Answer a request to the model, and keep it."""
        self._check_open(session)
        session.busy += 1
        try:
            return await self._answered(session, query)
        finally:
            session.busy -= 1

    async def _answered(self, session: GatewaySession, query: ModelQuery) -> ModelCall:
        tree, spec = session.tree, session.spec
        place = tree.find(query.tools, query.messages)
        view = session.rows[-1] if session.rows else EnvRow(place.key)
        room = self.engine.context_length
        size, unit = self._writer.least_tokens(place.messages, query.tools), "tokens or more"
        if size <= room:
            async with self._turns.turn(spec.session_id):
                prompt_ids = await self._in_thread("write", self._prompt, tree, place, query)
            size, unit = len(prompt_ids), "tokens"
        session.full = size >= room
        if session.full:
            line = f"the messages are {size:,} {unit}, and the model's context is {room:,}: shorten them"
            raise SessionError(400, "context_length_exceeded", line)
        asked, session.request_count = session.request_count, session.request_count + 1
        drawn = (spec.seed, spec.task, spec.rollout, asked) if query.seed is None else query.seed
        asking = GenerationRequest(
            prompt_ids,
            None,
            Sampling(query.temperature, query.max_tokens, self._stop_ids),
            int(content_id(drawn)[:16], 16),
            episode=int(content_id(spec.session_id)[:8], 16),
        )
        began = time.perf_counter()
        made, text = self._cut(await self._generated(asking), query.stop)
        self._check_open(session)
        number = len(tree.calls)
        answer = ChatMessage("assistant", text)
        if query.tools and query.tool_choice == "auto":
            answer = self._writer.answer(text, query.tools, f"call_{number}")
        call = ModelCall(
            number, asked, place.parent, place.key, place.messages, query.tools, prompt_ids, made, answer,
            query.temperature, time.perf_counter() - began, view, time.time(),
        )  # fmt: skip
        shared = len(tree.sampled(place.parent))  # the journal has these tokens in the parent's line
        tools = query.tools if place.parent is None else ()
        self._write(session, replace(call, prompt_ids=prompt_ids[shared:], tools=tools))
        tree.add(call)
        return call

    def _prompt(self, tree: CallTree, place: Place, query: ModelQuery) -> tuple[int, ...]:
        if place.parent is None:
            return self._writer.opening(place.messages, query.tools)
        parent = tree.calls[place.parent]
        between = self._writer.following(place.messages, parent.generation.ids, parent.answer.tool_calls)
        return tree.sampled(place.parent) + between

    async def _generated(self, request: GenerationRequest) -> Generation:
        try:
            future = await self._in_thread("submit", self.engine.submit, request)
            return await asyncio.wrap_future(future)
        except Exception as error:
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise SessionError(503, "engine_error", f"the engine gave no answer: {reason}") from error

    def _cut(self, made: Generation, stops: Sequence[str]) -> tuple[Generation, str]:
        """Return a response up to the token that completes a stop text, and the text before that."""
        ids = made.ids[:-1] if made.finish == "stop" else made.ids
        text = self.chat.decode(ids)
        ends = [text.find(stop) for stop in stops if stop in text]
        if not ends:
            return made, text

        def stopped(count: int) -> bool:
            return any(stop in self.chat.decode(ids[:count]) for stop in stops)

        count = bisect_left(range(len(ids)), True, lo=1, key=stopped)
        versions = made.versions[:count] if len(set(made.versions[:count])) > 1 else ()
        cut = Generation(made.ids[:count], made.logprobs[:count], made.version, "stop", versions)
        return cut, text[: min(ends)]

    # ---- the environment and the end -------------------------------------------------------

    async def play(self, session: GatewaySession, kind: str, data: Mapping[str, Any]) -> Any:
        """Answer ``step``, ``state`` or ``reset`` as the environment's own server does.

        A session is one episode: ``reset`` shows it anew until the first step.
        """
        if self.env is None:
            raise SessionError(404, "SESSION_ERROR", "no environment is served here: start one with --env")
        self._check_open(session)
        if "session_id" in data:
            raise UsageError("session_id is in the path: leave it out")
        async with session.lock:
            if kind == "reset":
                if data or session.rows[1:]:
                    raise _conflict("a session is one episode, of one task: begin another session")
                return await self._begin(session)
            if kind != "step":
                return await self._ask(session, kind, data)
            # a step is acknowledged only once it is in the journal; one that the journal refuses is undone
            undo = await self.env.call(self.env.sessions.undo_of, str(session.env.session))
            began = time.perf_counter()
            row = await self._ask(session, kind, data)
            self._check_open(session)
            move = env_row(row, data["action"], time.perf_counter() - began)
            try:
                self._write(session, move)
            except BaseException:
                await self.env.call(undo)
                raise
            session.play(move, row["metadata"])
            return row

    def _write(self, session: GatewaySession, record: JournalRecord) -> None:
        """Write a record before it takes effect; SessionError where it cannot be written."""
        try:
            self._journal.append(session.spec.session_id, record)
        except UsageError as error:
            raise SessionError(503, "journal_error", f"nothing has changed: {error}") from error

    async def _begin(self, session: GatewaySession) -> Any:
        """Start a session's episode; return its first row, None where no environment is served."""
        if self.env is None:
            return None
        spec = session.spec
        choice = {"task": spec.task, "index": spec.index, "seed": spec.seed, "rollout": spec.rollout}
        row = await self._ask(session, "reset", choice | {"snapshot": False, "instructions": False})
        session.rows, session.info = [env_row(row)], row["metadata"]
        session.spec = replace(spec, task=session.info["task_id"], index=None)
        return row

    async def _ask(self, session: GatewaySession, kind: str, data: Mapping[str, Any]) -> Any:
        assert self.env is not None
        return (await self.env.handle(session.env, kind, data)).data

    def _close_env(self, session: GatewaySession) -> None:
        if self.env is not None and session.env.session in self.env.sessions:
            self.env.sessions.close([str(session.env.session)])

    async def complete(self, session: GatewaySession, data: Any) -> Mapping[str, Any]:
        """End a session: its episode is stored before this returns. Asked again, it answers the same.

        The session stays open where the body is malformed or the pool refuses the episode.
        """
        outcome = parse(SessionOutcome, data, "complete")
        async with session.lock:
            if session.completed is None:
                if not session.tree.calls:
                    raise _conflict("the session has no model call: delete it, or make one")
                session.closing = True
                try:
                    session.completed = await self._stored(session, outcome)
                finally:
                    session.closing = session.completed is not None
                self._close_env(session)
            return session.completed

    async def _stored(self, session: GatewaySession, outcome: SessionOutcome) -> Mapping[str, Any]:
        spec, calls = session.spec, session.tree.trained()
        episode = make_trajectory(session, outcome)
        trainable = outcome.trainable
        if trainable is None:
            trainable = len({call.temperature for call in calls}) == 1 and calls[0].temperature > 0
        labels = tuple(dict.fromkeys((*spec.labels, *outcome.labels)))
        stored = None
        if self._pool is not None:
            add = partial(
                self._pool.add, group=spec.group, size=spec.group_size, labels=labels, trainable=trainable
            )
            stored = await self._in_thread("store", add, episode)
        answer: dict[str, Any] = {
            "session_id": spec.session_id, "episode": stored, "group": spec.group, "rollout": spec.rollout,
            "task_id": episode.task_id, "calls": len(calls), "reward": episode.episode_return,
            "won": episode.won, "score": episode.score, "end_reason": episode.end_reason,
            "trainable": trainable, "labels": labels,
        }  # fmt: skip
        self._journal.complete(spec, CompletedSession(answer))
        return answer


def _conflict(line: str) -> SessionError:
    return SessionError(409, "SESSION_ERROR", line)
