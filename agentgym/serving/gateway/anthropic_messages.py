"""Anthropic's Messages: requests read, answers and streams written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentgym.endpoint.chat import ChatMessage, ChatToolCall
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.serving.env.sessions import SessionError
from agentgym.serving.gateway.call_tree import ModelCall
from agentgym.serving.gateway.model_queries import ModelQuery, given, list_in, make_tool, table_in, text_in

_OWN = frozenset(("messages", "system", "stop_sequences", "tools", "tool_choice"))
_ALIKE = frozenset(("max_tokens", "temperature", "stream"))
"""Parameters that `ModelQuery` shares."""
_THOUGHTS = ("thinking", "redacted_thinking")
"""Blocks of other models' thoughts, which a request may contain; the model here does not see them."""

_STATUS = {
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    503: "overloaded_error",
}


def read_message(body: Mapping[str, Any]) -> ModelQuery:
    """Return the query of a request; what is not sampled here is refused."""
    table = given(body, _OWN | _ALIKE)
    choice = table_in(table.get("tool_choice", {"type": "auto"}), "tool_choice")
    if choice.get("disable_parallel_tool_use"):
        raise UsageError("disable_parallel_tool_use has no effect here: leave it out")
    system = text_in(table.get("system"), "system")
    messages = [ChatMessage("system", system)] if system else []
    for each in list_in(body, "messages"):
        messages += _messages(table_in(each, "a message"))
    query = {name: value for name, value in table.items() if name in _ALIKE} | {
        "messages": messages,
        "stop": table.get("stop_sequences", []),
        "tools": [_tool(each) for each in list_in(body, "tools")],
        "tool_choice": choice.get("type"),
    }
    return parse(ModelQuery, query, "the request")


def _tool(value: Any) -> dict[str, Any]:
    table = table_in(value, "a tool")
    if table.get("type", "custom") != "custom":
        raise UsageError(f"a tool has an input_schema, and is none of Anthropic's own: {value!r:.80}")
    return make_tool(table, "input_schema")


def _messages(table: Mapping[str, Any]) -> Iterator[ChatMessage]:
    """Yield the messages that one of Anthropic's is: results of tools are messages of their own."""
    role, content = table.get("role"), table.get("content")
    if role not in ("user", "assistant"):
        raise UsageError(f"the role of a message is user or assistant, not {role!r:.40}")
    text = text_in(content, "a message", ("tool_use", "tool_result", *_THOUGHTS))
    blocks = content if isinstance(content, list) else []
    if role == "assistant":
        calls = [_call(each, place) for place, each in enumerate(blocks) if each["type"] == "tool_use"]
        yield ChatMessage("assistant", text, tool_calls=tuple(calls))
        return
    results = [each for each in blocks if each["type"] == "tool_result"]
    for each in results:
        result = text_in(each.get("content"), "the result of a tool")
        yield ChatMessage("tool", result, tool_call_id=str(each.get("tool_use_id") or "toolu_0"))
    if text or not results:
        yield ChatMessage("user", text)


def _call(block: Mapping[str, Any], place: int) -> ChatToolCall:
    arguments = json.dumps(table_in(block.get("input") or {}, "the input of a tool"))
    return ChatToolCall(str(block.get("id") or f"toolu_{place}"), str(block.get("name", "")), arguments)


def write_message(
    call: ModelCall, query: ModelQuery, model: str, id: str, decode: Callable[[Sequence[int]], str]
) -> dict[str, Any]:
    """Return the answer to a request; ``decode`` gives the text of tokens."""
    answer, reason, stop = call.answer, "end_turn", None
    if call.finish != "stop":
        reason = {"length": "max_tokens", "tool_calls": "tool_use"}[call.finish]
    elif query.stop:
        text = decode(call.generation.ids)
        found = [(text.find(each), each) for each in query.stop if each in text]
        reason, stop = ("stop_sequence", min(found)[1]) if found else (reason, None)
    blocks: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    for each in answer.tool_calls:
        made = {"id": each.id, "name": each.name, "input": json.loads(each.arguments)}
        blocks.append({"type": "tool_use", **made})
    counted = {"input_tokens": len(call.prompt_ids), "output_tokens": len(call.generation.ids)}
    head = {"id": id, "type": "message", "role": "assistant", "model": model, "content": blocks}
    return {**head, "stop_reason": reason, "stop_sequence": stop, "usage": counted}


def stream_message(whole: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream with the content of `write_message`."""
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
