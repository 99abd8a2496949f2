"""The gateway: model calls of sessions answered and kept, environments played, episodes stored."""

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
from typing import Any

from agentgym.core.hashing import content_id
from agentgym.endpoint.chat import ChatMessage, ChatToolCall
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.rollout.datapool import DataPool
from agentgym.serving.env.sessions import SessionError
from agentgym.serving.gateway.call_tree import EnvView, ModelCall, Place
from agentgym.serving.gateway.episodes import drawn_alike, make_trajectory
from agentgym.serving.gateway.journal import SessionJournal
from agentgym.serving.gateway.queries import ModelQuery
from agentgym.serving.gateway.records import call_record, head_record, take_up
from agentgym.serving.gateway.sessions import (
    EnvJoin,
    GatewayLimits,
    GatewaySession,
    SessionOutcome,
    SessionSpec,
)
from agentgym.serving.gateway.token_rule import PromptWriter
from agentgym.serving.gateway.tool_calls import ParsedAnswer, call_style, parse_answer
from agentgym.training.engines.types import Engine, Generation, GenerationRequest, Sampling

ENV_ID = "gateway"
"""Of episodes without an environment, where their sessions name none."""

_OVER = ("completed", "ended")
"""Kinds of records after which a session does not go on."""
_DAMAGES = (AttributeError, LookupError, TypeError, ValueError)
"""What lines of a journal that lack something raise."""
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,127}")


