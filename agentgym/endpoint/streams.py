"""Streamed replies: server-sent events, put together to what would have come whole."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from agentgym.endpoint.chat import ChatReply
from agentgym.endpoint.replies import (
    MAX_CHOICES,
    MalformedAnswerError,
    optional_text,
    part,
    read_choice,
    read_object,
    reasoning_of,
    table_of,
)
from agentgym.reading import StreamedCalls, UnreadableError

MAX_LINE_LENGTH = 4 << 20
"""Largest size of an event, in bytes."""

_DONE = b"[DONE]"


async def read_stream(pieces: AsyncIterator[bytes]) -> ChatReply:
    """Read a stream to its end."""
    gathered = _Gathered()
    async for data in _events(pieces):
        if data == _DONE:
            gathered.done = True
            break
        gathered.add(read_object(data))
    return gathered.answer()


async def _events(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the data of each event. Lines end in LF or CR LF; an event ends with an empty line."""
    rest = b""
    data: list[bytes] = []
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        if len(rest) > MAX_LINE_LENGTH:
            raise MalformedAnswerError(f"an event has more than {MAX_LINE_LENGTH:,} bytes")
        for line in lines:
            line = line.rstrip(b"\r")
            if line.startswith(b"data:"):
                data.append(line[5:].strip())
            elif not line and data:
                yield b"\n".join(data)
                data = []
    rest = rest.rstrip(b"\r")
    if rest.startswith(b"data:"):
        data.append(rest[5:].strip())
    if data:  # the empty line after the last event is often missing
        yield b"\n".join(data)


class _Gathered:
    """Content of a stream's events so far."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._usage: Any = None
        self._content: list[str] = []
        self._reasoning: list[str] = []
        self._refusal: list[str] = []
        self._calls = StreamedCalls()
        self._finish: Any = None
        self.done = False
        """Whether the stream says that it is over."""
        self._logprobs: list[Any] = []
        self._token_ids: list[Any] = []
        self._events = 0
        self._choices = 1

    def add(self, event: Mapping[str, Any]) -> None:
        """Take an event."""
        if event.get("error"):
            raise MalformedAnswerError("the stream ends in an error")
        self._events += 1
        self._head = self._head or {key: event.get(key) for key in ("model", "system_fingerprint")}
        self._usage = event.get("usage") or self._usage
        choices = part(event, "choices", list, [])
        if not choices:
            return
        choice = table_of(choices[0], "a choice")
        number = part(choice, "index", int, 0)
        if not 0 <= number < MAX_CHOICES:
            raise MalformedAnswerError(f"it has more than {MAX_CHOICES} choices")
        self._choices = max(self._choices, number + 1)
        if number:  # only the first choice is read
            return
        delta = part(choice, "delta", dict, {})
        self._content.append(optional_text(delta, "content"))
        self._reasoning.append(reasoning_of(delta))
        self._refusal.append(optional_text(delta, "refusal"))
        try:
            for call in part(delta, "tool_calls", list, []):
                self._calls.add(table_of(call, "a tool call"))
            if old := part(delta, "function_call", dict, {}):
                self._calls.add({"index": 0, "function": old})
        except UnreadableError as error:
            raise MalformedAnswerError(str(error)) from None
        self._logprobs += part(part(choice, "logprobs", dict, {}), "content", list, [])
        self._token_ids += part(choice, "token_ids", list, [])
        self._finish = choice.get("finish_reason") or self._finish

    def answer(self) -> ChatReply:
        """Return the answer of all events together."""
        if not self._events:
            raise MalformedAnswerError("it has no events")
        if self._finish is None and not self.done:
            raise MalformedAnswerError("the stream ends before the answer does")
        message = {
            "content": "".join(self._content),
            "reasoning_content": "".join(self._reasoning),
            "refusal": "".join(self._refusal),
            "tool_calls": self._calls.calls(),
        }
        choice = {
            "finish_reason": self._finish,
            "logprobs": {"content": self._logprobs},
            "token_ids": self._token_ids,
        }
        return read_choice(choice, message, {**self._head, "usage": self._usage}, self._choices)
