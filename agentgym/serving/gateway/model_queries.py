"""Requests to the gateway's model, whichever API they come by, and how they are read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from agentgym.core.options import Bounds, PositiveInt, check_fields
from agentgym.endpoint.chat import ChatMessage
from agentgym.errors import UsageError
from agentgym.io.records import parse

_SILENT = """
    model user metadata store service_tier safety_identifier prompt_cache_key prompt_cache_retention container
"""
_IGNORED = frozenset(_SILENT.split())
"""Parameters without effect on sampling."""
_HARMLESS: Mapping[str, tuple[Any, ...]] = {
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
    "mcp_servers": ([],),
    "thinking": ({"type": "disabled"},),
}
"""Values without effect, of parameters that otherwise change the sampling."""


_OTHER_WAYS: Mapping[str, str] = {
    "response_format": "ask for the form in the prompt, or offer a tool, and read the answer yourself",
    "reasoning_effort": "set it in the chat template by --template-option",
    "thinking": "set it in the chat template by --template-option",
    "parallel_tool_calls": "use the first call of an answer",
}
"""Ways to the same end without a parameter that is refused."""


MAX_LISTED = 10_000
"""Most messages of a request, and most calls of a message."""
MAX_STOPS = 64
"""Most texts that end an answer."""


@dataclass(frozen=True, slots=True)
class ModelQuery:
    """A request to the model."""

    messages: tuple[ChatMessage, ...]
    max_tokens: PositiveInt
    temperature: Annotated[float, Bounds(0, 2)] = 1.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    """Callable functions, in the form of `agentgym.endpoint.chat.ChatRequest.tools`."""
    tool_choice: Literal["auto", "none"] = "auto"
    """Whether calls are parsed: ``none`` leaves them in the text."""
    stream: bool = False
    stream_options: Mapping[str, Any] = field(default_factory=dict)
    logprobs: bool = False
    return_token_ids: bool = False

    def __post_init__(self) -> None:
        """Raise a UsageError where a setting is out of range, or the last message asks nothing."""
        check_fields(self)
        if not self.messages or self.messages[-1].role not in ("user", "tool"):
            raise UsageError("the last message is of a user or a tool: the model's own is not continued here")
        if "" in self.stop or len(self.stop) > MAX_STOPS:
            raise UsageError(f"a text that ends an answer is not empty, and there are at most {MAX_STOPS}")


@dataclass(frozen=True, slots=True)
class _Function:
    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})


def given(body: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
    """Return the parameters of a request that are set and named in ``read``.

    Refused are others that would change what is sampled, since a learner could not recompute it, and unknown
    ones: `UsageError`.
    """
    settings = {name: value for name, value in body.items() if value is not None and name not in _IGNORED}
    for name, value in settings.items():
        if name in read or value in _HARMLESS.get(name, ()):
            continue
        if name not in _HARMLESS:
            raise UsageError(f"the parameter {name!r:.60} is not known here: leave it out")
        way = f"; {_OTHER_WAYS[name]}" if name in _OTHER_WAYS else ""
        harmless = " or ".join(map(repr, _HARMLESS[name]))
        raise UsageError(
            f"{name} = {value!r:.60} would change what is sampled, and a learner recomputes the model's own "
            f"distribution: leave it out{f', or give {harmless}' if harmless else ''}{way}"
        )
    return {name: value for name, value in settings.items() if name in read}


def list_in(table: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list of an object, empty where it is missing or null; UsageError for anything else."""
    value = table.get(name)
    if not isinstance(value, list | None) or len(value or ()) > MAX_LISTED:
        raise UsageError(f"{name} is a list of at most {MAX_LISTED:,}, not {value!r:.60}")
    return value or []


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
            kind = table.get("type")
            raise UsageError(f"{what} has a part of the type {kind!r:.40}: only text is read here")
    return "".join(texts)


def make_tool(function: Mapping[str, Any], schema: str) -> dict[str, Any]:
    """Return a tool as chat templates take it; ``schema`` names its parameters' member."""
    members = {"name": "name", "description": "description", schema: "parameters"}
    table = {to: function[name] for name, to in members.items() if function.get(name) is not None}
    made = parse(_Function, table, "the function of a tool")
    described = {"name": made.name, "description": made.description, "parameters": made.parameters}
    return {"type": "function", "function": described}
