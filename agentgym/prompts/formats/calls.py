"""Answers that call tools with JSON objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from agentgym.core.tools import ACT, Tool, ToolCall, ToolCallError, action_of, call_of
from agentgym.prompts.formats.answer import Answer, UnreadableError, split_first_thought, split_thought
from agentgym.prompts.formats.tags import ANSWER

_INK = re.compile(r"\S")
_WRAPPINGS = (("<tool_call>", "</tool_call>"), ("```json", "```"), ("```", "```"))
_CALL = re.compile("<tool_call>")
_CALL_OR_ANSWER = re.compile("<tool_call>|<answer>")
_TAG = re.compile("</?(?:think|analysis|tool_call|answer)>")


# ---- formats -----------------------------------------------------------------------------------


def write_tool_calls(thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
    """Write ``<think>...</think>`` where there is a thought, then a ``<tool_call>`` for each action."""
    calls = "\n".join(_tagged(action, tools) for action in actions)
    return f"<think>\n{thought}\n</think>\n{calls}" if thought.strip() else calls


def read_tool_calls(text: str, tools: tuple[Tool, ...]) -> Answer:
    """Read calls after a thought, which may be missing."""
    thought, rest, _ = split_first_thought(text, "think")
    return Answer(thought, _actions(text, rest, tools, "thought"), "")


def write_analysis_calls(thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
    """Write ``<analysis>...</analysis>``, then a ``<tool_call>`` for each action."""
    calls = "".join(f"\n{_tagged(action, tools)}" for action in actions)
    return f"<analysis>\n{thought}\n</analysis>{calls}"


def read_analysis_calls(text: str, tools: tuple[Tool, ...]) -> Answer:
    """Read calls after an analysis."""
    thought, rest, problem = split_thought(text, "analysis")
    return Answer(thought, _actions(text, rest, tools, "analysis"), problem)


def write_json_call(thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
    """Write one JSON object."""
    return "\n".join(_dumped(_call_of(action, tools)) for action in actions)


def read_json_call(text: str, tools: tuple[Tool, ...]) -> Answer:
    """Read one JSON object: alone, in a code fence or in tags."""
    text = text.strip()
    for opening, closing in _WRAPPINGS:
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening + closing):
            text = text[len(opening) : len(text) - len(closing)]
            break
    call, end = _decode(text, 0, tools)
    if end != len(text):
        raise UnreadableError("more than one JSON object")
    return Answer("", (_action_of(call, tools),), "")


# ---- writing -----------------------------------------------------------------------------------


def _call_of(action: str, tools: tuple[Tool, ...]) -> ToolCall:
    call = call_of(tools or (ACT,), action)
    if call is None:
        raise UnreadableError(f"{action!r:.80} is no call of {', '.join(tool.name for tool in tools)}")
    return call


def _tagged(action: str, tools: tuple[Tool, ...]) -> str:
    dumped = _dumped(_call_of(action, tools))
    if tools and _TAG.search(dumped):  # such a query would end the thought or the call
        dumped = dumped.replace("<", "\\u003c")
    return f"<tool_call>{dumped}</tool_call>"


def _dumped(call: ToolCall) -> str:
    return json.dumps({"name": call.name, "arguments": dict(call.arguments)}, ensure_ascii=False)


# ---- reading -----------------------------------------------------------------------------------


def _actions(text: str, rest: str, tools: tuple[Tool, ...], after: str) -> tuple[str, ...]:
    """Return the actions that are called for after a thought.

    Args:
        text: the whole response.
        rest: what comes after the thought.
        tools: what may be called; empty for anything with one string.
        after: what the thought is called.
    """
    alone = {tool.name for tool in tools if not tool.parallel}
    actions: list[str] = []
    single = ""
    for call in _calls(rest, tools):
        actions.append(_action_of(call, tools))
        if tools and call["name"] in alone:
            single = call["name"]
        if single and len(actions) > 1:
            raise UnreadableError(f"a call of {single} beside another, which stands alone")
    if actions:
        return tuple(actions)
    for tool in tools:
        if tool.untagged and text.strip():
            return (_checked(ToolCall(tool.name, {tool.parameters[0].name: text.strip()}), tools),)
    raise UnreadableError(f"no <tool_call>...</tool_call> after the {after}")


def _calls(rest: str, tools: tuple[Tool, ...]) -> Iterator[Any]:
    """Yield the decoded calls of a response, and what stands between answer tags as a call."""
    answer = next((tool for tool in tools if tool.name == ANSWER.name and tool.takes_text), None)
    tags = _CALL if answer is None else _CALL_OR_ANSWER
    found = tags.search(rest)
    while found is not None:
        if found[0] == "<tool_call>":
            call, end = _decode(rest, found.end(), tools)
            if not rest.startswith("</tool_call>", end):
                raise UnreadableError("a <tool_call> that is not closed after its JSON object")
            yield call
        else:
            assert answer is not None  # only then is the tag looked for
            end = rest.find("</answer>", found.end())
            if end < 0:
                raise UnreadableError("an <answer> that is not closed")
            said = rest[found.end() : end].strip()
            if not said:
                raise UnreadableError("an empty <answer>")
            yield {"name": answer.name, "arguments": {answer.parameters[0].name: said}}
        found = tags.search(rest, end)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object, none of whose keys is there twice: which value was meant, nobody knows."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise UnreadableError("a tool call that gives a key twice")
    return found


_DECODER = json.JSONDecoder()
_STRICT = json.JSONDecoder(object_pairs_hook=_once)


def _decode(text: str, begin: int, tools: tuple[Tool, ...]) -> tuple[Any, int]:
    """Return the JSON value at ``begin``, and where what follows it and its blanks begins."""
    try:
        value, end = (_STRICT if tools else _DECODER).raw_decode(text, _end_of_blanks(text, begin))
    except (ValueError, RecursionError) as error:  # of syntax or a number's length; of nesting
        raise UnreadableError("a tool call that is not JSON") from error
    return value, _end_of_blanks(text, end)


def _end_of_blanks(text: str, begin: int) -> int:
    ink = _INK.search(text, begin)
    return ink.start() if ink else len(text)


def _named(call: Any, tools: tuple[Tool, ...]) -> ToolCall:
    """Return a decoded call whose arguments are an object."""
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(name, str):
        raise UnreadableError("a tool call without a name")
    arguments = call.get("arguments", {})
    if isinstance(arguments, str):  # some servers hand the object on as text
        arguments, _ = _decode(arguments, 0, tools)
    if not isinstance(arguments, dict):
        raise UnreadableError("a tool call whose arguments are no JSON object")
    return ToolCall(name, arguments)


def _checked(call: ToolCall, tools: tuple[Tool, ...]) -> str:
    try:
        return action_of(tools, call).strip()
    except ToolCallError as error:
        raise UnreadableError(str(error)) from error


def _action_of(call: Any, tools: tuple[Tool, ...]) -> str:
    """Return the action that a decoded call stands for; without tools, of any name and one string."""
    if tools:
        return _checked(_named(call, tools), tools)
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(name, str):
        raise UnreadableError("a tool call without a name")
    arguments = call.get("arguments")
    if isinstance(arguments, str):
        arguments, _ = _decode(arguments, 0, tools)
    if not isinstance(arguments, dict) or len(arguments) != 1:
        raise UnreadableError("a tool call without exactly one argument")
    ((key, value),) = arguments.items()
    if not isinstance(value, str):
        raise UnreadableError("a tool call whose argument is not a string")
    if name != ACT.name:
        return f"{name}[{value}]"
    if key != "action":
        raise UnreadableError(f"a call of {ACT.name} without the argument 'action'")
    return value.strip()
