"""Answers between tags of their own: ``<action>``, or Search-R1's ``<search>`` and ``<answer>``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from agentgym.core.tools import Tool, ToolCall, ToolCallError, ToolParameter, action_of, call_of
from agentgym.errors import UsageError
from agentgym.prompts.formats.answer import (
    Answer,
    AnswerFormat,
    split_thought,
)
from agentgym.reading.syntaxes import UnreadableError
from agentgym.reading.text import split_thought as split_thought_marks

SEARCH = Tool("search", "Search for passages.", (ToolParameter("query"),))
ANSWER = Tool("answer", "Answer the question.", (ToolParameter("text"),))

_TAG_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_SEARCH_OR_ANSWER = re.compile(r"<(search|answer)>")


# ---- think-action ------------------------------------------------------------------------------


def write_think_action(thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
    """Write ``<think>...</think><action>...</action>``."""
    tags = "".join(f"<action>{action}</action>" for action in actions)
    return f"<think>\n{thought}\n</think>\n{tags}"


def read_think_action(text: str, tools: tuple[Tool, ...]) -> Answer:
    """Read what `write_think_action` writes; the same action may be there twice."""
    thought, rest, problem = split_thought(text, "think")
    actions: list[str] = []
    begin = rest.find("<action>")
    while begin >= 0:
        begin += len("<action>")
        end = rest.find("</action>", begin)
        if end < 0:
            raise UnreadableError("an <action> that is not closed")
        action = rest[begin:end].strip()
        if action not in actions:
            actions.append(action)
        if len(actions) > 1:
            raise UnreadableError("different actions where one is asked for")
        begin = rest.find("<action>", end)
    if not actions:
        raise UnreadableError("no <action>...</action> after the thought")
    return Answer(thought, tuple(actions), problem)


# ---- search-r1 ---------------------------------------------------------------------------------


def write_search_r1(thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
    """Write ``<think>...</think>``, then one ``<search>...</search>`` or ``<answer>...</answer>``."""
    named = [tool for tool in tools if tool.name in (SEARCH.name, ANSWER.name)]
    tags = []
    for action in actions:
        call = call_of(named, action)
        if call is None:
            raise UnreadableError(f"{action!r:.80} is no call of {SEARCH.name} or {ANSWER.name}")
        tags.append(f"<{call.name}>{''.join(call.arguments.values())}</{call.name}>")
    return f"<think>\n{thought}\n</think>\n" + "\n".join(tags)


def read_search_r1(text: str, tools: tuple[Tool, ...]) -> Answer:
    """Read one tag: its first closing tag ends the action, and a second tag makes it no action."""
    thought, rest, problem = split_thought(text, "think", first=True)
    found = _SEARCH_OR_ANSWER.search(rest)
    if found is None:
        raise UnreadableError("no <search>...</search> or <answer>...</answer> after the thought")
    another = _SEARCH_OR_ANSWER.search(rest, found.end())
    if another is not None:
        twice = another[1] == found[1]
        raise UnreadableError(f"more than one <{found[1]}>" if twice else "both <search> and <answer>")
    content, closed, _ = rest[found.end() :].partition(f"</{found[1]}>")
    if not closed:
        raise UnreadableError(f"a <{found[1]}> that is not closed")
    return Answer(thought, (_tagged_action(found[1], content.strip(), tools),), problem)


def _tagged_action(name: str, text: str, tools: tuple[Tool, ...]) -> str:
    if not text:
        raise UnreadableError(f"an empty <{name}>")
    (parameter,) = next(tool.parameters for tool in tools if tool.name == name)
    try:
        return action_of(tools, ToolCall(name, {parameter.name: text}))
    except ToolCallError as error:
        raise UnreadableError(str(error)) from error


# ---- tags of one's own -------------------------------------------------------------------------


def tag_format(action_tag: str, thought_tag: str = "") -> AnswerFormat:
    """Return a format of one action between tags of any name, after a thought between others.

    The action is what stands between the first opening tag and the first closing one after it. A thought
    that is asked for and missing, or not closed before the action, is a problem, the action stands.

    Args:
        action_tag: name of the tag, without angle brackets.
        thought_tag: name of the thought's tag; empty for an answer without a thought.

    Raises:
        UsageError: a name is no name.

    Example:
        >>> tag_format("move").parse("Well: <move> up </move>").action
        'up'
    """
    for tag in (action_tag, *([thought_tag] if thought_tag else [])):
        if not _TAG_NAME.fullmatch(tag):
            raise UsageError(f"{tag!r} is no name of a tag: use letters, digits, - and _")

    def write(thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
        tagged = "".join(f"<{action_tag}>{action}</{action_tag}>" for action in actions)
        return f"<{thought_tag}>\n{thought}\n</{thought_tag}>\n{tagged}" if thought_tag else tagged

    def read(text: str, tools: tuple[Tool, ...]) -> Answer:
        before, opened, rest = text.partition(f"<{action_tag}>")
        action, closed, _ = rest.partition(f"</{action_tag}>")
        if not opened:
            raise UnreadableError(f"no <{action_tag}>...</{action_tag}>")
        if not closed:
            raise UnreadableError(f"an <{action_tag}> that is not closed")
        if not thought_tag:
            return Answer("", (action.strip(),), "")
        head, ended, _ = before.rpartition(f"</{thought_tag}>")
        thought = head.partition(f"<{thought_tag}>")[2] if f"<{thought_tag}>" in head else head
        problem = "" if ended else f"no <{thought_tag}>...</{thought_tag}> before the action"
        return Answer(thought.strip(), (action.strip(),), problem)

    return AnswerFormat("tags", bool(thought_tag), False, write, read)


# ---- plain -------------------------------------------------------------------------------------


def write_plain(thought: str, actions: Sequence[str], tools: tuple[Tool, ...]) -> str:
    """Write the action and nothing else."""
    return "\n".join(actions)


def read_plain(text: str, tools: tuple[Tool, ...]) -> Answer:
    """Read the whole response as the action, but for a thought that it begins with."""
    return Answer("", (split_thought_marks(text)[1].strip(),), "")
