r"""Parsers of a language model's response: its thought and its actions.

Six formats, each a writer and a reader that undoes it:

* ``think-action``: ``<think>...</think>``, then one ``<action>...</action>``;
* ``tool-calls``: ``<think>...</think>`` or none, then one or more ``<tool_call>JSON</tool_call>``; thoughts
  and calls in the conventions of other model families are read as well (`agentgym.reading`);
* ``analysis-calls``: ``<analysis>...</analysis>``, then the same;
* ``json-call``: one JSON object ``{"name": TOOL, "arguments": {...}}``, alone, in a code fence or in
  ``<tool_call>`` tags;
* ``search-r1``: ``<think>...</think>``, then one ``<search>...</search>`` or ``<answer>...</answer>``;
* ``plain``: nothing but the action.

Calls are checked against the environment's tools (`agentgym.core.tools`), each of which says which action a
call of it is. Where a tool ``answer`` takes a text, ``<answer>...</answer>`` is a call of it. The formats
``analysis-calls`` and ``json-call`` also work without tools: a call of ``act`` with the argument ``action``
is then that action, and a call of any other name with one string the action ``name[string]``.

A response is never repaired into an action that it does not state in full: an unclosed tag is what a
length limit leaves behind, and half an action may be another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentgym.core.options import check_choice
from agentgym.core.tools import ACT
from agentgym.env import MAX_ACTION_LENGTH
from agentgym.prompts.formats.answer import Answer, AnswerFormat
from agentgym.prompts.formats.calls import (
    read_analysis_calls,
    read_json_call,
    read_tool_calls,
    write_analysis_calls,
    write_json_call,
    write_tool_calls,
)
from agentgym.prompts.formats.tags import (
    ANSWER,
    SEARCH,
    read_plain,
    read_search_r1,
    read_think_action,
    write_plain,
    write_search_r1,
    write_think_action,
)

__all__ = ["FORMATS", "Answer", "AnswerFormat", "format_of", "settle", "settle_answer"]

FORMATS: Mapping[str, AnswerFormat] = {
    entry.name: entry
    for entry in (
        AnswerFormat("think-action", True, False, write_think_action, read_think_action),
        AnswerFormat("tool-calls", True, True, write_tool_calls, read_tool_calls, tools=(ACT,)),
        AnswerFormat("analysis-calls", True, True, write_analysis_calls, read_analysis_calls),
        AnswerFormat("json-call", False, False, write_json_call, read_json_call),
        AnswerFormat(
            "search-r1",
            True,
            False,
            write_search_r1,
            read_search_r1,
            tools=(SEARCH, ANSWER),
            needs=(SEARCH.name, ANSWER.name),
        ),
        AnswerFormat("plain", False, False, write_plain, read_plain),
    )
}
"""Answer formats by name."""


def format_of(name: str) -> AnswerFormat:
    """Return a format by name.

    Raises:
        UsageError: there is none of this name.
    """
    check_choice("answer format", name, FORMATS)
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


def settle_answer(answer: Answer, admissible_actions: Sequence[str]) -> Answer:
    """Return an answer whose action is spelled as `settle` does."""
    settled = settle(answer.action, admissible_actions)
    return answer if settled == answer.action else replace(answer, actions=(settled,))


def _fold(text: str) -> str:
    return " ".join(text.split()).casefold()
