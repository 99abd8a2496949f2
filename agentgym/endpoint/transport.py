"""One exchange with an endpoint, by the openai SDK: a body is sent, an answer is read strictly.

The SDK makes the requests, the connections and the headers. Its typed methods are passed by: they take
longer for a request than all else here, and read answers without looking.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from typing import Any, Literal

from agentgym.core.hashing import canonical_json
from agentgym.endpoint.chat import ChatReply, ChatToolCall
from agentgym.endpoint.errors import EndpointError
from agentgym.endpoint.faults import EndpointRefusal, one_line, read_refusal
from agentgym.endpoint.redaction import MIN_KEY_LENGTH, KeyRedactor
from agentgym.endpoint.replies import MalformedAnswerError, read_answer_body
from agentgym.endpoint.spec import EndpointSpec
from agentgym.endpoint.streams import read_stream
from agentgym.io.optional import load

MAX_ANSWER_SIZE = 32 << 20
"""Largest size of an answer, in bytes."""

_PATH = "/chat/completions"
_CONNECT_SECONDS = 30.0
_MAX_NAME_LENGTH = 200
_LOGGERS = ("httpcore", "httpx", "openai")
_STAGE: ContextVar[Literal["", "asked", "answered"]] = ContextVar("stage of an exchange", default="")

SHARD_CONNECTIONS = 16
"""Most connections of one client of the SDK."""


class LostConnectionError(Exception):
    """No answer came, or not all of it; the message says why, on one line."""

    def __init__(self, line: str, *, slow: bool = False):
        """Keep why; ``slow`` where the answer began, and time was up before it ended."""
        super().__init__(line)
        self.slow = slow


class RefusedRequestError(Exception):
    """The endpoint answered with a status that is no success."""

    def __init__(self, refusal: EndpointRefusal):
        """Store the refusal."""
        super().__init__(refusal.line)
        self.refusal = refusal


_TRUST = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Environment variables that name additional certificates."""


@cache
def _trust(http: Any, *_: str | None) -> Any:
    """Return the certificates that are trusted: reading them takes tens of milliseconds."""
    return http.create_ssl_context()


class ChatTransport:
    """The connections to one endpoint. Used by one event loop."""

    def __init__(self, spec: EndpointSpec, transport: Any = None):
        """Read the key; nothing is sent yet. ``transport``, an asynchronous one of the SDK, replaces it."""
        self._openai = load("openai", "endpoint", "asking an endpoint")
        self._key = _read_key(spec)
        self._redact = KeyRedactor(self._key)
        self._spec = spec
        self._transport = transport
        # httpx or its successor, whichever the installed SDK is built on
        base = self._openai.DefaultAsyncHttpxClient.__mro__[1]
        self._http = import_module(base.__module__.partition(".")[0])
        self._trust = _trust(self._http, *map(os.environ.get, _TRUST)) if transport is None else True
        self._options = {} if self._key else {"headers": {"Authorization": self._openai.Omit()}}
        self._shards: list[_ClientShard] = []

    async def post(self, body: Mapping[str, Any]) -> ChatReply:
        """Send a body and read the answer."""
        lost, slow = "", False
        _STAGE.set("asked")  # set in this call's task alone
        shard = (
            next((shard for shard in self._shards if shard.busy < SHARD_CONNECTIONS), None)
            or self._new_shard()
        )
        shard.busy += 1
        try:
            async with asyncio.timeout(self._spec.timeout):
                response = await shard.client.post(
                    _PATH,
                    cast_to=self._http.Response,
                    body=body,
                    options=self._options,
                    stream=True,
                    stream_cls=self._openai.AsyncStream,
                )
                try:
                    return await self._read(response)
                finally:
                    await response.aclose()
        except (TimeoutError, self._openai.APITimeoutError, self._http.TimeoutException):
            lost, slow = f"no whole answer within {self._spec.timeout:g} s", _STAGE.get() == "answered"
        except self._openai.APIStatusError as error:
            response = error.response
            headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
            refusal = read_refusal(error.status_code, response.content, headers, time.time(), self._redact)
        except self._openai.APIConnectionError as error:
            lost = self._reason(error.__cause__ or error)
        except (self._http.HTTPError, self._http.StreamError) as error:
            lost = self._reason(error)
        finally:
            shard.busy -= 1
        # raised outside the handlers: the SDK's errors hold the request, and with it the key
        if lost:
            raise LostConnectionError(lost + ", though it began" * slow, slow=slow)
        raise RefusedRequestError(refusal)

    async def close(self) -> None:
        """Close the connections."""
        for shard in self._shards:
            await shard.client.close()

    def _new_shard(self) -> _ClientShard:
        client = self._openai.DefaultAsyncHttpxClient(
            transport=self._transport,
            verify=self._trust,
            timeout=self._http.Timeout(self._spec.timeout, connect=min(self._spec.timeout, _CONNECT_SECONDS)),
            limits=self._http.Limits(
                max_connections=SHARD_CONNECTIONS, max_keepalive_connections=SHARD_CONNECTIONS
            ),
            follow_redirects=False,  # requests go to the named address and nowhere else
            event_hooks={"response": [_limiter(self._http)]},
        )
        absent = self._openai.Omit()
        sdk = self._openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._spec.url,
            max_retries=0,
            timeout=client.timeout,
            http_client=client,
            # the environment's variables for the SDK are for OpenAI's own endpoint
            default_headers={
                "OpenAI-Organization": absent,
                "OpenAI-Project": absent,
                "Accept-Encoding": "identity",
            },
        )
        _silence_libraries()
        self._shards.append(_ClientShard(sdk))
        return self._shards[-1]

    async def _read(self, response: Any) -> ChatReply:
        try:
            if "text/event-stream" in response.headers.get("content-type", ""):
                return self._redacted(await read_stream(response.aiter_bytes()))
            return self._redacted(read_answer_body(await response.aread()))
        except MalformedAnswerError as error:
            line = self._redact(str(error))
        raise MalformedAnswerError(line)

    def _redacted(self, answer: ChatReply) -> ChatReply:
        """Return an answer without the key; only then may a text of it be cut."""
        redact, size = self._redact, self._redact.of_answers
        return replace(
            answer,
            text=redact(answer.text, size),
            reasoning=redact(answer.reasoning, size),
            tool_calls=tuple(
                ChatToolCall(*(redact(text, size) for text in (call.id, call.name, call.arguments)))
                for call in answer.tool_calls
            ),
            finish_reason=redact(answer.finish_reason),
            served_model=redact(answer.served_model)[:_MAX_NAME_LENGTH],
            fingerprint=redact(answer.fingerprint)[:_MAX_NAME_LENGTH],
        )

    def _reason(self, error: BaseException) -> str:
        text = self._redact(str(error))
        return one_line(f"{type(error).__name__}: {text}" if text else type(error).__name__)


