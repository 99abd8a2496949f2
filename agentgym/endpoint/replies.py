"""Replies of an endpoint, parsed strictly: anything but a chat completion is a `MalformedAnswerError`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from agentgym.endpoint.chat import ChatReply, ChatToolCall
from agentgym.errors import UsageError
from agentgym.io.untrusted import loads_json, whole_text
from agentgym.reading import UnreadableError, arguments_text, calls_of_message

MAX_CHOICES = 128
"""Most choices of an answer."""

MAX_TOKENS = 10_000_000
"""Largest count that a reply's usage may state."""


class MalformedAnswerError(ValueError):
    """The answer is no chat completion; the message says why, on one line."""


class TokenUsage(NamedTuple):
    """Tokens that an endpoint counted."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0


def usage_of(reply: ChatReply) -> TokenUsage:
    """Return the tokens that a reply states."""
    return TokenUsage(
        reply.prompt_tokens, reply.completion_tokens, reply.cached_tokens, reply.reasoning_tokens
    )


def read_answer_body(body: bytes) -> ChatReply:
    """Read the body of an answer that came whole."""
    table = read_object(body)
    choices = part(table, "choices", list, [])
    if not choices:
        raise MalformedAnswerError("it has no choices")
    if len(choices) > MAX_CHOICES:
        raise MalformedAnswerError(f"it has more than {MAX_CHOICES} choices")
    choice = table_of(choices[0], "a choice")
    return read_choice(choice, table_of(choice.get("message"), "its message"), table, len(choices))


def read_choice(
    choice: Mapping[str, Any], message: Mapping[str, Any], table: Mapping[str, Any], choices: int
) -> ChatReply:
    """Read a choice of the answer ``table``."""
    finish = choice.get("finish_reason") or "stop"  # some servers return null for a complete answer
    if not isinstance(finish, str) or len(finish) > 64:
        raise MalformedAnswerError("its finish_reason is none")
    usage = read_usage(table.get("usage"))
    return ChatReply(
        text=whole_text(_content(message)),
        tool_calls=_tool_calls(message),
        finish_reason=whole_text(finish),
        prompt_tokens=usage.prompt if usage else 0,
        completion_tokens=usage.completion if usage else 0,
        cached_tokens=usage.cached if usage else 0,
        reasoning_tokens=usage.reasoning if usage else 0,
        usage_stated=usage is not None,
        token_ids=_token_ids(choice),
        logprobs=_logprobs(choice),
        reasoning=whole_text(reasoning_of(message)),
        choices=choices,
        served_model=whole_text(optional_text(table, "model")),
        fingerprint=whole_text(optional_text(table, "system_fingerprint")),
    )


def read_object(body: bytes) -> dict[str, Any]:
    """Return the object that a body is, or raise a MalformedAnswerError."""
    if not body.strip():
        raise MalformedAnswerError("it is empty")
    if body.lstrip()[:1] == b"<":
        raise MalformedAnswerError("it is a page of HTML")
    try:
        value = loads_json(body, "answer", repeated_keys=True, half_characters="kept")
    except UsageError as error:
        raise MalformedAnswerError(f"it is no JSON ({str(error).removeprefix('answer: ')})") from None
    return table_of(value, "it")


def read_usage(usage: Any) -> TokenUsage | None:
    """Read the token counts; None without any."""
    if usage is None:
        return None
    table = table_of(usage, "its usage")
    prompt = part(table, "prompt_tokens_details", dict, {})
    completion = part(table, "completion_tokens_details", dict, {})
    return TokenUsage(
        _count(table, "prompt_tokens"),
        _count(table, "completion_tokens"),
        _count(prompt, "cached_tokens"),
        _count(completion, "reasoning_tokens"),
    )


def part(table: Mapping[str, Any], key: str, kind: type, default: Any) -> Any:
    """Return a part of a type; the default where it is missing or null. Else raise a MalformedAnswerError."""
    value = table.get(key)
    if value is None:
        return default
    if not isinstance(value, kind):
        raise MalformedAnswerError(f"its {key} is of another type than {kind.__name__}")
    return value


def optional_text(table: Mapping[str, Any], key: str) -> str:
    """Return a text; the empty one where it is missing or null."""
    return str(part(table, key, str, ""))


def reasoning_of(message: Mapping[str, Any]) -> str:
    """Return the reasoning before the answer, under either name that servers use."""
    return optional_text(message, "reasoning_content") or (
        message["reasoning"] if isinstance(message.get("reasoning"), str) else ""
    )


def table_of(value: Any, what: str) -> dict[str, Any]:
    """Return an object, or raise a MalformedAnswerError."""
    if not isinstance(value, dict):
        raise MalformedAnswerError(f"{what} is no object")
    return value


def _content(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, list):  # parts: some endpoints answer in parts where the request had parts
        parts = [table_of(each, "a part of its content") for each in content]
        return "".join(optional_text(each, "text") for each in parts)
    text = optional_text(message, "content")
    return text or optional_text(message, "refusal")


def _tool_calls(message: Mapping[str, Any]) -> tuple[ChatToolCall, ...]:
    try:
        calls = calls_of_message(message)
    except UnreadableError as error:
        raise MalformedAnswerError(str(error)) from None
    return tuple(
        ChatToolCall(call.id or f"call_{number}", call.name, arguments_text(call))
        for number, call in enumerate(calls)
    )


def _count(table: Mapping[str, Any], key: str) -> int:
    value = part(table, key, int, 0)
    if not 0 <= value <= MAX_TOKENS or isinstance(value, bool):
        raise MalformedAnswerError(f"its {key} is no count")
    return int(value)


def _token_ids(choice: Mapping[str, Any]) -> tuple[int, ...]:
    ids = part(choice, "token_ids", list, [])
    if not all(type(id) is int and 0 <= id < 1 << 31 for id in ids):
        raise MalformedAnswerError("its token_ids are no ids")
    return tuple(ids)


def _logprobs(choice: Mapping[str, Any]) -> tuple[float, ...]:
    tokens = part(part(choice, "logprobs", dict, {}), "content", list, [])
    found: list[Any] = [table_of(token, "a token of its logprobs").get("logprob") for token in tokens]
    if not all(type(each) in (int, float) for each in found):
        raise MalformedAnswerError("its logprobs are no numbers")
    return tuple(float(each) for each in found)
