"""The dialect ``chat``: lists of messages in OpenAI's form, whose calls are the actions.

A record is a list of messages, or an object with ``messages`` and, where known, ``task``, ``score`` and
``success``. The last user's message before the first call is the first observation; messages of the role
``tool`` are the observations after each call. An assistant's text beside its calls is not played.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from agentgym.core.tools import Tool
from agentgym.errors import UsageError
from agentgym.evaluation.imports.inspect import LISTED, message_text
from agentgym.evaluation.imports.logs import LoggedEpisode, LoggedStep, one_line, parse_episode, same_text
from agentgym.io.untrusted import read_json_records
from agentgym.prompts.formats.calls import action_of_raw_call
from agentgym.reading import RawCall, UnreadableError, read_message

_STATED = ("task", "score", "success")


class _Prompt(str):
    """A message with words around the observation."""

    __slots__ = ()


def read(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read conversations with calls of the suite's tools; UsageError names the record that has others."""
    records = read_json_records(path)
    if records and all(isinstance(value, dict) and "role" in value for _, value in records):
        records = [(str(path), [value for _, value in records])]  # one conversation, a message per record
    return tuple(_episode(value, where, tools) for where, value in records)


def agrees(theirs: str, ours: str) -> bool:
    """Compare observations: a prompt has to show ours, and a tool's message to be it."""
    if isinstance(theirs, _Prompt):
        return one_line(ours) in one_line(theirs)
    return same_text(theirs.partition(LISTED)[0], ours)


def _episode(record: Any, where: str, tools: Sequence[Tool]) -> LoggedEpisode:
    table = {"messages": record} if isinstance(record, list) else record
    try:
        messages = table["messages"]
        steps = tuple(_steps(messages, tools))
        if not steps:
            raise UsageError(f"{where} holds no tool call: write it in the form jsonl, see docs/imports.md")
        first = next(place for place, each in enumerate(messages) if _calls(each, tools))
        prompts = [_Prompt(message_text(each)) for each in messages[:first] if each["role"] == "user"]
        stated = {name: table[name] for name in _STATED if name in table}
    except UnreadableError as error:
        raise UsageError(f"{where}: {error}; is it of the environment that was named?") from error
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise UsageError(
            f"{where} is not a list of OpenAI's chat messages: {type(error).__name__} {error}"
        ) from error
    episode = parse_episode({**stated, "steps": []}, where)
    return LoggedEpisode(
        where, steps, episode.task, prompts[-1] if prompts else None, episode.score, episode.success
    )


def _steps(messages: Sequence[Mapping[str, Any]], tools: Sequence[Tool]) -> Iterator[LoggedStep]:
    parallel = {tool.name for tool in tools if tool.parallel}
    for place, message in enumerate(messages, start=1):
        if not (calls := _calls(message, tools)):
            continue
        results = list(takewhile(lambda each: each["role"] == "tool", messages[place:]))
        named = {each["tool_call_id"]: each for each in results if each.get("tool_call_id")}
        seen = [named.get(call.id, each) for call, each in zip(calls, results, strict=False)]
        actions = [action_of_raw_call(call, tuple(tools))[0] for call in calls]
        if len(calls) > 1 and all(call.name in parallel for call in calls):
            yield LoggedStep("\n".join(actions))  # one action, whose observation is divided among the results
            continue
        for number, action in enumerate(actions):
            yield LoggedStep(action, message_text(seen[number]) if number < len(seen) else None)


def _calls(message: Mapping[str, Any], tools: Sequence[Tool]) -> Sequence[RawCall]:
    """Return the calls of an assistant's message, from its fields or its text."""
    if message["role"] != "assistant":
        return ()
    reading = read_message(message, [tool.name for tool in tools])
    if reading.problem:
        raise UnreadableError(reading.problem)
    return reading.calls
