"""Endpoints: open one by its spec, submit requests, and receive futures of the replies.

A call goes from the thread that submits it to the event loop. There the cache is looked up, equal requests
are made once, and each call has its row of the ledger; `agentgym.endpoint.sending` sends what is left.

Example:
    An endpoint is asked by many threads alike, and each request has its own future::

        spec = EndpointSpec("http://127.0.0.1:8000/v1", "tiny")
        with EndpointSession(cache=Path("answers.sqlite"), mode="write"):
            endpoint = open_endpoint(spec)
            future = endpoint.submit(ChatRequest((ChatMessage("user", "Say hello."),)))
            print(future.result().text)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from agentgym.core.hashing import canonical_json
from agentgym.endpoint.cache import refusal_of, reply_of, value_of
from agentgym.endpoint.chat import ChatReply, ChatRequest
from agentgym.endpoint.errors import CacheMissError, EndpointError
from agentgym.endpoint.ledger import LedgerRow, now
from agentgym.endpoint.loop import BackgroundLoop, LoopUser, join_loop, leave_loop, loop_of_process
from agentgym.endpoint.probe import EndpointProbe, probe_endpoint
from agentgym.endpoint.replies import TokenUsage, usage_of
from agentgym.endpoint.sending import ChatSender, RequestTiming, Sleep
from agentgym.endpoint.session import NO_SESSION, EndpointSession, current_session
from agentgym.endpoint.spec import EndpointSpec
from agentgym.endpoint.transport import RefusedRequestError
from agentgym.endpoint.wire import cache_key
from agentgym.errors import UsageError


@dataclass(eq=False, slots=True)
class _Call:
    """A call under way, with the futures that wait for it."""

    session: EndpointSession
    task: asyncio.Task[ChatReply]
    waiting: list[tuple[Future[ChatReply], ChatRequest]] = field(default_factory=list)


class Endpoint:
    """A model behind an endpoint. Safe to ask from any thread; a forked child has connections of its own."""

    def __init__(
        self, spec: EndpointSpec, *, transport: Callable[[], Any] | None = None, sleep: Sleep = asyncio.sleep
    ):
        """Name the endpoint; nothing is opened yet. Tests replace ``transport`` and ``sleep``."""
        self.spec = spec
        self._transport = transport
        self._sleep = sleep
        self.left_out: dict[str, str] = {}
        """Parameters that the endpoint has refused so far, with what it said. They are never sent again."""
        self._closed = False
        self._loop: BackgroundLoop | None = None
        self._sender: ChatSender | None = None
        self._calls: dict[tuple[int, str], _Call] = {}
        self._inherited: list[object] = []
        """Clients of a parent process; held so that no garbage collection closes its connections."""

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def submit(self, request: ChatRequest) -> Future[ChatReply]:
        """Send a request, and return the reply's future at once; cancelling all futures of a call cancels it.

        The future raises what `agentgym.endpoint.errors` lists. Its callbacks run on the event loop's thread:
        they may submit further requests, and must not wait for any.

        Args:
            request: the chat to send.

        Raises:
            EndpointError: the endpoint is closed, or its key is missing.
            MissingPackageError: the extra ``endpoint`` is not installed.
        """
        session = current_session() or NO_SESSION
        loop = self._open(session)
        key = cache_key(request, self.spec)
        future: Future[ChatReply] = Future()
        loop.loop.call_soon_threadsafe(self._start, request, key, session, future)
        return future

    def ask(self, requests: Sequence[ChatRequest]) -> list[ChatReply]:
        """Return the replies to requests, in order, all submitted at once.

        Raises:
            UsageError: a request failed; the others are cancelled.
        """
        _may_wait()
        futures = [self.submit(request) for request in requests]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def probe(self) -> EndpointProbe:
        """Probe which parameters the endpoint supports, by about a dozen short requests.

        Raises:
            UsageError: it does not answer, or the session only replays and its cache has no probe.
        """
        _may_wait()
        session = current_session() or NO_SESSION
        return self._open(session).submit(probe_endpoint(self, session)).result()

    def close(self) -> None:
        """Cancel calls under way, and close the connections. No request can follow."""
        _may_wait()
        self._closed = True
        loop = loop_of_process()
        if loop is not None and loop is self._loop:
            loop.submit(self._disconnect()).result()
        leave_loop(self)

    def _open(self, session: EndpointSession) -> BackgroundLoop:
        """Return the loop of the process, with the key read; answers of the cache need no key."""
        if self._closed:
            raise EndpointError(f"the endpoint {self.spec.identity} is closed: open it again")
        loop = join_loop(self)
        with loop.lock:
            if loop is not self._loop:
                self._inherited.append((self._sender, self._calls))
                self._loop, self._sender, self._calls = loop, None, {}
            if self._sender is None and session.mode != "replay-only":
                make = self._transport or _Network.stand_in
                network = None if make is None else make()
                self._sender = ChatSender(self.spec, network, self._sleep, self.left_out)
        return loop

    # --- on the event loop ------------------------------------------------------------------------------

    def _start(
        self, request: ChatRequest, key: str, session: EndpointSession, future: Future[ChatReply]
    ) -> None:
        """Begin a call, or wait for an equal one that is under way; the future is given the reply."""
        if session.ending or self._closed:
            what = (
                "endpoint session has ended: ask within it"
                if session.ending
                else "endpoint is closed: open it"
            )
            if future.set_running_or_notify_cancel():
                future.set_exception(EndpointError(f"the {what}"))
            return
        loop = asyncio.get_running_loop()
        place = (id(session), key)
        call = self._calls.get(place)
        if call is None:
            call = _Call(session, loop.create_task(self.reply(request, session, key)))
            self._calls[place] = call
            session.calls.add(call.task)
            call.task.add_done_callback(partial(self._finish, place, call))
        call.waiting.append((future, request))
        future.add_done_callback(partial(_leave_soon, loop, call))

    async def reply(
        self, request: ChatRequest, session: EndpointSession, key: str = "", **fields: Any
    ) -> ChatReply:
        """Return a reply, from the cache or the endpoint; the ledger has a row of it, or of the error.

        Without ``key`` the cache is not asked; ``fields`` are further fields of the body, such as ``n``.
        """
        recorded = session.find(key) if key else None
        if recorded is not None:
            reply, day = reply_of(recorded)
            usage = TokenUsage(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
            reply = replace(reply, from_cache=True, cost=session.cost(self.spec, usage, day))
            self._note(session, request, reply)
            return reply
        if self._sender is None or session.mode == "replay-only":
            name = f"of {request.label}" if request.label else f"with the key {key[:12]}"
            raise CacheMissError(
                f"the cache has no answer to a request {name} to {self.spec.identity}: "
                "record it with the cache mode 'write' first"
            )
        timing = RequestTiming()
        try:
            reply = await self._sender.send(request, session, timing, fields)
        except (UsageError, RefusedRequestError, asyncio.CancelledError) as error:
            if timing.started is not None:
                failed = ChatReply("", finish_reason="", seconds=timing.seconds, retries=timing.retries)
                self._note(session, request, failed, type(error).__name__)
            refused = refusal_of(error) if key else None
            if refused is not None:
                await session.keep(key, refused)
            raise
        cost = session.cost(self.spec, usage_of(reply))
        reply = replace(reply, seconds=timing.seconds, retries=timing.retries, cost=cost)
        if key:
            await session.keep(key, value_of(reply, now()[:10]))
        self._note(session, request, reply)
        return reply

    def _finish(self, place: tuple[int, str], call: _Call, task: asyncio.Task[ChatReply]) -> None:
        """Set the result or the error of a call in all its futures."""
        del self._calls[place]
        call.session.calls.discard(task)
        error = None if task.cancelled() else task.exception()
        paid = False
        for future, request in call.waiting:
            if task.cancelled():
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            if error is not None:
                future.set_exception(error)
                continue
            reply = replace(task.result(), from_cache=paid or task.result().from_cache)
            try:
                if paid:  # a shared answer has a row without cost
                    self._note(call.session, request, reply)
            except UsageError as failed:  # the disk is full: no caller waits forever
                future.set_exception(failed)
            else:
                future.set_result(reply)
            paid = True

    def _note(
        self, session: EndpointSession, request: ChatRequest, reply: ChatReply, error: str = ""
    ) -> None:
        """Write a row of the session's ledger; ``error``: name of the one that the call ended in."""
        session.note(lambda: LedgerRow.of(self.spec, request, reply, error, tuple(self.left_out)))

    async def _disconnect(self) -> None:
        """Cancel calls under way, and close the connections."""
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        sender, self._sender = self._sender, None
        if sender is not None:
            await sender.close()