class Gateway:
    """Answers the requests of all sessions in one event loop; the engine draws side by side what they ask."""

    def __init__(
        self,
        chat: ChatTokenizer,
        engine: Engine,
        stop_ids: tuple[int, ...],
        *,
        model: str = "model",
        limits: GatewayLimits | None = None,
        env: EnvJoin | None = None,
        pool: DataPool | None = None,
        journal: SessionJournal | None = None,
        clock: Callable[[], float] = time.monotonic,
    ):
        """Bind what answers.

        Args:
            chat: writes prompts and reads answers.
            engine: samples.
            stop_ids: tokens that end an answer.
            model: what the model is called.
            limits: of sessions and requests.
            env: the environment whose episodes the sessions are; None for none.
            pool: takes completed episodes; None for nothing that does.
            journal: keeps open sessions; None for this process's memory alone.
            clock: seconds, for idle sessions.
        """
        self.chat, self.engine, self.model, self.env = chat, engine, model, env
        self.limits = limits or GatewayLimits()
        self.sessions: dict[str, GatewaySession] = {}
        self._writer = PromptWriter(chat)
        self._style = call_style(chat.tokenizer.get_chat_template())
        self._stop_ids = stop_ids
        self._pool, self._journal, self._clock = pool, journal, clock
        self._group_size = None if pool is None else pool.group_size
        self._rollouts: dict[str, int] = {}
        """By group: the next place in it."""
        # weights that are being taken over hold up who submits, and a disk who stores
        self._threads = {name: ThreadPoolExecutor(1, thread_name_prefix=name) for name in ("submit", "store")}
        self._opening = asyncio.Lock()

    # ---- sessions --------------------------------------------------------------------------

    async def restore(self) -> None:
        """Take up the sessions of the journal that are not complete, as many as may be open."""
        for id in self._journal.ids() if self._journal is not None else ():
            with suppress(SessionError, UsageError):  # who names the session is told
                records = self._records(id)
                if not records:
                    continue
                spec = parse(SessionSpec, records[0].get("spec"), id)
                self._rollouts[spec.group] = max(self._rollouts.get(spec.group, 0), (spec.rollout or 0) + 1)
                if records[-1]["kind"] not in _OVER and len(self.sessions) < self.limits.sessions:
                    await self.find(id)

    async def create(self, data: Any) -> tuple[GatewaySession, dict[str, Any] | None]:
        """Begin a session; return it, and the first row of its environment.

        Raises:
            UsageError: the body is malformed, or there is no such task.
            SessionError: the session is there already, or too many are.
        """
        spec = parse(SessionSpec, data, "a session")
        id = spec.session_id or secrets.token_hex(16)
        if not _ID.fullmatch(id):
            raise UsageError(
                "session_id: at most 128 letters, digits, _ and, but for the first, also -, . and :"
            )
        if id in self.sessions or (self._journal is not None and id in self._journal):
            raise SessionError(
                409, "SESSION_ERROR", f"session {id} is there already: choose another session_id"
            )
        self._check_room()
        if self.env is not None and spec.env_id not in ("", self.env.service.env_id):
            raise UsageError(f"env_id: {self.env.service.env_id} is served here: leave it out")
        if self.env is None and spec.index is not None:
            raise UsageError("index: no environment is served here: name the task with 'task'")
        group, size = spec.group or id, spec.group_size
        if size is None:
            size = self._group_size if spec.group else 1
        if size is None and self._pool is not None:
            raise UsageError(
                "group_size: say how many episodes the group is to have, here or by --group-size"
            )
        seed = int(content_id(("group", group))[:13], 16) if spec.seed is None else spec.seed
        rollout = self._rollouts.get(group, 0) if spec.rollout is None else spec.rollout
        self._rollouts[group] = max(self._rollouts.get(group, 0), rollout + 1)
        spec = replace(spec, session_id=id, group=group, group_size=size, seed=seed, rollout=rollout)
        session = GatewaySession(spec, time.time(), self._clock())
        self.sessions[id] = session
        try:
            row = await self._begin(session)
            self._note(session, head_record(session, self._env_id))
        except BaseException:
            self._drop(session)
            raise
        return session, row

    async def _begin(self, session: GatewaySession) -> dict[str, Any] | None:
        """Begin a session's episode, where there is an environment; name its task."""
        if self.env is None:
            session.spec = replace(session.spec, task=session.spec.task or session.spec.group)
            return None
        row = await self.env.begin(session)
        session.spec = replace(session.spec, task=row["metadata"]["task_id"], index=None)
        return row

    async def find(self, id: str) -> GatewaySession:
        """Return a session, which then counts as used; one of the journal is taken up first.

        `SessionError` where there is none, or its environment is not as it was.
        """
        session = self.sessions.get(id)
        if session is None and self._journal is not None and _ID.fullmatch(id):
            async with self._opening:
                session = self.sessions.get(id) or await self._restored(id)
        if session is None:
            raise SessionError(404, "SESSION_ERROR", f"no session {id!a:.50}: begin one with POST /sessions")
        session.used = self._clock()
        return session

    async def _restored(self, id: str) -> GatewaySession | None:
        """Return the session of the journal; its environment is played anew, up to where it stood."""
        records = self._records(id)
        if not records:
            return None
        head, last = records[0], records[-1]
        session = GatewaySession(parse(SessionSpec, head["spec"], id), head["created"], self._clock())
        if last["kind"] == "completed":
            session.completed, session.closing = last["answer"], True
            return session
        if last["kind"] == "ended":
            raise SessionError(410, "SESSION_ERROR", last["reason"])
        if head["env"] != self._env_id:
            line = f"session {id} was begun with --env {head['env'] or '(none)'}: start the gateway so"
            raise SessionError(409, "SESSION_ERROR", line)
        self._check_room()
        try:
            await self._replay(session, records[1:])
        except BaseException as error:
            self._drop(session)
            if isinstance(error, _DAMAGES) and not isinstance(error, UsageError):
                line = f"the journal of session {id} is damaged ({error!r:.80}): delete its file"
                raise UsageError(line) from error
            raise
        self.sessions[id] = session
        return session

    async def _replay(self, session: GatewaySession, records: Sequence[Mapping[str, Any]]) -> None:
        """Take up the calls of a journal, and play its steps."""
        if self.env is not None:
            await self.env.begin(session)
        for record in records:
            if record["kind"] == "call":
                take_up(session, record)
            elif self.env is not None:
                row = await self.env.ask(session, "step", {"action": record["action"]})
                move = self.env.played(session, record["action"], row, record["seconds"])
                if move.view.state_hash != record["state_hash"]:
                    line = "the session has ended: played anew, its environment came to another state"
                    self._note(session, {"kind": "ended", "reason": line})
                    raise SessionError(410, "SESSION_ERROR", line)

    def _records(self, id: str) -> list[dict[str, Any]]:
        if self._journal is None or id not in self._journal:
            return []
        records = list(self._journal.read(id))
        whole = all(isinstance(each, dict) and isinstance(each.get("kind"), str) for each in records)
        if not whole or (records and not {"spec", "created", "env"} <= records[0].keys()):
            raise UsageError(f"the journal of session {id} is damaged: delete its file")
        return records

    def _note(self, session: GatewaySession, record: Mapping[str, Any]) -> None:
        if self._journal is not None:
            self._journal.append(session.spec.session_id, record)

    @property
    def _env_id(self) -> str:
        return "" if self.env is None else self.env.service.env_id

    def delete(self, session: GatewaySession) -> int:
        """Forget a session and what is kept of it, but for a stored episode; return its number of calls."""
        self._drop(session)
        if self._journal is not None:
            self._journal.remove(session.spec.session_id)
        return len(session.tree.calls)

    def expire(self) -> None:
        """Close the sessions that were idle for too long; the journal has them still."""
        oldest = self._clock() - self.limits.idle
        for session in [each for each in self.sessions.values() if each.used < oldest and not each.busy]:
            self._drop(session)

    def _drop(self, session: GatewaySession) -> None:
        self.sessions.pop(session.spec.session_id, None)
        if self.env is not None:
            self.env.close(session)

    def _check_room(self) -> None:
        if len(self.sessions) >= self.limits.sessions:
            done = next((each for each in self.sessions.values() if each.completed is not None), None)
            if done is None:
                line = f"{len(self.sessions):,} sessions are open: complete or delete some, or try later"
                raise SessionError(503, "CAPACITY_REACHED", line)
            self._drop(done)

    # ---- model calls -----------------------------------------------------------------------

    async def call(self, session: GatewaySession, query: ModelQuery) -> ModelCall:
        """Answer a request to the model, and keep it.

        Raises:
            UsageError: the chat template cannot write it.
            SessionError: it does not fit the context, the session is complete, or the engine failed.
        """
        self._check_open(session)
        request, tree = query.request, session.tree
        place = tree.find(request.tools, request.messages)
        view, seen = session.views[-1] if session.views else EnvView(place.key), len(session.views)
        prompt_ids = self._prompt(session, place, query)
        room = self.engine.context_length - len(prompt_ids)
        session.full = room < 1
        if session.full:
            line = (
                f"the messages are {len(prompt_ids):,} tokens, and the model's context is "
                f"{self.engine.context_length:,}: shorten them"
            )
            raise SessionError(400, "context_length_exceeded", line)
        asked, session.asked = session.asked, session.asked + 1
        sampling = request.sampling
        assert sampling.temperature is not None  # a request has both
        assert sampling.max_tokens is not None
        spec, drawn = session.spec, sampling.seed
        asking = GenerationRequest(
            prompt_ids,
            None,
            Sampling(sampling.temperature, sampling.max_tokens, self._stop_ids),
            int(content_id((spec.seed, spec.task, spec.rollout, asked) if drawn is None else drawn)[:16], 16),
            episode=int(content_id(spec.session_id)[:8], 16),
        )
        began = time.perf_counter()
        made, text = self._cut(await self._generated(session, asking), sampling.stop)
        self._check_open(session)
        answer = self._answer(text, len(tree.calls), query.calls)
        finish = "tool_calls" if answer.tool_calls else made.finish
        call = ModelCall(
            len(tree.calls), asked, place.parent, place.messages, request.tools, prompt_ids, made, answer,
            finish, sampling.temperature, time.perf_counter() - began, view, time.time(),
        )  # fmt: skip
        self._note(session, call_record(session, call, seen))
        tree.add(call, place)
        return call

    def _prompt(self, session: GatewaySession, place: Place, query: ModelQuery) -> tuple[int, ...]:
        if place.parent is None:
            return self._writer.opening(place.messages, query.request.tools)
        parent = session.tree.calls[place.parent]
        said = parent.generation.ids
        return (
            parent.prompt_ids
            + said
            + self._writer.following(place.messages, said[-1], parent.answer.tool_calls)
        )

    async def _generated(self, session: GatewaySession, request: GenerationRequest) -> Generation:
        session.busy += 1
        try:
            loop = asyncio.get_running_loop()
            future = await loop.run_in_executor(self._threads["submit"], self.engine.submit, request)
            return await asyncio.wrap_future(future)
        except Exception as error:
            reason = next(iter(str(error).splitlines()), "") or type(error).__name__
            raise SessionError(503, "engine_error", f"the engine gave no answer: {reason}") from error
        finally:
            session.busy -= 1

    def _cut(self, made: Generation, stops: Sequence[str]) -> tuple[Generation, str]:
        """Return a response up to the token that spells out a text which ends it, and what it says before."""
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

    def _answer(self, text: str, number: int, calls: bool) -> ChatMessage:
        found = parse_answer(text, self._style) if calls else ParsedAnswer(text, ())
        named = [
            ChatToolCall(f"call_{number}_{place}", name, arguments)
            for place, (name, arguments) in enumerate(found.calls)
        ]
        return ChatMessage("assistant", found.text, tool_calls=tuple(named))

    # ---- the environment and the end -------------------------------------------------------

    async def play(self, session: GatewaySession, kind: str, data: Any) -> Any:
        """Answer ``env/step``, ``env/state`` or ``env/reset`` as the environment's own server does.

        A session is one episode: ``reset`` shows it anew until the first step.
        """
        if self.env is None or (session.env is None and session.completed is None):
            raise SessionError(404, "SESSION_ERROR", "no environment is served here: start one with --env")
        self._check_open(session)
        if not isinstance(data, dict) or "session_id" in data:
            raise UsageError("the message is an object, without session_id")
        async with session.lock:
            if kind == "state":
                return await self.env.ask(session, kind, data)
            if kind == "reset":
                if data or session.moves:
                    line = "a session is one episode, of one task: begin another session"
                    raise SessionError(409, "SESSION_ERROR", line)
                return await self.env.begin(session)
            began = time.perf_counter()
            row = await self.env.ask(session, "step", data)
            move = self.env.played(session, data["action"], row, time.perf_counter() - began)
            record = {"kind": "step", "action": move.action, "state_hash": move.view.state_hash}
            self._note(session, record | {"seconds": move.seconds})
            return row

    async def complete(self, session: GatewaySession, data: Any) -> dict[str, Any]:
        """End a session: its episode is stored before this returns. Asked again, it answers the same.

        Raises:
            UsageError: the body is malformed, or the pool refuses the episode; the session stays open.
            SessionError: there is no call to train.
        """
        outcome = parse(SessionOutcome, data, "complete")
        async with session.lock:
            if session.completed is not None:
                return session.completed
            if not session.tree.calls:
                raise SessionError(
                    409, "SESSION_ERROR", "the session has no model call: delete it, or make one"
                )
            session.closing = True
            try:
                session.completed = await self._stored(session, outcome)
            finally:
                session.closing = session.completed is not None
        if self.env is not None:
            self.env.close(session)
        return session.completed

    async def _stored(self, session: GatewaySession, outcome: SessionOutcome) -> dict[str, Any]:
        spec, calls = session.spec, session.tree.trained()
        episode = make_trajectory(session, outcome, self._env_id or spec.env_id or ENV_ID)
        trainable = drawn_alike(calls) if outcome.trainable is None else outcome.trainable
        labels = tuple(dict.fromkeys((*spec.labels, *outcome.labels)))
        answer: dict[str, Any] = {
            "session_id": spec.session_id, "episode": None, "group": spec.group, "rollout": spec.rollout,
            "task_id": episode.task_id, "calls": len(calls), "reward": episode.episode_return,
            "won": episode.won, "score": episode.score, "end_reason": episode.end_reason,
            "trainable": trainable, "labels": labels,
        }  # fmt: skip
        if self._pool is not None:
            add = partial(
                self._pool.add, group=spec.group, size=spec.group_size, labels=labels, trainable=trainable
            )
            loop = asyncio.get_running_loop()
            answer["episode"] = await loop.run_in_executor(self._threads["store"], add, episode)
        if self._journal is not None:
            head = next(self._journal.read(spec.session_id))
            self._journal.replace(spec.session_id, [head, {"kind": "completed", "answer": answer}])
        return answer

    def _check_open(self, session: GatewaySession) -> None:
        if session.closing or session.spec.session_id not in self.sessions:
            raise SessionError(
                409, "SESSION_ERROR", f"session {session.spec.session_id} is complete: begin another"
            )
