"""OpenAI's chat completions: requests read, answers and streams written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from agentgym.endpoint.chat import ChatMessage, ChatToolCall
from agentgym.errors import UsageError
from agentgym.serving.gateway.call_tree import ModelCall
from agentgym.serving.gateway.queries import (
    ModelQuery,
    check_parameters,
    field_of,
    make_request,
    table_in,
    text_in,
)

_NAMES = """
    messages tools tool_choice temperature max_tokens max_completion_tokens stop seed logprobs stream
    stream_options return_token_ids
"""
_READ = frozenset(_NAMES.split())
_SILENT = """
    model user metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention
"""
_IGNORED = frozenset(_SILENT.split())
_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "n": (1,),
    "best_of": (1,),
    "top_p": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": ({},),
    "top_logprobs": (0,),
    "parallel_tool_calls": (True,),
    "response_format": ({"type": "text"},),
    "reasoning_effort": (),
    "functions": (),
    "function_call": (),
    "modalities": (["text"],),
}
_STREAM_PIECE = 512
"""Characters of a streamed piece of text."""


def read_completion(body: Mapping[str, Any], max_tokens: int) -> ModelQuery:
    """Return what a request asks; ``max_tokens`` where it does not say.

    Raises:
        UsageError: it is malformed, or asks for what is not sampled here.
    """
    check_parameters(body, _READ, _IGNORED, _NEUTRAL)
    choice = body.get("tool_choice")
    if choice not in (None, "auto", "none"):
        raise UsageError(f"tool_choice is 'auto' or 'none' here, not {choice!r:.60}: the model is not forced")
    stop = field_of(body, "stop", (str, list), [])
    limit = field_of(body, "max_completion_tokens", int, field_of(body, "max_tokens", int, max_tokens))
    request = make_request(
        read_messages(field_of(body, "messages", list, [])),
        [_tool(each) for each in field_of(body, "tools", list, [])],
        temperature=field_of(body, "temperature", (int, float), 1.0),
        max_tokens=limit,
        seed=field_of(body, "seed", int, None),
        stop=[stop] if isinstance(stop, str) else stop,
    )
    return ModelQuery(
        request,
        calls=choice != "none" and bool(request.tools),
        stream=field_of(body, "stream", bool, False),
        usage=bool(field_of(body, "stream_options", dict, {}).get("include_usage")),
        logprobs=field_of(body, "logprobs", bool, False),
        token_ids=field_of(body, "return_token_ids", bool, False),
    )


def _tool(value: Any) -> Mapping[str, Any]:
    function = table_in(table_in(value, "a tool").get("function"), "the function of a tool")
    if value.get("type", "function") != "function" or not isinstance(function.get("name"), str):
        raise UsageError(f"a tool is of the type 'function' and has a name, not {value!r:.80}")
    parameters = field_of(function, "parameters", dict, {"type": "object", "properties": {}})
    described = {"description": field_of(function, "description", str, "")}
    return {"type": "function", "function": {"name": function["name"], **described, "parameters": parameters}}


def read_messages(listed: Sequence[Any]) -> Iterator[ChatMessage]:
    """Yield OpenAI's messages; results of tools without an id are of the calls before them, in order."""
    open_calls: list[str] = []
    for value in listed:
        table = table_in(value, "a message")
        role, text = table.get("role"), text_in(table.get("content"), "a message", ("refusal",))
        if role == "assistant":
            calls = [_call(each, n) for n, each in enumerate(field_of(table, "tool_calls", list, []))]
            open_calls = [call.id for call in calls]
            yield ChatMessage("assistant", text, tool_calls=tuple(calls))
        elif role == "tool":
            named = field_of(table, "tool_call_id", str, "") or next(iter(open_calls), "call_0")
            open_calls = [id for id in open_calls if id != named]
            yield ChatMessage("tool", text, tool_call_id=named)
        elif role in ("system", "developer", "user"):
            yield ChatMessage("user" if role == "user" else "system", text)
        else:
            raise UsageError(f"the role of a message is system, user, assistant or tool, not {role!r:.40}")


def _call(value: Any, place: int) -> ChatToolCall:
    table = table_in(value, "a tool call")
    function = table_in(table.get("function"), "the function of a tool call")
    arguments = field_of(function, "arguments", (str, dict), "{}")
    return ChatToolCall(
        field_of(table, "id", str, "") or f"call_{place}",
        field_of(function, "name", str, ""),
        arguments if isinstance(arguments, str) else json.dumps(arguments),
    )


# ---- answers ---------------------------------------------------------------------------------------


def message_table(message: ChatMessage) -> dict[str, Any]:
    """Return a message in OpenAI's form."""
    table: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.tool_calls:
        table["content"] = message.text or None
        table["tool_calls"] = [_call_table(call) for call in message.tool_calls]
    if message.tool_call_id:
        table["tool_call_id"] = message.tool_call_id
    return table


def _call_table(call: ChatToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def write_completion(
    call: ModelCall, query: ModelQuery, model: str, id: str, decode: Callable[[list[int]], str]
) -> dict[str, Any]:
    """Return the answer to a request; ``decode`` gives the text of tokens."""
    choice: dict[str, Any] = {
        "index": 0,
        "message": message_table(call.answer),
        "finish_reason": call.finish,
        "logprobs": _logprobs(call, decode) if query.logprobs else None,
    }
    whole = _head(call, model, id, "chat.completion") | {"choices": [choice], "usage": usage(call)}
    if query.token_ids:
        whole["prompt_token_ids"] = call.prompt_ids
        choice["token_ids"] = call.generation.ids
    return whole


def stream_completion(whole: Mapping[str, Any], query: ModelQuery) -> Iterator[dict[str, Any]]:
    """Yield the events of a stream that comes to the same as `write_completion`."""
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    (choice,), last = whole["choices"], {"usage": None} if query.usage else {}
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
    if query.usage:
        yield {**head, "choices": [], "usage": whole["usage"]}


def usage(call: ModelCall) -> dict[str, int]:
    """Return the numbers of tokens."""
    asked, said = len(call.prompt_ids), len(call.generation.ids)
    return {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}


def _head(call: ModelCall, model: str, id: str, kind: str) -> dict[str, Any]:
    return {"id": id, "object": kind, "created": int(call.time), "model": model}


def _logprobs(call: ModelCall, decode: Callable[[list[int]], str]) -> dict[str, Any]:
    content = []
    for token, logprob in zip(call.generation.ids, call.generation.logprobs, strict=True):
        text = decode([token])
        entry = {"token": text, "logprob": logprob, "bytes": list(text.encode()), "top_logprobs": []}
        content.append(entry)
    return {"content": content, "refusal": None}
