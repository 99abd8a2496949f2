"""An endpoint in the process: an ASGI application that says what a test wants and counts what it is asked."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx2

from agentgym.endpoint import ChatMessage, ChatRequest, ChatSampling, Endpoint, EndpointSpec
from tests.waiting import wait_until

URL = "http://endpoint.test/v1"


class Said(NamedTuple):
    """An answer of the fake."""

    body: bytes
    status: int = 200
    headers: tuple[tuple[bytes, bytes], ...] = ((b"content-type", b"application/json"),)


def completion(text: str = "hello", finish: str = "stop", **fields: Any) -> Said:
    """Return a chat completion; fields of the message, the choice or the answer go where they belong."""
    message = {"role": "assistant", "content": text}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": finish}
    table: dict[str, Any] = {
        "model": "served",
        "choices": [choice],
        "usage": {"prompt_tokens": 10, "completion_tokens": 3, "total_tokens": 13},
    }
    for name, value in fields.items():
        part = {"tool_calls": message, "reasoning_content": message, "logprobs": choice, "token_ids": choice}
        part.get(name, table)[name] = value
    return Said(json.dumps(table).encode())


def refusal(status: int, message: str = "no", headers: dict[str, str] | None = None, **error: Any) -> Said:
    """Return an error as OpenAI's endpoint says it."""
    more = tuple((name.encode(), value.encode()) for name, value in (headers or {}).items())
    body = json.dumps({"error": {"message": message, **error}}).encode()
    return Said(body, status, ((b"content-type", b"application/json"), *more))


def events(*tables: Any, done: bool = True) -> Said:
    """Return a stream of events."""
    lines = [f"data: {json.dumps(table)}\n\n" for table in tables] + ["data: [DONE]\n\n"] * done
    return Said("".join(lines).encode(), headers=((b"content-type", b"text/event-stream"),))


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return an event of a stream that adds to an answer."""
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


Responder = Callable[[dict[str, Any]], Said]


class FakeEndpoint:
    """Says what it is given, in turn, then what `otherwise` returns for a request's body."""

    def __init__(
        self,
        *said: Said | Exception,
        otherwise: Responder | None = None,
        delay: float = 0.0,
        held: bool | str = False,
    ):
        self.said = list(said)
        self.otherwise = otherwise or (lambda body: completion(f"re: {body['messages'][-1]['content']}"))
        self.delay = delay
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.in_flight = 0
        self.most_in_flight = 0
        self.pauses: list[float] = []
        self.release = threading.Event()
        """Answers wait for it, where they are held; where that is a text, those to requests with it."""
        self.held = "" if held is True else held

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        asked = json.loads(body)
        self.bodies.append(asked)
        text = str(asked["messages"][-1]["content"])
        self.headers.append({name.decode(): value.decode() for name, value in scope["headers"]})
        self.in_flight += 1
        self.most_in_flight = max(self.in_flight, self.most_in_flight)
        try:
            await asyncio.sleep(self.delay)
            while self.held is not False and self.held in text and not self.release.is_set():
                await asyncio.sleep(0.001)
        finally:
            self.in_flight -= 1
        said = self.said.pop(0) if self.said else self.otherwise(asked)
        if isinstance(said, Exception):
            raise said
        await send({"type": "http.response.start", "status": said.status, "headers": list(said.headers)})
        await send({"type": "http.response.body", "body": said.body})

    def wait_for(self, count: int) -> None:
        """Wait until so many requests are in flight."""
        wait_until(lambda: self.in_flight >= count)

    def transport(self) -> Any:
        return httpx2.ASGITransport(app=self)

    async def sleep(self, seconds: float) -> None:
        """Stand for a pause, which is noted and not made."""
        self.pauses.append(seconds)
        await asyncio.sleep(0)

    @contextmanager
    def open(self, **options: Any) -> Iterator[Endpoint]:
        """Open an endpoint that is this one; close it after."""
        spec = EndpointSpec.of({"url": URL, "model": "tiny", **options})
        endpoint = Endpoint(spec, transport=self.transport, sleep=self.sleep)
        try:
            yield endpoint
        finally:
            endpoint.close()


def asking(text: str = "Say hello.", sampling: ChatSampling | None = None, **fields: Any) -> ChatRequest:
    """Return a request of one message."""
    return ChatRequest((ChatMessage("user", text),), sampling or ChatSampling(), **fields)


def reply_text(endpoint: Endpoint, request: ChatRequest | None = None) -> str:
    """Return what an endpoint answers."""
    return endpoint.ask([request or asking()])[0].text
