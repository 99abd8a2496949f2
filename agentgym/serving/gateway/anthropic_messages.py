"""Anthropic's Messages: requests read, answers and streams written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentgym.endpoint.chat import ChatMessage, ChatToolCall
from agentgym.errors import UsageError
from agentgym.serving.env.sessions import SessionError
from agentgym.serving.gateway.call_tree import ModelCall
from agentgym.serving.gateway.queries import (
    ModelQuery,
    check_parameters,
    field_of,
    make_request,
    table_in,
    text_in,
)

_NAMES = "messages system max_tokens temperature stop_sequences stream tools tool_choice thinking"
_READ = frozenset(_NAMES.split())
_IGNORED = ["model", "metadata", "service_tier", "container"]
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {"top_p": (1,), "top_k": (0, -1), "mcp_servers": ([],)}
_THOUGHTS = ("thinking", "redacted_thinking")
"""Blocks of other models' thoughts, which a request may hold still; the model here is not shown them."""
_STATUS = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}


def read_message(body: Mapping[str, Any]) -> tuple[ModelQuery, tuple[str, ...]]:
    """Return what a request asks, and the texts that end its answer.

    Raises:
        UsageError: it is malformed, or asks for what is not sampled here.
    """
    check_parameters(body, _READ, _IGNORED, _NEUTRAL)
    choice = field_of(body, "tool_choice", dict, {"type": "auto"})
    if choice.get("type") not in ("auto", "none") or choice.get("disable_parallel_tool_use"):
        raise UsageError(f"tool_choice is 'auto' or 'none' here, not {choice!r:.60}: the model is not forced")
    if field_of(body, "thinking", dict, {}).get("type", "disabled") != "disabled":
        raise UsageError(
            "thinking is the chat template's to switch on here: start the gateway with its option"
        )
    limit = field_of(body, "max_tokens", int, None)
    if limit is None:
        raise UsageError("max_tokens is missing: give the most tokens of an answer")
    system = text_in(body.get("system"), "system")
    stops = tuple(field_of(body, "stop_sequences", list, []))
    request = make_request(
        [
            *([ChatMessage("system", system)] if system else []),
            *(each for table in field_of(body, "messages", list, []) for each in _messages(table)),
        ],
        [_tool(each) for each in field_of(body, "tools", list, [])],
        temperature=field_of(body, "temperature", (int, float), 1.0),
        max_tokens=limit,
        seed=None,
        stop=stops,
    )
    calls = choice["type"] == "auto" and bool(request.tools)
    return ModelQuery(request, calls=calls, stream=field_of(body, "stream", bool, False)), stops


def _tool(value: Any) -> Mapping[str, Any]:
    """Return a tool in OpenAI's form, which chat templates take."""
    table = table_in(value, "a tool")
    if table.get("type", "custom") != "custom" or not isinstance(table.get("name"), str):
        raise UsageError(
            f"a tool has a name and an input_schema, and is none of Anthropic's own: {value!r:.80}"
        )
    described = {"name": table["name"], "description": field_of(table, "description", str, "")}
    schema = field_of(table, "input_schema", dict, {"type": "object", "properties": {}})
    return {"type": "function", "function": {**described, "parameters": schema}}


def _messages(value: Any) -> Iterator[ChatMessage]:
    """Yield the messages that one of Anthropic's is: results of tools are messages of their own."""
    table = table_in(value, "a message")
    role, content = table.get("role"), table.get("content")
    if role not in ("user", "assistant"):
        raise UsageError(f"the role of a message is user or assistant, not {role!r:.40}")
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    text = text_in(blocks, "a message", ("tool_use", "tool_result", *_THOUGHTS))
    blocks = [table_in(each, "a block") for each in blocks]
    if role == "assistant":
        calls = [_call(each, place) for place, each in enumerate(blocks) if each.get("type") == "tool_use"]
        yield ChatMessage("assistant", text, tool_calls=tuple(calls))
        return
    results = [each for each in blocks if each.get("type") == "tool_result"]
    for each in results:
        named = field_of(each, "tool_use_id", str, "") or "toolu_0"
        yield ChatMessage("tool", text_in(each.get("content"), "the result of a tool"), tool_call_id=named)
    if text or not results:
        yield ChatMessage("user", text)


def _call(block: Mapping[str, Any], place: int) -> ChatToolCall:
    named = field_of(block, "id", str, "") or f"toolu_{place}"
    return ChatToolCall(
        named, field_of(block, "name", str, ""), json.dumps(field_of(block, "input", dict, {}))
    )


# ---- answers ---------------------------------------------------------------------------------------


def write_message(
    call: ModelCall, model: str, id: str, stops: Sequence[str], decode: Callable[[Sequence[int]], str]
) -> dict[str, Any]:
    """Return the answer to a request; ``decode`` gives the text of tokens."""
    answer, reason, stop = call.answer, "end_turn", None
    if call.finish == "length":
        reason = "max_tokens"
    elif answer.tool_calls:
        reason = "tool_use"
    elif stops:
        text = decode(call.generation.ids)
        found = [(text.find(each), each) for each in stops if each in text]
        reason, stop = ("stop_sequence", min(found)[1]) if found else (reason, None)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    for each in answer.tool_calls:
        made = {"id": each.id, "name": each.name, "input": json.loads(each.arguments)}
        blocks.append({"type": "tool_use", **made})
    counted = {"input_tokens": len(call.prompt_ids), "output_tokens": len(call.generation.ids)}
    head = {"id": id, "type": "message", "role": "assistant", "model": model, "content": blocks}
    return {**head, "stop_reason": reason, "stop_sequence": stop, "usage": counted}


def stream_message(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream that comes to the same as `write_message`."""
    begun = {**whole, "content": [], "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": begun | {"usage": {**whole["usage"], "output_tokens": 0}}}
    for index, block in enumerate(whole["content"]):
        if block["type"] == "text":
            empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            empty = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": whole["stop_sequence"]}
    yield {"type": "message_delta", "delta": ended, "usage": whole["usage"]}
    yield {"type": "message_stop"}


def error_table(error: SessionError) -> dict[str, Any]:
    """Return an error in Anthropic's form."""
    kind = _STATUS.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": error.line}}
