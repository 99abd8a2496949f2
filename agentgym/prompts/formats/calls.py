"""Answers that call tools; `agentgym.reading` finds the calls in them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from agentgym.core.tools import ACT, Tool, ToolCall, ToolCallError, action_of, call_of
from agentgym.prompts.formats.answer import Answer, split_thought
from agentgym.prompts.formats.tags import ANSWER
from agentgym.reading import RawCall, UnreadableError, fitted, read_text
from agentgym.reading.fitting import arguments_of
from agentgym.reading.syntaxes import Between, call_of_table, decode

_WRAPPINGS = (("<tool_call>", "</tool_call>"), ("```json", "```"), ("```", "```"))
_TAG = re.compile("</?(?:think|analysis|tool_call|answer)>")


# ---- formats -----------------------------------------------------------------------------------


def write_tool_calls(thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
    """Write ``<think>...</think>`` where there is a thought, then a ``<tool_call>`` for each action."""
    calls = "\n".join(_tagged(action, tools) for action in actions)
    return f"<think>\n{thought}\n</think>\n{calls}" if thought.strip() else calls


def read_tool_calls(text: str, tools: tuple[Tool, ...]) -> Answer:
    """Read calls after a thought, which may be missing, in any convention of model families."""
    return _read(text, text, tools, "thought")


def write_analysis_calls(thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
    """Write ``<analysis>...</analysis>``, then a ``<tool_call>`` for each action."""
    calls = "".join(f"\n{_tagged(action, tools)}" for action in actions)
    return f"<analysis>\n{thought}\n</analysis>{calls}"


def read_analysis_calls(text: str, tools: tuple[Tool, ...]) -> Answer:
    """Read calls after an analysis."""
    thought, rest, problem = split_thought(text, "analysis")
    answer = _read(rest, text, tools, "analysis")
    return Answer(thought, answer.actions, problem or answer.problem)


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
    value, end = decode(text)
    if end != len(text):
        raise UnreadableError("more than one JSON object")
    action, note = action_of_raw_call(call_of_table(value), tools)
    return Answer("", (action,), note)


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


def _read(text: str, whole: str, tools: tuple[Tool, ...], after: str) -> Answer:
    """Read a response, or what follows its analysis, whose name is ``after``.

    ``whole``: the response, which stands for a call of a tool that needs no tags.
    """
    answer = next((tool for tool in tools if tool.name == ANSWER.name and tool.takes_text), None)
    names = [tool.name for tool in tools]
    reading = read_text(text, names, answer_tags=answer is not None, thinks=after == "thought")
    if reading.problem:
        raise UnreadableError(reading.problem)
    alone = {tool.name for tool in tools if not tool.parallel}
    if len(reading.calls) > 1 and not alone.isdisjoint(call.name for call in reading.calls):
        action, _ = action_of_raw_call(reading.calls[0], tools)
        return Answer(
            reading.thought, (action,), f"{len(reading.calls)} calls where one is asked for: the first"
        )
    read = [action_of_raw_call(call, tools) for call in reading.calls]
    if read:
        notes = "; ".join(note for _, note in read if note)
        return Answer(reading.thought, tuple(action for action, _ in read), notes)
    for tool in tools:
        if tool.untagged and whole.strip():
            call = ToolCall(tool.name, {tool.parameters[0].name: whole.strip()})
            return Answer(reading.thought, (_checked(call, tools),), "")
    raise UnreadableError(f"no <tool_call>...</tool_call> after the {after}")


def action_of_raw_call(call: RawCall, tools: tuple[Tool, ...]) -> tuple[str, str]:
    """Return the action that a call is, and a note; without tools, of any name and one string.

    Raises:
        UnreadableError: it is of no such tool, or its arguments do not fit.
    """
    for tool in tools:
        if tool.name == call.name:
            if isinstance(call.arguments, Between):
                argument = call.arguments.strip()
                if not argument:
                    raise UnreadableError(f"an empty <{call.name}>")
                return _checked(ToolCall(call.name, {tool.parameters[0].name: argument}), tools), ""
            arguments, notes = fitted(call, tool.schema()["function"]["parameters"])
            return _checked(ToolCall(call.name, arguments), tools), "; ".join(notes)
    if tools:
        return _checked(ToolCall(call.name, {}), tools), ""
    arguments, note = arguments_of(call)
    if len(arguments) != 1:
        raise UnreadableError("a tool call without exactly one argument")
    ((key, value),) = arguments.items()
    if not isinstance(value, str):
        raise UnreadableError("a tool call whose argument is not a string")
    if call.name != ACT.name:
        return f"{call.name}[{value}]", note
    if key != "action":
        raise UnreadableError(f"a call of {ACT.name} without the argument 'action'")
    return value.strip(), note


def _checked(call: ToolCall, tools: tuple[Tool, ...]) -> str:
    try:
        return action_of(tools, call).strip()
    except ToolCallError as error:
        raise UnreadableError(str(error)) from error