def _leave_soon(loop: asyncio.AbstractEventLoop, call: _Call, future: Future[ChatReply]) -> None:
    """Tell the loop that a future was cancelled, whichever thread did it."""
    if future.cancelled() and not call.task.done():
        loop.call_soon_threadsafe(_leave, call, future)


def _leave(call: _Call, future: Future[ChatReply]) -> None:
    """Remove a cancelled future; a call without any other future is cancelled."""
    left = [each for each in call.waiting if each[0] is not future]
    if len(left) < len(call.waiting):
        call.waiting = left
        future.set_running_or_notify_cancel()
        if not left:
            call.task.cancel()


def _may_wait() -> None:
    """Refuse to wait where that would take forever."""
    loop = loop_of_process()
    if loop is not None and loop.inside():
        raise EndpointError("a callback of a reply runs on the event loop and cannot wait: use submit")


_OPEN: dict[str, LoopUser] = {}


class _Network:
    """Replacement for the network, in tests."""

    stand_in: Callable[[], Any] | None = None


@contextmanager
def without_network(transport: Callable[[], Any]) -> Iterator[None]:
    """Let all endpoints that are first asked within the block use something else than the network, for tests.

    Args:
        transport: returns it (see `agentgym.endpoint.transport.ChatTransport`), for each endpoint.
    """
    before = _Network.stand_in
    _Network.stand_in = transport
    try:
        yield
    finally:
        _Network.stand_in = before


def network_is_replaced() -> bool:
    """Return whether `without_network` holds."""
    return _Network.stand_in is not None


def open_endpoint(spec: EndpointSpec) -> Endpoint:
    """Return the endpoint of a spec: the same one as long as the session lasts, which closes it.

    Outside of a session it stays open until it is closed, or the process ends.

    Args:
        spec: of the endpoint.
    """
    session = current_session()
    registry = _OPEN if session is None else session.endpoints
    place = canonical_json(spec.to_json())
    endpoint = registry.get(place)
    if not isinstance(endpoint, Endpoint) or endpoint.closed:
        endpoint = registry[place] = Endpoint(spec)
    return endpoint
