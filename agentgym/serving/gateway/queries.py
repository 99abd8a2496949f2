"""Requests to the gateway's model, whichever API they come by, and how they are read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from agentgym.endpoint.chat import ChatMessage, ChatRequest, ChatSampling
from agentgym.errors import UsageError


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """A request to the model."""

    request: ChatRequest
    calls: bool = True
    """Whether calls are told from text."""
    stream: bool = False
    usage: bool = False
    """Whether a stream ends with the numbers of tokens."""
    logprobs: bool = False
    token_ids: bool = False


def check_parameters(
    body: Mapping[str, Any],
    read: Collection[str],
    ignored: Collection[str],
    neutral: Mapping[str, tuple[Any, ...]],
) -> None:
    """Refuse parameters that would change what is sampled, since a learner could not recompute it.

    ``read``: those that are heeded; ``ignored``: those that say nothing of sampling; ``neutral``: the values
    of others that change nothing. `UsageError` for any other one.
    """
    for name, value in body.items():
        if value is None or name in read or name in ignored or value in neutral.get(name, ()):
            continue
        if name in neutral:
            harmless = " or ".join(repr(each) for each in neutral[name])
            raise UsageError(
                f"{name} = {value!r:.60} would change what is sampled, and a learner recomputes the model's "
                f"own distribution: leave it out{f', or give {harmless}' if harmless else ''}"
            )
        raise UsageError(f"the parameter {name!r:.60} is not known here: leave it out")


def field_of(table: Mapping[str, Any], name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    """Return a member of an object, the default where it is missing or null; UsageError for another type."""
    value = table.get(name)
    if value is None:
        return default
    boolean = isinstance(value, bool) and bool not in (kind if isinstance(kind, tuple) else (kind,))
    if not isinstance(value, kind) or boolean:
        raise UsageError(f"{name} has another type than this API gives it: {value!r:.60}")
    return value


def table_in(value: Any, what: str) -> Mapping[str, Any]:
    """Return an object of JSON; UsageError for anything else."""
    if not isinstance(value, dict):
        raise UsageError(f"{what} is an object, not {value!r:.60}")
    return value


def text_in(content: Any, what: str, left_out: Collection[str] = ()) -> str:
    """Return a content of text, whole or in parts; UsageError for pictures and others but ``left_out``."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = []
    for part in content if isinstance(content, list) else [content]:
        table = table_in(part, f"a part of {what}")
        if table.get("type") == "text" and isinstance(table.get("text"), str):
            texts.append(table["text"])
        elif table.get("type") not in left_out:
            raise UsageError(
                f"{what} has a part of the type {table.get('type')!r:.40}: only text is read here"
            )
    return "".join(texts)


def make_request(
    messages: Iterable[ChatMessage],
    tools: Iterable[Mapping[str, Any]],
    *,
    temperature: float,
    max_tokens: int,
    seed: int | None,
    stop: Iterable[Any],
) -> ChatRequest:
    """Return a request; UsageError where its last message is no question or a setting is out of range."""
    chat, stops = tuple(messages), tuple(stop)
    if not chat or chat[-1].role not in ("user", "tool"):
        raise UsageError("the last message is of a user or a tool: the model's own is not continued here")
    if not all(isinstance(each, str) and each for each in stops):
        raise UsageError("stop holds texts that end an answer, none of them empty")
    sampling = ChatSampling(temperature, max_tokens, seed, stops)
    return ChatRequest(chat, sampling, tuple(tools))
