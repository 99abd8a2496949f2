"""Replies as messages and streams of OpenAI's and Anthropic's form: the tool calls in them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agentgym.reading.syntaxes import MAX_CALLS, RawCall, UnreadableError
from agentgym.reading.text import Reading, read_text


def calls_of_message(message: Mapping[str, Any]) -> tuple[RawCall, ...]:
    """Return the calls of an assistant's message: ``tool_calls``, or ``function_call`` of old.

    Raises:
        UnreadableError: a call is no object or has no name, or there are too many.
    """
    listed = message.get("tool_calls")
    if not listed:
        old = message.get("function_call")
        listed = [{"function": old}] if old else []
    if not isinstance(listed, list):
        raise UnreadableError("its tool_calls are no list")
    if len(listed) > MAX_CALLS:
        raise UnreadableError(f"it has more than {MAX_CALLS} tool calls")
    return tuple(_call(each) for each in listed)


def _call(value: Any) -> RawCall:
    function = value.get("function", value) if isinstance(value, Mapping) else None
    if not isinstance(function, Mapping):
        raise UnreadableError("a tool call is no object with a function")
    name = function.get("name")
    if not isinstance(name, str) or not name:
        raise UnreadableError("a tool call has no name")
    id = value.get("id")
    return RawCall(
        name.removeprefix("functions."), function.get("arguments"), id if isinstance(id, str) else ""
    )


def arguments_text(call: RawCall) -> str:
    """Return a call's arguments as text, as OpenAI's form has them: empty where there are none."""
    arguments = call.arguments
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def read_message(message: Mapping[str, Any], tools: Sequence[str] = ()) -> Reading:
    """Read an assistant's message of OpenAI's or Anthropic's form.

    Without calls of its own its text is read by `read_text`: some servers leave calls there.
    """
    content, thought, calls = message.get("content"), "", list[RawCall]()
    if isinstance(content, list):
        blocks = [each for each in content if isinstance(each, Mapping)]
        text = "".join(str(each.get("text") or "") for each in blocks if each.get("type", "text") == "text")
        thought = "".join(_words(each.get("thinking")) for each in blocks)
        uses = (each for each in blocks if each.get("type") == "tool_use")
        calls = [
            RawCall(str(each.get("name") or ""), each.get("input"), str(each.get("id") or ""))
            for each in uses
        ]
    else:
        text = content if isinstance(content, str) else ""
    thought = thought or str(message.get("reasoning_content") or message.get("reasoning") or "")
    try:
        calls += calls_of_message(message)
    except UnreadableError as error:
        return Reading(thought, text, problem=str(error))
    read = read_text(text, () if calls else tools)
    if calls and not read.calls:
        read = replace(read, calls=tuple(calls), problem="", convention="message")
    return replace(read, thought=thought or read.thought)


def _words(value: Any) -> str:
    """Return a text, or the texts of a list of parts."""
    if isinstance(value, list):
        return "".join(_words(each.get("text")) for each in value if isinstance(each, Mapping))
    return value if isinstance(value, str) else ""


class StreamedCalls:
    """Calls put together from the pieces of a stream.

    Servers differ in what a piece says of the call that it belongs to. A name with another id begins another
    call, and so does a name after whole arguments, if more arguments come with it. Without an index a piece
    belongs to the call of its id, else to the last one. A name that comes again is the same name.
    """

    def __init__(self) -> None:
        """Begin without calls."""
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}

    def add(self, piece: Mapping[str, Any]) -> None:
        """Take a piece of ``tool_calls``.

        Raises:
            UnreadableError: it is malformed, or begins a call too many.
        """
        function = piece.get("function")
        function = function if isinstance(function, Mapping) else {}
        id, name, index = piece.get("id"), function.get("name"), piece.get("index")
        id, name = (each if isinstance(each, str) else "" for each in (id, name))
        if index is not None and (type(index) is not int or not 0 <= index < MAX_CALLS):
            raise UnreadableError(f"it has more than {MAX_CALLS} tool calls")
        arguments = arguments_text(RawCall(name, function.get("arguments")))
        call = self._meant(index, id, name)
        if call is None or (name and call.ended_before(id, arguments)):
            if len(self._calls) >= MAX_CALLS:
                raise UnreadableError(f"it has more than {MAX_CALLS} tool calls")
            call = _Call()
            self._calls.append(call)
            if index is not None:
                self._by_index[index] = call
        call.take(id, name, arguments)

    def _meant(self, index: int | None, id: str, name: str) -> _Call | None:
        if index is not None:
            return self._by_index.get(index)
        last = self._calls[-1] if self._calls else None
        return next((each for each in self._calls if id and each.id == id), None if id and name else last)

    def calls(self) -> list[dict[str, Any]]:
        """Return the calls as a whole message has them, in the order in which they began."""
        return [
            {"id": each.id, "function": {"name": each.name, "arguments": "".join(each.pieces)}}
            for each in self._calls
        ]


class _Call:
    """A call of which pieces have come; it is known at any time whether its arguments are whole."""

    def __init__(self) -> None:
        self.id, self.name = "", ""
        self.pieces: list[str] = []
        self._length, self._depth = 0, 0
        self._quoted = self._escaped = False

    @property
    def whole(self) -> bool:
        return self._length > 0 and self._depth == 0 and not self._quoted

    def ended_before(self, id: str, piece: str) -> bool:
        """Return whether a named piece begins another call."""
        if id and self.id:
            return id != self.id
        return bool(piece) and self.whole and not self._again(piece)

    def _again(self, piece: str) -> bool:
        """Return whether whole arguments are said again."""
        return self.whole and len(piece) == self._length and piece == "".join(self.pieces)

    def take(self, id: str, name: str, piece: str) -> None:
        """Add a piece."""
        self.id = self.id or id
        if name and (not self.name or not self.pieces):
            self.name = name
        if not piece or self._again(piece):
            return
        self.pieces.append(piece)
        self._length += len(piece)
        for letter in piece:
            if self._escaped:
                self._escaped = False
            elif letter == '"':
                self._quoted = not self._quoted
            elif self._quoted:
                self._escaped = letter == "\\"
            else:
                self._depth += (letter in "{[") - (letter in "}]")
