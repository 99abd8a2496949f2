"""Tool calls in answers, read in the convention of a model's chat template."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

from agentgym.serving.gateway.call_tree import THOUGHT_END

CallStyle: TypeAlias = Literal["tags", "json"]
"""``<tool_call>{"name": ..., "arguments": {...}}</tool_call>``, as Hermes and Qwen write calls, or an answer
that is nothing but JSON objects with ``name`` and ``parameters``, as Llama does."""

_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_PYTHON_TAG = "<|python_tag|>"
_BLANKS = re.compile(r"[\s;]*")


class ParsedAnswer(NamedTuple):
    """An answer with its calls told apart."""

    text: str
    """All that is no call."""
    calls: tuple[tuple[str, str], ...]
    """Name and arguments, which are JSON of an object."""


def call_style(template: str) -> CallStyle:
    """Return how the answers to a chat template call tools."""
    return "tags" if _OPENING in template else "json"


def parse_answer(text: str, style: CallStyle) -> ParsedAnswer:
    """Tell calls from text; what is no well-formed call stays text, and so do thoughts.

    Example:
        >>> parse_answer('Look.<tool_call>{"name": "look", "arguments": {}}</tool_call>', "tags")
        ParsedAnswer(text='Look.', calls=(('look', '{}'),))
    """
    begin = text.rfind(THOUGHT_END) + len(THOUGHT_END) if THOUGHT_END in text else 0
    thought, said = text[:begin], text[begin:]
    found = _tagged(said) if style == "tags" else _bare(said)
    return (
        ParsedAnswer(text, ())
        if not found.calls
        else ParsedAnswer((thought + found.text).strip(), found.calls)
    )


def _tagged(said: str) -> ParsedAnswer:
    kept, calls, end = [], [], 0
    begin = said.find(_OPENING)
    while begin >= 0:
        call, after = _call(said, begin + len(_OPENING))
        if call is not None and said.startswith(_CLOSING, after):
            kept.append(said[end:begin].strip())
            calls.append(call)
            end = after + len(_CLOSING)
        begin = said.find(_OPENING, max(end, begin + 1))
    kept.append(said[end:].strip())
    return ParsedAnswer("\n".join(part for part in kept if part), tuple(calls))


def _bare(said: str) -> ParsedAnswer:
    calls: list[tuple[str, str]] = []
    rest = said.strip().removeprefix(_PYTHON_TAG)
    end = 0
    while end < len(rest):
        call, end = _call(rest, end)
        if call is None:
            return ParsedAnswer(said, ())
        calls.append(call)
    return ParsedAnswer("", tuple(calls))


def _call(text: str, begin: int) -> tuple[tuple[str, str] | None, int]:
    """Return the call at a place, None where there is none, and where what follows it begins."""
    try:
        value, end = _DECODER.raw_decode(text, _after_blanks(text, begin))
        arguments = value.get("arguments", value.get("parameters")) if isinstance(value, dict) else None
        if isinstance(arguments, str):  # some models write the object as text
            arguments = _DECODER.decode(arguments)
        if isinstance(arguments, dict) and isinstance(value["name"], str) and value["name"]:
            return (value["name"], json.dumps(arguments, allow_nan=False)), _after_blanks(text, end)
    except (ValueError, KeyError, RecursionError):
        pass
    return None, begin


def _after_blanks(text: str, begin: int) -> int:
    blanks = _BLANKS.match(text, begin)
    return begin if blanks is None else blanks.end()


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


_DECODER: Any = json.JSONDecoder(parse_constant=_refuse)
