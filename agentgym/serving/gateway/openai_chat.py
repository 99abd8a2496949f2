"""OpenAI's chat completions: requests read, answers and streams written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from agentgym.endpoint.chat import ChatMessage, ChatToolCall
from agentgym.endpoint.wire import message_table
from agentgym.errors import UsageError
from agentgym.io.records import parse
from agentgym.serving.env.sessions import SessionError
from agentgym.serving.gateway.call_tree import ModelCall
from agentgym.serving.gateway.model_queries import ModelQuery, given, list_in, make_tool, table_in, text_in

_READ = frozenset({field.name for field in fields(ModelQuery)} | {"max_completion_tokens"})
_STREAM_PIECE = 512
"""Most characters of a streamed piece of text."""


def read_completion(body: Mapping[str, Any], max_tokens: int) -> ModelQuery:
    """Return the query of a request; ``max_tokens`` where it sets no limit."""
    table = {"max_tokens": max_tokens} | given(body, _READ)
    table["max_tokens"] = table.pop("max_completion_tokens", table["max_tokens"])
    table["messages"] = list(_messages(list_in(body, "messages")))
    table["tools"] = [_tool(each) for each in list_in(body, "tools")]
    if isinstance(table.get("stop"), str):
        table["stop"] = [table["stop"]]
    return parse(ModelQuery, table, "the request")


def _tool(value: Any) -> dict[str, Any]:
    function = table_in(table_in(value, "a tool").get("function"), "the function of a tool")
    return make_tool(function, "parameters")


def _messages(listed: Sequence[Any]) -> Iterator[ChatMessage]:
    """Yield messages; results of tools without an id are of the calls before them, in order."""
    open_calls: list[str] = []
    for value in listed:
        table = table_in(value, "a message")
        role, text = table.get("role"), text_in(table.get("content"), "a message", ("refusal",))
        if role == "assistant":
            calls = tuple(_call(each, place) for place, each in enumerate(list_in(table, "tool_calls")))
            open_calls = [call.id for call in calls]
            yield ChatMessage("assistant", text, tool_calls=calls)
        elif role == "tool":
            named = str(table.get("tool_call_id") or next(iter(open_calls), "call_0"))
            open_calls = [id for id in open_calls if id != named]
            yield ChatMessage("tool", text, tool_call_id=named)
        elif role in ("system", "developer", "user"):
            yield ChatMessage("user" if role == "user" else "system", text)
        else:
            raise UsageError(f"the role of a message is system, user, assistant or tool, not {role!r:.40}")


def _call(value: Any, place: int) -> ChatToolCall:
    table = table_in(value, "a tool call")
    function = table_in(table.get("function"), "the function of a tool call")
    arguments = function.get("arguments") or "{}"
    if not isinstance(arguments, str):
        arguments = json.dumps(arguments)
    return ChatToolCall(str(table.get("id") or f"call_{place}"), str(function.get("name", "")), arguments)


def write_completion(
    call: ModelCall, query: ModelQuery, model: str, id: str, decode: Callable[[list[int]], str]
) -> dict[str, Any]:
    """Return the answer to a request; ``decode`` gives the text of tokens."""
    made = call.generation
    choice: dict[str, Any] = {"index": 0, "message": message_table(call.answer), "finish_reason": call.finish}
    choice["logprobs"] = None
    if query.logprobs:
        content = []
        for token, logprob in zip(made.ids, made.logprobs, strict=True):
            text = decode([token])
            about = {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
            content.append(about)
        choice["logprobs"] = {"content": content, "refusal": None}
    whole = {"id": id, "object": "chat.completion", "created": int(call.time), "model": model}
    whole |= {"choices": [choice], "usage": usage(call)}
    if query.return_token_ids:
        whole["prompt_token_ids"] = call.prompt_ids
        choice["token_ids"] = made.ids
    return whole


def stream_completion(whole: Mapping[str, Any], query: ModelQuery) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream with the content of `write_completion`."""
    counted = bool(query.stream_options.get("include_usage"))
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,), last = whole["choices"], {"usage": None} if counted else {}
    message = choice["message"]

    def event(delta: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        part = {"index": 0, "delta": delta, "finish_reason": None} | more
        return {**head, **last, "choices": [part]}

    yield event({"role": "assistant", "content": ""}, logprobs=choice["logprobs"])
    text = message["content"] or ""
    for begin in range(0, len(text), _STREAM_PIECE):
        yield event({"content": text[begin : begin + _STREAM_PIECE]})
    for index, call in enumerate(message.get("tool_calls", ())):
        yield event({"tool_calls": [{"index": index, **call}]})
    ids = {"token_ids": choice["token_ids"]} if "token_ids" in choice else {}
    yield event({}, finish_reason=choice["finish_reason"], **ids)
    if counted:
        yield {**head, "choices": [], "usage": whole["usage"]}


def usage(call: ModelCall) -> dict[str, int]:
    """Return the numbers of tokens."""
    prompt, response = len(call.prompt_ids), len(call.generation.ids)
    return {"prompt_tokens": prompt, "completion_tokens": response, "total_tokens": prompt + response}


def error_table(error: SessionError) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    kind = "invalid_request_error" if error.status < 500 else "server_error"
    return {"error": {"message": error.line, "type": kind, "param": None, "code": error.code}}
