"""Requests to one endpoint: rate limits, budgets, retry, and errors by the refused part."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from agentgym.endpoint.budget import Spending
from agentgym.endpoint.chat import ChatReply, ChatRequest
from agentgym.endpoint.errors import (
    BudgetSpentError,
    ContentFilteredError,
    ContextOverflowError,
    EndpointError,
    KeyRefusedError,
    UnansweredRequestError,
)
from agentgym.endpoint.faults import BUSY, EndpointRefusal
from agentgym.endpoint.replies import MalformedAnswerError, TokenUsage, usage_of
from agentgym.endpoint.session import EndpointSession
from agentgym.endpoint.spec import EndpointSpec
from agentgym.endpoint.transport import ChatTransport, LostConnectionError, RefusedRequestError
from agentgym.endpoint.wire import BYTES_A_TOKEN, DROPPABLE, answer_limit, body_of, estimated_prompt_tokens
from agentgym.io.optional import load
from agentgym.io.untrusted import printable

Sleep: TypeAlias = Callable[[float], Awaitable[None]]
"""Coroutine function that waits for a number of seconds."""

_WRONG_ADDRESS = frozenset((*range(300, 400), 404, 405, 410))
_NEED = "asking an endpoint"
_LOGGER = logging.getLogger(__name__)  # its warnings are on standard error, unless a program says otherwise


class RetryableError(Exception):
    """A failed attempt that is worth another one."""

    def __init__(self, line: str, pause: float = 0.0, *, slow: bool = False):
        """Keep the reason, and the pause in seconds that the endpoint wants."""
        super().__init__(line)
        self.pause = pause
        self.slow = slow
        """Whether an answer came too slowly to end in time, as the next one would."""


@dataclass(slots=True)
class RequestTiming:
    """Attempts and seconds of a request."""

    attempts: int = 1
    started: float | None = None
    """Time of the first attempt, on the loop's clock; None before it."""

    @property
    def seconds(self) -> float:
        """Seconds since the first attempt; the wait before it is not the endpoint's fault."""
        return 0.0 if self.started is None else asyncio.get_running_loop().time() - self.started

    def send(self) -> None:
        """Note that it is sent now."""
        if self.started is None:
            self.started = asyncio.get_running_loop().time()

    @property
    def retries(self) -> int:
        """Attempts beyond the first."""
        return self.attempts - 1