@dataclass(slots=True)
class _ClientShard:
    """A client of the SDK with a few connections of its own.

    For each request its pool looks at each of its connections, which for a thousand would take longer than
    all else.
    """

    client: Any
    busy: int = 0


def _silence_libraries() -> None:
    """Silence the libraries' logs of these requests, since they repeat a server's headers unchanged."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if name.startswith(_LOGGERS) and isinstance(logger, logging.Logger):
            logger.addFilter(_is_elsewhere)  # once


def _is_elsewhere(record: logging.LogRecord) -> bool:
    return not _STAGE.get()


def _read_key(spec: EndpointSpec) -> str:
    """Return the key of an endpoint; the empty text where it takes none."""
    if not spec.key_env:
        return ""
    key = os.environ.get(spec.key_env, "").strip()
    if not key:
        raise EndpointError(
            f"the key of {spec.url} is not there: set the environment variable {spec.key_env}, or "
            "name none (--key-env, or key_env of the endpoint)"
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise EndpointError(f"the environment variable {spec.key_env} holds what no key is: set it again")
    if len(key) >= MIN_KEY_LENGTH and key in canonical_json(spec.to_json()):
        raise EndpointError(
            f"the key in {spec.key_env} stands in the endpoint's url, model or extra: take it out"
        )
    return key


def _limiter(http: Any) -> Callable[[Any], Any]:
    """Return a hook that ends answers of more than `MAX_ANSWER_SIZE` bytes, and packed ones."""

    class LimitedStream(http.AsyncByteStream):  # type: ignore[misc]  # of the library that the SDK uses
        def __init__(self, stream: Any):
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            size = 0
            async for piece in self._stream:
                size += len(piece)
                if size > MAX_ANSWER_SIZE:
                    raise http.ReadError(f"an answer of more than {MAX_ANSWER_SIZE:,} bytes")
                yield piece

        async def aclose(self) -> None:
            await self._stream.aclose()

    async def limit(response: Any) -> None:
        _STAGE.set("answered")
        if response.headers.get("content-encoding", "identity") != "identity":
            raise http.DecodingError("a packed answer, which was not asked for", request=response.request)
        response.stream = LimitedStream(response.stream)

    return limit
