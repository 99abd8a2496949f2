"""Calls to one endpoint on the event loop: cache lookup, equal requests made once, a ledger row for each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from agentgym.endpoint.cache import refusal_of, reply_of, value_of
from agentgym.endpoint.chat import ChatReply, ChatRequest
from agentgym.endpoint.errors import CacheMissError, EndpointError
from agentgym.endpoint.ledger import LedgerRow
from agentgym.endpoint.replies import TokenUsage, usage_of
from agentgym.endpoint.sending import ChatSender, RequestTiming, Sleep
from agentgym.endpoint.session import EndpointSession
from agentgym.endpoint.spec import EndpointSpec
from agentgym.endpoint.transport import RefusedRequestError
from agentgym.errors import UsageError


@dataclass(eq=False, slots=True)
class _Call:
    """A call that is under way, and who waits for it."""

    session: EndpointSession
    task: asyncio.Task[ChatReply]
    waiting: list[tuple[Future[ChatReply], ChatRequest]] = field(default_factory=list)


class EndpointCaller:
    """Asks one endpoint. All of it happens on one event loop."""

    def __init__(self, spec: EndpointSpec):
        """Begin without a connection.

        Args:
            spec: of the endpoint.
        """
        self.spec = spec
        self.left_out: dict[str, str] = {}
        """Parameters that the endpoint has refused, with what it said."""
        self._sender: ChatSender | None = None
        self._calls: dict[tuple[int, str], _Call] = {}
        self._closed = False

    def connect(self, transport: Callable[[], Any] | None, sleep: Sleep) -> None:
        """Read the key and make what sends requests, once; answers of the cache need neither.

        Args:
            transport: returns what stands for the network (see `ChatTransport`); None for the network.
            sleep: waits between attempts.

        Raises:
            EndpointError: see `ChatTransport`.
            MissingPackageError: the extra ``endpoint`` is not installed.
        """
        if self._sender is None:
            network = None if transport is None else transport()
            self._sender = ChatSender(self.spec, network, sleep, self.left_out)

    def start(
        self, request: ChatRequest, key: str, session: EndpointSession, future: Future[ChatReply]
    ) -> None:
        """Begin a call, or wait for an equal one that is under way.

        Args:
            request: what is asked.
            key: of the request, by `agentgym.endpoint.wire.cache_key`.
            session: that the call belongs to.
            future: is given the reply.
        """
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
            call = _Call(session, loop.create_task(self.ask(request, session, key)))
            self._calls[place] = call
            session.calls.add(call.task)
            call.task.add_done_callback(partial(self._finish, place, call))
        call.waiting.append((future, request))
        future.add_done_callback(partial(_leave_soon, loop, call))

    async def close(self) -> None:
        """Cancel what is under way, and close the connections."""
        self._closed = True
        tasks = [call.task for call in self._calls.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._sender is not None:
            await self._sender.close()

    async def ask(
        self, request: ChatRequest, session: EndpointSession, key: str = "", **fields: Any
    ) -> ChatReply:
        """Return a reply, from the cache or the endpoint; the ledger has a row of it, or of the error.

        Args:
            request: the chat.
            session: that the call belongs to.
            key: under which the cache has it; the empty text to ask in any case.
            fields: of the body, beside those of the request, such as ``n``.

        Raises:
            RequestFailedError: there is none.
            EndpointError: there will be none to any request.
            RefusedRequestError: the endpoint refuses a request with such fields.
        """
        recorded = session.find(key) if key else None
        if recorded is not None:
            reply, day = reply_of(recorded)
            usage = TokenUsage(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
            reply = replace(reply, from_cache=True, cost=session.cost(self.spec, usage, day))
            self.note(session, request, reply)
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
                self.note(session, request, failed, type(error).__name__)
            refused = refusal_of(error) if key else None
            if refused is not None:
                await session.keep(key, refused)
            raise
        cost = session.cost(self.spec, usage_of(reply))
        reply = replace(reply, seconds=timing.seconds, retries=timing.retries, cost=cost)
        if key:
            await session.keep(key, value_of(reply, _now()[:10]))
        self.note(session, request, reply)
        return reply

    def note(self, session: EndpointSession, request: ChatRequest, reply: ChatReply, error: str = "") -> None:
        """Write a row of the session's ledger.

        Args:
            session: that the call belongs to.
            request: what was asked.
            reply: what came of it.
            error: name of the error that the call ended in.
        """
        session.note(
            lambda: LedgerRow(
                when=_now(),
                label=request.label,
                url=self.spec.url,
                model=self.spec.model,
                prompt_id=request.prompt_id,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                cached_tokens=reply.cached_tokens,
                reasoning_tokens=reply.reasoning_tokens,
                seconds=reply.seconds,
                retries=reply.retries,
                cost=reply.cost,
                from_cache=reply.from_cache,
                finish_reason=reply.finish_reason,
                error=error,
                left_out=tuple(self.left_out),
            )
        )

    def _finish(self, place: tuple[int, str], call: _Call, task: asyncio.Task[ChatReply]) -> None:
        """Tell all who wait for a call how it ended."""
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
                if paid:  # by whoever asked first
                    self.note(call.session, request, reply)
            except UsageError as failed:  # the disk is full; nobody waits forever
                future.set_exception(failed)
            else:
                future.set_result(reply)
            paid = True


def _leave_soon(loop: asyncio.AbstractEventLoop, call: _Call, future: Future[ChatReply]) -> None:
    """Tell the loop that a future was cancelled, whichever thread did it."""
    if future.cancelled() and not call.task.done():
        loop.call_soon_threadsafe(_leave, call, future)


def _leave(call: _Call, future: Future[ChatReply]) -> None:
    """Let a cancelled future go; a call that nobody waits for any more is cancelled."""
    left = [each for each in call.waiting if each[0] is not future]
    if len(left) < len(call.waiting):
        call.waiting = left
        future.set_running_or_notify_cancel()
        if not left:
            call.task.cancel()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
