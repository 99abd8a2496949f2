"""Tool calls in answers, read in the convention of a model's chat template."""

from __future__ import annotations

import json
import re

from agentgym.endpoint.chat import ChatMessage, ChatToolCall
from agentgym.serving.gateway.call_tree import THOUGHT_END

_OPENING, _CLOSING = "<tool_call>", "</tool_call>"
_PYTHON_TAG = "<|python_tag|>"
_BLANKS = re.compile(r"[\s;]*")
_DECODER = json.JSONDecoder()


def parse_answer(text: str, template: str, prefix: str) -> ChatMessage:
    """Tell calls from text; what is no well-formed call stays text, and so do thoughts.

    ``template`` decides the convention: ``<tool_call>{"name": ..., "arguments": {...}}</tool_call>`` where it
    has such tags (Hermes, Qwen); else an answer that is nothing but JSON objects with ``name`` and
    ``parameters`` (Llama). Ids of calls begin with ``prefix``.

    Example:
        >>> said = 'Look.<tool_call>{"name": "look", "arguments": {}}</tool_call>'
        >>> parse_answer(said, "<tool_call>", "0").tool_calls
        (ChatToolCall(id='0_0', name='look', arguments='{}'),)
    """
    thought, end, said = text.rpartition(THOUGHT_END)
    rest, found = _tagged(said) if _OPENING in template else _bare(said)
    if not found:
        return ChatMessage("assistant", text)
    calls = tuple(ChatToolCall(f"{prefix}_{place}", *call) for place, call in enumerate(found))
    return ChatMessage("assistant", (thought + end + rest).strip(), tool_calls=calls)


def _tagged(said: str) -> tuple[str, list[tuple[str, str]]]:
    """Return what is no call, and the calls."""
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
    return "\n".join(part for part in kept if part), calls


def _bare(said: str) -> tuple[str, list[tuple[str, str]]]:
    """Return nothing but calls, or no call."""
    calls: list[tuple[str, str]] = []
    rest, end = said.strip().removeprefix(_PYTHON_TAG), 0
    while end < len(rest):
        call, end = _call(rest, end)
        if call is None:
            return said, []
        calls.append(call)
    return "", calls


def _call(text: str, begin: int) -> tuple[tuple[str, str] | None, int]:
    """Return name and arguments of the call at a place, None where there is none, and where it ends."""
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
