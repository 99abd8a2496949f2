"""Calls to one endpoint on the event loop: limits, further attempts, the cache, and equal calls made once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from functools import partial
from typing import Any, NamedTuple

from agentgym.endpoint.budget import Spending
from agentgym.endpoint.cache import reply_of, value_of
from agentgym.endpoint.chat import ChatReply, ChatRequest
from agentgym.endpoint.errors import (
    BudgetSpentError,
    CacheMissError,
    ContentFilteredError,
    ContextOverflowError,
    EndpointError,
    KeyRefusedError,
    UnansweredRequestError,
)
from agentgym.endpoint.faults import BUSY, Refusal
from agentgym.endpoint.ledger import LedgerRow
from agentgym.endpoint.replies import Answer, MalformedAnswerError, TokenUsage
from agentgym.endpoint.session import EndpointSession
from agentgym.endpoint.spec import EndpointSpec
from agentgym.endpoint.transport import ChatTransport, LostConnectionError, RefusedRequestError
from agentgym.endpoint.wire import DROPPABLE, answer_limit, body_of, cache_key, estimated_prompt_tokens
from agentgym.extras import load

Sleep = Callable[[float], Awaitable[None]]

_WRONG_ADDRESS = frozenset((*range(300, 400), 404, 405, 410))


class _AgainError(Exception):
    """An attempt that another one may mend."""

    def __init__(self, line: str, pause: float = 0.0):
        super().__init__(line)
        self.pause = pause


class Exchange(NamedTuple):
    """An answer, and what it took."""

    answer: Answer
    seconds: float
    retries: int


@dataclass(eq=False, slots=True)
class _Call:
    """A call that is under way, and who waits for it."""

    session: EndpointSession
    task: asyncio.Task[ChatReply] | None = None
    waiting: list[tuple[Future[ChatReply], ChatRequest]] = field(default_factory=list)


@dataclass(slots=True)
class _Effort:
    """What a request took so far."""

    attempts: int = 0
    started: float = 0.0
    ended: float = 0.0


class EndpointCaller:
    """Asks one endpoint. All of it happens on one event loop."""

    def __init__(self, spec: EndpointSpec, transport: Any = None, sleep: Sleep = asyncio.sleep):
        """Read the key; nothing is sent yet.

        Args:
            spec: of the endpoint.
            transport: see `ChatTransport`.
            sleep: waits between attempts.

        Raises:
            EndpointError: see `ChatTransport`.
            MissingPackageError: the extra ``endpoint`` is not installed.
        """
        self.spec = spec
        self.left_out: dict[str, str] = {}
        """Parameters that the endpoint has refused, with what it said."""
        self._tenacity = load("tenacity", "endpoint", "asking an endpoint")
        self._transport = ChatTransport(spec, transport)
        self._sleep = sleep
        self._slots = asyncio.Semaphore(spec.concurrency)
        limiter = load("aiolimiter", "endpoint", "asking an endpoint").AsyncLimiter
        self._requests = spec.requests_per_minute and limiter(spec.requests_per_minute, 60)
        self._tokens = spec.tokens_per_minute and limiter(spec.tokens_per_minute, 60)
        self._jitter = random.Random()  # of its own: pauses decide nothing that is kept
        self._resume = 0.0
        self._refused: EndpointError | None = None
        self._calls: dict[tuple[int, str], _Call] = {}

    def start(
        self, request: ChatRequest, key: str, session: EndpointSession, future: Future[ChatReply]
    ) -> None:
        """Begin a call, or wait for an equal one that is under way.

        Args:
            request: what is asked.
            key: of the request, by `cache_key`.
            session: that the call belongs to.
            future: is given the reply.
        """
        if session.ending:
            if future.set_running_or_notify_cancel():
                future.set_exception(EndpointError("the endpoint session has ended: ask within it"))
            return
        place = (id(session), key)
        call = self._calls.get(place)
        if call is None:
            call = self._calls[place] = _Call(session)
            call.task = asyncio.get_running_loop().create_task(self._reply(request, key, session))
            session.calls.add(call.task)
            call.task.add_done_callback(partial(self._finish, place, call))
        call.waiting.append((future, request))
        loop = asyncio.get_running_loop()
        future.add_done_callback(
            lambda done: loop.call_soon_threadsafe(_leave, call, done) if done.cancelled() else None
        )

    async def close(self) -> None:
        """Cancel what is under way, and close the connections."""
        tasks = [call.task for call in self._calls.values() if call.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._transport.close()

    async def exchange(self, request: ChatRequest, session: EndpointSession, **fields: Any) -> Exchange:
        """Return the endpoint's answer, after as many attempts as it takes.

        Args:
            request: what is asked.
            session: whose budgets count.
            fields: of the body, beside those of the request, such as ``n``.

        Raises:
            RequestFailedError: there is none.
            EndpointError: there will be none to any request.
            RefusedRequestError: the endpoint refuses one of the further fields.
        """
        effort = _Effort(started=asyncio.get_running_loop().time())
        try:
            answer = await self._attempts(request, session, effort, fields)
        except (EndpointError, UnansweredRequestError, ContextOverflowError, ContentFilteredError) as error:
            self._note(session, request, effort, None, error)
            raise
        if answer.finish_reason == "content_filter":
            filtered = ContentFilteredError(f"{self._who(request)} kept its answer back: content_filter")
            self._note(session, request, effort, None, filtered)
            raise filtered
        return Exchange(answer, effort.ended - effort.started, effort.attempts - 1)

    async def _reply(self, request: ChatRequest, key: str, session: EndpointSession) -> ChatReply:
        """Return a reply, from the cache or the endpoint."""
        kept = session.find(key)
        if kept is not None:
            reply = replace(reply_of(kept["reply"], "the cache"), from_cache=True)
            reply = replace(reply, cost=self._cost(session, reply, kept["when"]))
            self._note_reply(session, request, reply)
            return reply
        if session.mode == "replay-only":
            name = f"of {request.label}" if request.label else f"with the key {key[:12]}"
            raise CacheMissError(
                f"the cache has no answer to a request {name} to {self.spec.identity}: "
                "record it with the cache mode 'write' first"
            )
        answer, seconds, retries = await self.exchange(request, session)
        usage = answer.usage or TokenUsage()
        reply = ChatReply(
            text=answer.text,
            tool_calls=answer.tool_calls,
            finish_reason=answer.finish_reason,
            prompt_tokens=usage.prompt,
            completion_tokens=usage.completion,
            cached_tokens=usage.cached,
            reasoning_tokens=usage.reasoning,
            seconds=seconds,
            retries=retries,
            token_ids=answer.token_ids,
            logprobs=answer.logprobs,
            reasoning=answer.reasoning,
        )
        today = _now()[:10]
        await session.keep(key, {"reply": value_of(reply), "when": today})
        reply = replace(reply, cost=self._cost(session, reply, today))
        self._note_reply(session, request, reply)
        return reply

    async def _attempts(
        self, request: ChatRequest, session: EndpointSession, effort: _Effort, fields: dict[str, Any]
    ) -> Answer:
        retrying = self._tenacity.AsyncRetrying(
            stop=self._tenacity.stop_after_attempt(self.spec.attempts),
            retry=self._tenacity.retry_if_exception(self._worth_another),
            wait=self._pause,
            sleep=self._sleep,
            reraise=True,
        )
        try:
            answer: Answer = await retrying(self._attempt, request, session, effort, fields)
            return answer
        except _AgainError as error:
            line, pause = str(error), error.pause
        finally:
            effort.ended = asyncio.get_running_loop().time()
        asked = (
            f"; it asks for a pause of {pause:g} s: raise longest_pause"
            if pause > self.spec.longest_pause
            else ""
        )
        tried = "1 attempt" if effort.attempts == 1 else f"{effort.attempts} attempts"
        raise UnansweredRequestError(f"{self._who(request)} gave no answer in {tried}: {line}{asked}")

    async def _attempt(
        self, request: ChatRequest, session: EndpointSession, effort: _Effort, fields: dict[str, Any]
    ) -> Answer:
        """Send a request once, and once more for each parameter that the endpoint refuses."""
        effort.attempts += 1
        while True:
            if self._refused is not None:
                raise self._refused
            body = {**body_of(request, self.spec, self.left_out), **fields}
            fault = ""
            try:
                async with self._slots:
                    return await self._send(request, session, body)
            except RefusedRequestError as error:
                refusal = error.refusal
            except (LostConnectionError, MalformedAnswerError) as error:
                fault = str(error)
                if isinstance(error, MalformedAnswerError):
                    fault = f"what it says is no answer: {fault}"
            if fault:
                raise _AgainError(fault)
            name = refusal.refused([name for name in DROPPABLE if name in body])
            if refusal.overflow or name is None:
                raise self._failure(request, refusal, fields)
            self.left_out.setdefault(name, refusal.line)

    async def _send(self, request: ChatRequest, session: EndpointSession, body: dict[str, Any]) -> Answer:
        estimated, limit = estimated_prompt_tokens(request), answer_limit(request)
        if self._requests:
            await self._requests.acquire()
        if self._tokens:
            await self._tokens.acquire(min(estimated + limit, self._tokens.max_rate))
        pause = self._resume - asyncio.get_running_loop().time()
        if pause > 0:
            await self._sleep(pause)
        most = self._spending(session, TokenUsage(estimated, limit))
        await session.meter.reserve(most)
        # without an answer nobody knows what the endpoint counts: the prompt, as estimated
        spent = self._spending(session, TokenUsage(estimated))
        task = asyncio.current_task()
        assert task is not None
        try:
            if session.ending:
                raise asyncio.CancelledError
            session.sending.add(task)
            answer = await self._transport.post(body)
            spent = self._spending(session, answer.usage or TokenUsage(estimated, len(answer.text) // 4))
            return answer
        except RefusedRequestError:
            spent = Spending(1)
            raise
        finally:
            session.sending.discard(task)
            session.meter.settle(most, spent)

    def _failure(self, request: ChatRequest, refusal: Refusal, fields: dict[str, Any]) -> Exception:
        """Return the error that a refusal is."""
        status, who = refusal.status, self._who(request)
        said = f" ({status}{f': {refusal.line}' if refusal.line else ''})"
        if refusal.overflow:
            return ContextOverflowError(f"{who} has no room for the request{said}")
        if refusal.filtered:
            return ContentFilteredError(f"{who} refuses the content of the request{said}")
        if status in (401, 403):
            variable = f"the key in {self.spec.key_env}" if self.spec.key_env else "requests without a key"
            mend = "set it again" if self.spec.key_env else "name the key's environment variable in key_env"
            self._refused = KeyRefusedError(f"{self.spec.url} refuses {variable}: {mend}{said}")
            return self._refused
        if refusal.spent:
            return BudgetSpentError(f"the account at {self.spec.url} has nothing left: fill it up{said}")
        if status in BUSY:
            if refusal.pause:
                self._resume = max(self._resume, asyncio.get_running_loop().time() + refusal.pause)
            return _AgainError(f"it is busy{said}", refusal.pause)
        if fields and status in (400, 404, 422):
            return RefusedRequestError(refusal)
        if status in _WRONG_ADDRESS:
            return EndpointError(
                f"{self.spec.url} has no chat completions of {self.spec.model}: mend url or model{said}"
            )
        if refusal.refused(["tools"] if request.tools else []):
            return EndpointError(f"{self.spec.identity} takes no tools: ask for answers as text{said}")
        return UnansweredRequestError(f"{who} refuses the request{said}")

    def _worth_another(self, error: BaseException) -> bool:
        return isinstance(error, _AgainError) and error.pause <= self.spec.longest_pause

    def _pause(self, state: Any) -> float:
        """Return the seconds before the next attempt: doubled each time, and by chance, so that not all come at once."""
        doubled = self.spec.first_pause * 2 ** min(state.attempt_number - 1, 40)
        pause = min(doubled, self.spec.longest_pause) * self._jitter.uniform(0.5, 1.0)
        error = state.outcome.exception()
        asked = error.pause if isinstance(error, _AgainError) else 0.0
        return max(pause, asked + self._jitter.uniform(0, self.spec.first_pause)) if asked else pause

    def _finish(self, place: tuple[int, str], call: _Call, task: asyncio.Task[ChatReply]) -> None:
        """Tell all who wait for a call how it ended."""
        del self._calls[place]
        call.session.calls.discard(task)
        error = None if task.cancelled() else task.exception()
        first = True
        for future, request in call.waiting:
            if task.cancelled():
                future.cancel()
            if not future.set_running_or_notify_cancel():
                continue
            if error is not None:
                future.set_exception(error)
                continue
            reply = task.result()
            if not first:  # paid for by the first
                reply = replace(reply, from_cache=True)
                self._note_reply(call.session, request, reply)
            first = False
            future.set_result(reply)

    def _who(self, request: ChatRequest) -> str:
        return f"{f'{request.label}: ' if request.label else ''}{self.spec.identity}"

    def _spending(self, session: EndpointSession, usage: TokenUsage) -> Spending:
        price = session.prices.of(self.spec.url, self.spec.model, _now()[:10])
        if price is None and session.budget.dollars is not None:
            raise EndpointError(
                f"a budget in dollars needs a price for {self.spec.model} at {self.spec.url}: add it to the prices"
            )
        return Spending(1, usage.prompt + usage.completion, price.cost(usage) if price else 0.0)

    def _cost(self, session: EndpointSession, reply: ChatReply, day: str) -> float | None:
        price = session.prices.of(self.spec.url, self.spec.model, day)
        usage = TokenUsage(reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens)
        return price.cost(usage) if price is not None else None

    def _note_reply(self, session: EndpointSession, request: ChatRequest, reply: ChatReply) -> None:
        session.note(lambda: self._row(request, reply, ""))

    def _note(
        self, session: EndpointSession, request: ChatRequest, effort: _Effort, reply: None, error: Exception
    ) -> None:
        failed = ChatReply(
            "",
            finish_reason="",
            seconds=effort.ended - effort.started,
            retries=max(0, effort.attempts - 1),
        )
        session.note(lambda: self._row(request, failed, type(error).__name__))

    def _row(self, request: ChatRequest, reply: ChatReply, error: str) -> LedgerRow:
        return LedgerRow(
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


def _leave(call: _Call, future: Future[ChatReply]) -> None:
    """Let a cancelled future go; a call that nobody waits for any more is cancelled."""
    future.set_running_or_notify_cancel()
    call.waiting = [each for each in call.waiting if each[0] is not future]
    if not call.waiting and call.task is not None:
        call.task.cancel()


def _now() -> str:
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