class ChatSender:
    """Sends requests to one endpoint, on one event loop."""

    def __init__(self, spec: EndpointSpec, transport: Any, sleep: Sleep, left_out: dict[str, str]):
        """Read the key; nothing is sent yet. Parameters that it refuses are added to ``left_out``."""
        self.spec = spec
        self._left_out = left_out
        limiter = load("aiolimiter", "endpoint", _NEED).AsyncLimiter
        self._requests = spec.requests_per_minute and limiter(spec.requests_per_minute, 60)
        self._tokens = spec.tokens_per_minute and limiter(spec.tokens_per_minute, 60)
        self._transport = ChatTransport(spec, transport)
        self._sleep = sleep
        self._slots = asyncio.Semaphore(spec.concurrency)
        self._jitter = random.Random()  # unseeded: pauses affect no result
        self._resume = 0.0
        self._key_refused = ""
        self._has_warned = False

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def send(
        self, request: ChatRequest, session: EndpointSession, timing: RequestTiming, fields: Mapping[str, Any]
    ) -> ChatReply:
        """Return the endpoint's reply, after as many attempts as it takes; it raises as `Endpoint.reply`."""
        while True:
            if self._key_refused:
                raise KeyRefusedError(self._key_refused)
            body = {**body_of(request, self.spec, self._left_out), **fields}
            failed: Exception | None = None
            try:
                async with self._slots:
                    reply = await self._exchange(request, session, timing, body)
            except RefusedRequestError as error:
                refusal = error.refusal
            except LostConnectionError as error:
                failed = RetryableError(str(error), slow=error.slow)
            except MalformedAnswerError as error:
                failed = RetryableError(f"its response is not a chat completion: {error}")
            else:
                if reply.finish_reason == "content_filter":
                    raise ContentFilteredError(f"{self._who(request)} kept its answer back: content_filter")
                return reply
            if failed is None:
                name = refusal.refused([name for name in DROPPABLE if name in body and name not in fields])
                if name is not None and not refusal.overflow:  # the same attempt, without this parameter
                    self._left_out.setdefault(name, refusal.line)
                    continue
                failed = self._failure(request, refusal, fields)
            if not isinstance(failed, RetryableError):
                raise failed
            if timing.attempts >= self.spec.attempts or failed.slow or failed.pause > self.spec.longest_pause:
                break
            session.check_open()
            if not self._has_warned:  # warn once: a final failure is recorded in the episode
                self._has_warned = True
                failure = printable(f"{self.spec.identity} gives no answer ({failed})")
                _LOGGER.warning("%s: it is asked again, up to %d times in all", failure, self.spec.attempts)
            await self._sleep(self._pause(failed, timing.attempts))
            timing.attempts += 1
        line = str(failed)
        if failed.pause > self.spec.longest_pause:
            line += f"; it asks for a pause of {failed.pause:g} s: wait, or raise longest_pause"
        tried = "1 attempt" if timing.attempts == 1 else f"{timing.attempts} attempts"
        raise UnansweredRequestError(f"{self._who(request)} gave no answer in {tried}: {line}")

    async def _exchange(
        self, request: ChatRequest, session: EndpointSession, timing: RequestTiming, body: dict[str, Any]
    ) -> ChatReply:
        """Send a body as soon as limits and budgets allow, and count its cost."""
        estimated, limit = estimated_prompt_tokens(request), answer_limit(request)
        if self._requests:
            await self._requests.acquire()
        if self._tokens:
            await self._tokens.acquire(min(estimated + limit, self._tokens.max_rate))
        pause = self._resume - asyncio.get_running_loop().time()
        if pause > 0:
            await self._sleep(pause)
        most = session.spending(self.spec, TokenUsage(estimated, limit))
        await session.meter.reserve(most)
        spent = Spending()
        try:
            with session.sending():
                timing.send()
                # the endpoint's count is unknown without an answer: take the estimated prompt
                spent = session.spending(self.spec, TokenUsage(estimated))
                reply = await self._transport.post(body)
            guess = TokenUsage(estimated, len(reply.text) // BYTES_A_TOKEN)
            spent = session.spending(self.spec, usage_of(reply) if reply.usage_stated else guess)
            return reply
        except RefusedRequestError:
            spent = Spending(1)
            raise
        finally:
            session.meter.settle(most, spent)

    def _failure(
        self, request: ChatRequest, refusal: EndpointRefusal, fields: Mapping[str, Any]
    ) -> Exception:
        """Return the error that a refusal is."""
        status, who = refusal.status, self._who(request)
        detail = f" ({status}{f': {refusal.line}' if refusal.line else ''})"
        if refusal.overflow:
            return ContextOverflowError(f"{who} has no room for the request{detail}")
        if refusal.filtered:
            return ContentFilteredError(f"{who} refuses the content of the request{detail}")
        if status in (401, 403):
            variable = f"the key in {self.spec.key_env}" if self.spec.key_env else "requests without a key"
            mend = (
                "set it again"
                if self.spec.key_env
                else "name its environment variable with --key-env, or in key_env"
            )
            self._key_refused = f"{self.spec.url} refuses {variable}: {mend}{detail}"
            return KeyRefusedError(self._key_refused)
        if refusal.spent:
            return BudgetSpentError(f"the account at {self.spec.url} has nothing left: fill it up{detail}")
        if status in BUSY:
            if refusal.pause <= self.spec.longest_pause:  # other requests wait, too
                resume = asyncio.get_running_loop().time() + refusal.pause
                self._resume = max(self._resume, resume)
            return RetryableError(f"it is busy{detail}", refusal.pause)
        if fields and status in (400, 404, 422):
            return RefusedRequestError(refusal)
        if status in _WRONG_ADDRESS:
            return EndpointError(
                f"{self.spec.url} has no chat completions of {self.spec.model}: mend url or model{detail}"
            )
        if refusal.refused(["tools"] if request.tools else []):
            return EndpointError(f"{self.spec.identity} takes no tools: ask for answers as text{detail}")
        return UnansweredRequestError(f"{who} refuses the request{detail}")

    def _pause(self, error: RetryableError, attempts: int) -> float:
        """Return the seconds before the next attempt: doubled each time, and by chance, to come apart."""
        spec = self.spec
        if error.pause:
            return error.pause + self._jitter.uniform(0, spec.first_pause)
        doubled: float = spec.first_pause * 2.0 ** min(attempts - 1, 40)
        return min(doubled, spec.longest_pause) * self._jitter.uniform(0.5, 1.0)

    def _who(self, request: ChatRequest) -> str:
        return f"{f'{request.label}: ' if request.label else ''}{self.spec.identity}"
