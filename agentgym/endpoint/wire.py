"""Requests as the bodies of chat completions, their keys in a cache, and estimates of their tokens."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Collection
from typing import Any

from agentgym.core.hashing import sha256_json
from agentgym.endpoint.chat import ChatMessage, ChatRequest
from agentgym.endpoint.spec import EndpointSpec

DROPPABLE = (
    "temperature",
    "seed",
    "stop",
    "top_p",
    "max_tokens",
    "max_completion_tokens",
    "logprobs",
    "return_token_ids",
    "response_format",
    "stream_options",
    "parallel_tool_calls",
)
"""Parameters that are left out of a request after an endpoint has refused them."""

BYTES_A_TOKEN = 4
"""Bytes of text in a token, for estimates."""

TOKENS_A_MESSAGE = 6
"""Tokens of a message's role and delimiters, for estimates."""

TOKENS_AN_IMAGE = 1_000
"""Tokens of an image, for estimates."""

ASSUMED_ANSWER = 512
"""Tokens of an answer without a limit, for estimates."""


def body_of(request: ChatRequest, spec: EndpointSpec, without: Collection[str]) -> dict[str, Any]:
    """Return the body of a request without the parameters that the endpoint has refused.

    ``max_completion_tokens`` replaces a refused ``max_tokens``, unless it is refused too.
    """
    sampling = request.sampling
    limit = "max_completion_tokens" if "max_tokens" in without else "max_tokens"
    wanted = {
        "temperature": sampling.temperature,
        limit: sampling.max_tokens,
        "seed": sampling.seed,
        "top_p": sampling.top_p,
        "stop": list(sampling.stop) or None,
        "logprobs": spec.logprobs or None,
        "return_token_ids": spec.token_ids or None,
        "response_format": None
        if request.response_schema is None
        else {
            "type": "json_schema",
            "json_schema": {"name": "answer", "schema": dict(request.response_schema), "strict": True},
        },
        "stream_options": {"include_usage": True} if spec.stream else None,
        "parallel_tool_calls": False if request.one_call else None,
    }
    body: dict[str, Any] = {
        **spec.extra,
        "model": spec.model,
        "messages": [message_table(m) for m in request.messages],
    }
    body |= {name: value for name, value in wanted.items() if value is not None and name not in without}
    if request.tools:
        body["tools"] = [dict(tool) for tool in request.tools]
    if spec.stream:
        body["stream"] = True
    return body


def cache_key(request: ChatRequest, spec: EndpointSpec) -> str:
    """Return the sha256 (64 hex digits) of all that an answer depends on."""
    sampling = request.sampling
    key: dict[str, Any] = {
        "model": spec.model,
        "url": spec.url,
        "messages": [_pinned(message) for message in request.messages],
        "sampling": {name: getattr(sampling, name) for name in sampling.__slots__},
        "tools": [dict(tool) for tool in request.tools],
        "schema": None if request.response_schema is None else dict(request.response_schema),
        "prompt_id": request.prompt_id,
        "sample": request.sample,
    }
    # only set options, so that a new option does not change existing cache keys
    if spec.extra:
        key["extra"] = dict(spec.extra)
    for name, owner in (("logprobs", spec), ("token_ids", spec), ("one_call", request)):
        if getattr(owner, name):
            key[name] = True
    return sha256_json(key)


def estimated_prompt_tokens(request: ChatRequest) -> int:
    """Return about how many tokens a request's messages and tools are: a token for four bytes of text."""
    size = sum(len(message.text.encode("utf-8", "replace")) for message in request.messages)
    size += sum(len(call.arguments) + len(call.name) for m in request.messages for call in m.tool_calls)
    size += sum(len(repr(tool)) for tool in request.tools)
    images = sum(len(message.images) for message in request.messages)
    return (
        math.ceil(size / BYTES_A_TOKEN) + TOKENS_A_MESSAGE * len(request.messages) + TOKENS_AN_IMAGE * images
    )


def answer_limit(request: ChatRequest) -> int:
    """Return how many tokens an answer may have, for estimates."""
    return request.sampling.max_tokens or ASSUMED_ANSWER


def message_table(message: ChatMessage) -> dict[str, Any]:
    """Return a message in OpenAI's form; images as data URIs after the text."""
    content: Any = message.text
    if message.images:
        content = [{"type": "text", "text": message.text}] if message.text else []
        content += [
            {
                "type": "image_url",
                "image_url": {"url": f"data:image/png;base64,{base64.b64encode(image.png).decode()}"},
            }
            for image in message.images
        ]
    table: dict[str, Any] = {"role": message.role, "content": content}
    if message.tool_calls:
        table["content"] = content or None
        table["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        table["tool_call_id"] = message.tool_call_id
    return table


def _pinned(message: ChatMessage) -> dict[str, Any]:
    """Return a message as the cache's key has it: images by their sha256."""
    return {
        "role": message.role,
        "text": message.text,
        "images": [hashlib.sha256(image.png).hexdigest() for image in message.images],
        "tool_calls": [[call.id, call.name, call.arguments] for call in message.tool_calls],
        "tool_call_id": message.tool_call_id,
    }
