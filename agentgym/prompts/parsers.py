r"""What a response of a language model says: its thought and its actions.

Four formats, each a writer and a reader that undoes it:

* ``think-action``: ``<think>...</think>``, then one ``<action>...</action>``;
* ``analysis-calls``: ``<analysis>...</analysis>``, then one or more ``<tool_call>JSON</tool_call>``;
* ``json-call``: one JSON object ``{"name": TOOL, "arguments": {...}}``, alone, in a code fence or in
  ``<tool_call>`` tags;
* ``plain``: nothing but the action.

A call of the tool ``act`` with the argument ``action`` is that action. A call of any other tool with
one string is the action ``name[string]``, as a template such as ``search[<query>]`` is filled.

A response is never repaired into an action that it does not state in full: an unclosed tag is what a
length limit leaves behind, and half an action may be another one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agentgym.env import MAX_ACTION_LENGTH
from agentgym.errors import UsageError, nearest

ACT = "act"
"""The tool whose argument ``action`` is the action, word for word."""

_INK = re.compile(r"\S")
_WRAPPINGS = (("<tool_call>", "</tool_call>"), ("```json", "```"), ("```", "```"))
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Answer:
    """What was read from a response."""

    thought: str
    """The reasoning; empty where there is none or the format has no place for it."""
    actions: tuple[str, ...]
    """Without blanks around them; empty where none could be read."""
    problem: str
    """One line on how the response departs from the format; empty where it keeps to it.

    A response without the asked-for thought has a problem and actions nevertheless.
    """

    @property
    def action(self) -> str:
        """What is sent to the environment: the actions, one a line.

        Empty where none could be read. Environments without parallel actions accept neither that nor
        more than one line, so that a bad answer costs its step.
        """
        return "\n".join(self.actions)


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """A way of answering.

    Example:
        >>> answer = FORMATS["think-action"].parse("<think>A box!</think> <action>up</action>")
        >>> answer.thought, answer.action, answer.problem
        ('A box!', 'up', '')
        >>> FORMATS["plain"].write("A box!", ["up"])
        'up'
    """

    name: str
    thinks: bool
    """Whether there is a place for the thought."""
    several: bool
    """Whether there is a place for more than one action."""
    writer: Callable[[str, Sequence[str]], str]
    """Lays out a thought and actions."""
    reader: Callable[[str], Answer]
    """Reads what the writer laid out; raises `_UnreadableError` on what it cannot read."""

    def parse(self, text: str) -> Answer:
        """Read a response. Any text has an answer: what is wrong with it is in `Answer.problem`."""
        try:
            answer = self.reader(text)
            if not all(answer.actions):
                raise _UnreadableError("an empty action")
            answer.action.encode()
        except _UnreadableError as error:
            return Answer("", (), str(error))
        except UnicodeEncodeError:
            return Answer("", (), "half a surrogate pair in the action")
        return answer

    def write(self, thought: str, actions: Sequence[str]) -> str:
        """Write the response that says this, such as an expert's for a model to learn from.

        Args:
            thought: left out where the format has no place for it.
            actions: at least one; exactly one where the format has no place for several.

        Raises:
            UsageError: `parse` would read something else, for example because an action holds a
                closing tag or has blanks around it.
        """
        text = self.writer(thought, actions)
        expected = Answer(thought.strip() if self.thinks else "", tuple(actions), "")
        if (self.several or len(actions) == 1) and self.parse(text) == expected:
            return text
        raise UsageError(
            f"the format {self.name!r} cannot state the actions {list(actions)!r:.200}: "
            f"give {'one or more' if self.several else 'one'}, without blanks around or tags within"
        )


class _UnreadableError(Exception):
    """No action can be read; the message says why."""


def format_of(name: str) -> AnswerFormat:
    """Return a format by name.

    Raises:
        UsageError: there is none of this name.
    """
    if name not in FORMATS:
        hint = nearest(name, FORMATS)
        raise UsageError(f"unknown answer format {name!r}{hint}; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def settle(action: str, admissible_actions: Sequence[str]) -> str:
    """Return the admissible action that differs from ``action`` in case and blanks alone.

    Where none does, or more than one, the action stays as it is, for the environment to judge.

    Example:
        >>> settle("Go to  Shelf 1", ("go to shelf 1", "look"))
        'go to shelf 1'
    """
    if action in admissible_actions or len(action) > MAX_ACTION_LENGTH:
        return action
    folded = _fold(action)
    alike = [admissible for admissible in admissible_actions if _fold(admissible) == folded]
    return alike[0] if len(alike) == 1 else action


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()


# ---- think-action ------------------------------------------------------------------------------


def _write_think_action(thought: str, actions: Sequence[str]) -> str:
    tags = "".join(f"<action>{action}</action>" for action in actions)
    return f"<think>\n{thought}\n</think>\n{tags}"


def _read_think_action(text: str) -> Answer:
    thought, rest, problem = _split_thought(text, "think")
    actions: list[str] = []
    begin = rest.find("<action>")
    while begin >= 0:
        begin += len("<action>")
        end = rest.find("</action>", begin)
        if end < 0:
            raise _UnreadableError("an <action> that is not closed")
        action = rest[begin:end].strip()
        if action not in actions:
            actions.append(action)
        if len(actions) > 1:
            raise _UnreadableError("different actions where one is asked for")
        begin = rest.find("<action>", end)
    if not actions:
        raise _UnreadableError("no <action>...</action> after the thought")
    return Answer(thought, tuple(actions), problem)


def _split_thought(text: str, tag: str) -> tuple[str, str, str]:
    """Return the thought, what comes after it, and a problem.

    The thought ends at the last closing tag, so that what it quotes is not taken for an answer. Its
    opening tag may be missing: some chat templates end with it.
    """
    opening, closing = f"<{tag}>", f"</{tag}>"
    head, closed, rest = text.rpartition(closing)
    if not closed:
        if opening in text:
            raise _UnreadableError(f"a {opening} that is not closed")
        return "", text, f"no {opening}...{closing}"
    before, opened, thought = head.partition(opening)
    return (thought if opened else before).strip(), rest, ""


# ---- calls of tools ----------------------------------------------------------------------------


def _write_analysis_calls(thought: str, actions: Sequence[str]) -> str:
    calls = "".join(f"\n<tool_call>{_call(action)}</tool_call>" for action in actions)
    return f"<analysis>\n{thought}\n</analysis>{calls}"


def _read_analysis_calls(text: str) -> Answer:
    thought, rest, problem = _split_thought(text, "analysis")
    actions: list[str] = []
    begin = rest.find("<tool_call>")
    while begin >= 0:
        call, end = _decode(rest, begin + len("<tool_call>"))
        if not rest.startswith("</tool_call>", end):
            raise _UnreadableError("a <tool_call> that is not closed after its JSON object")
        actions.append(_action_of(call))
        begin = rest.find("<tool_call>", end)
    if not actions:
        raise _UnreadableError("no <tool_call>...</tool_call> after the analysis")
    return Answer(thought, tuple(actions), problem)


def _write_json_call(_: str, actions: Sequence[str]) -> str:
    return "\n".join(_call(action) for action in actions)


def _read_json_call(text: str) -> Answer:
    text = text.strip()
    for opening, closing in _WRAPPINGS:
        if text.startswith(opening) and text.endswith(closing) and len(text) >= len(opening + closing):
            text = text[len(opening) : len(text) - len(closing)]
            break
    call, end = _decode(text, 0)
    if end != len(text):
        raise _UnreadableError("more than one JSON object")
    return Answer("", (_action_of(call),), "")


def _call(action: str) -> str:
    return json.dumps({"name": ACT, "arguments": {"action": action}}, ensure_ascii=False)


def _decode(text: str, begin: int) -> tuple[Any, int]:
    """Return the JSON value at ``begin``, and where what follows it and its blanks begins."""
    try:
        value, end = _DECODER.raw_decode(text, _end_of_blanks(text, begin))
    except (ValueError, RecursionError) as error:  # of syntax or a number's length; of nesting
        raise _UnreadableError("a tool call that is not JSON") from error
    return value, _end_of_blanks(text, end)


def _end_of_blanks(text: str, begin: int) -> int:
    ink = _INK.search(text, begin)
    return ink.start() if ink else len(text)


def _action_of(call: Any) -> str:
    """Return the action that a decoded call stands for."""
    name = call.get("name") if isinstance(call, dict) else None
    if not isinstance(name, str):
        raise _UnreadableError("a tool call without a name")
    arguments = call.get("arguments")
    if isinstance(arguments, str):  # some servers hand the object on as text
        arguments, _ = _decode(arguments, 0)
    if not isinstance(arguments, dict) or len(arguments) != 1:
        raise _UnreadableError("a tool call without exactly one argument")
    ((key, value),) = arguments.items()
    if not isinstance(value, str):
        raise _UnreadableError("a tool call whose argument is not a string")
    if name != ACT:
        return f"{name}[{value}]"
    if key != "action":
        raise _UnreadableError(f"a call of {ACT} without the argument 'action'")
    return value.strip()


# ---- plain -------------------------------------------------------------------------------------


def _write_plain(_: str, actions: Sequence[str]) -> str:
    return "\n".join(actions)


def _read_plain(text: str) -> Answer:
    return Answer("", (text.strip(),), "")


FORMATS: Mapping[str, AnswerFormat] = {
    entry.name: entry
    for entry in (
        AnswerFormat("think-action", True, False, _write_think_action, _read_think_action),
        AnswerFormat("analysis-calls", True, True, _write_analysis_calls, _read_analysis_calls),
        AnswerFormat("json-call", False, False, _write_json_call, _read_json_call),
        AnswerFormat("plain", False, False, _write_plain, _read_plain),
    )
}
"""By name."""
