"""Token rule of the gateway: a prompt is the sampled tokens with the chat template's text between them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, lru_cache
from json import dumps, loads
from typing import Any, TypeAlias

from agentgym.core.tools import Tool, ToolParameter
from agentgym.endpoint.chat import ChatMessage, ChatRole, ChatToolCall
from agentgym.errors import UsageError
from agentgym.io.untrusted import whole_text
from agentgym.prompts.chat_template import REFUSALS, ChatSetup
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.reading import UnreadableError, fitted, read_text

MessageForm: TypeAlias = tuple[tuple[ChatRole, bool], ...]
"""Roles of messages, each with whether tools are called."""

_MARK = "agentgym-part-{}-e2f1"
"""Placeholder for a message's text, to test whether a template shows it."""


_LOGGER = logging.getLogger(__name__)

_TRIED = (
    Tool("look", "Look around.", template="look"),
    Tool("find", "Find a text.", (ToolParameter("text"), ToolParameter("most", "integer")), "{text} {most}"),
)
"""Tools of the test whether calls that a template writes can be parsed."""


class PromptWriter:
    """Writer of prompts in token ids; special tokens within messages are treated as text."""

    def __init__(self, chat: ChatTokenizer):
        """Bind a tokenizer with its chat template."""
        self.chat = chat
        self.template = chat.template
        self._setup = lru_cache(maxsize=64)(self._make_setup)
        self._check = lru_cache(maxsize=256)(self._check_form)

    @cached_property
    def _longest(self) -> int:
        """Characters of the longest token."""
        return max(map(len, self.chat.tokenizer.get_vocab()))

    def least_tokens(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]) -> int:
        """Return a number of tokens that messages and tools have at least, without looking at their texts."""
        calls = [call for each in messages for call in each.tool_calls]
        texts = [*(each.text for each in messages), *(call.name + call.arguments for call in calls)]
        return sum(map(len, [dumps(tools, ensure_ascii=False), *texts])) // self._longest

    def opening(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Return the prompt of a chat whose messages are all new."""
        return tuple(self._encoded(messages, dumps(tools)))

    def following(
        self, messages: Sequence[ChatMessage], ids: Sequence[int], calls: Sequence[ChatToolCall] = ()
    ) -> tuple[int, ...]:
        """Return the tokens from the end of a response, over messages, to where the next one begins.

        ``ids``: the response's tokens, as for `ChatTokenizer.following`; ``calls``: those in it. Raises as
        `opening`.
        """
        return tuple(self.chat.following(ids, self._encoded(messages, None, calls)))

    def answer(self, text: str, tools: Sequence[Mapping[str, Any]], prefix: str) -> ChatMessage:
        """Return an answer with its calls parsed, ids after ``prefix``; one that cannot be parsed stays text.

        Thoughts stay in the text.
        """
        schemas = {each["function"]["name"]: each["function"].get("parameters") or {} for each in tools}
        reading = read_text(text, schemas)
        made, problem = [], reading.problem
        try:
            made = [(call.name, fitted(call, schemas.get(call.name, {}))[0]) for call in reading.calls]
        except UnreadableError as error:
            problem = str(error)
        if problem:
            _LOGGER.warning("an answer with a call that cannot be read stays text: %s", problem)
        calls = tuple(
            ChatToolCall(f"{prefix}_{place}", name, dumps(arguments, allow_nan=False))
            for place, (name, arguments) in enumerate(made)
        )
        return ChatMessage("assistant", reading.outside if calls else text, tool_calls=calls)

    def _encoded(
        self, messages: Sequence[ChatMessage], tools: str | None, calls: Sequence[ChatToolCall] = ()
    ) -> list[int]:
        """Return the tokens of messages; ``tools``: JSON, None for messages that come after an answer."""
        self._check(tuple((each.role, bool(each.tool_calls)) for each in messages), tools)
        return self.chat.encode_rendered(
            [each.text for each in messages],
            lambda bodies: self._rendered(self._tables(messages, bodies, calls), tools),
        )

    def _check_form(self, form: MessageForm, tools: str | None) -> None:
        """Refuse messages that the template does not show, tried out with marks instead of their texts."""
        marks = [_MARK.format(place) for place in range(len(form))]
        messages = [
            ChatMessage(
                role,
                mark,
                tool_calls=(ChatToolCall("call00000", mark, "{}"),) if calls else (),
                tool_call_id="call00000" if role == "tool" else "",
            )
            for (role, calls), mark in zip(form, marks, strict=True)
        ]
        tables = self._tables(messages, marks)
        text, end = self._rendered(tables, tools), 0
        for message, mark in zip(messages, marks, strict=True):
            end = text.find(mark, end)
            if end < 0:
                raise _unwritten(tables, f"it leaves out a message of the role {message.role!r}")

    def _rendered(self, tables: Sequence[Mapping[str, Any]], tools: str | None) -> str:
        render = self.template.render_after if tools is None else self.template.render
        try:
            # arguments of tool calls may spell halves of surrogate pairs, which no tokenizer reads
            return whole_text(render(tables, self._setup(tools or "[]")))
        except UsageError:
            raise
        except REFUSALS as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise _unwritten(tables, reason) from error

    def _make_setup(self, tools: str) -> ChatSetup:
        setup = replace(self.chat.setup, tools=tuple(loads(self.chat.parted(tools))))
        if setup.tools and not setup.taken_by(self.template).tools:
            raise UsageError(
                "the model's chat template writes no tools: leave out 'tools', or serve a model whose "
                "template does"
            )
        if setup.tools and (problem := self.chat.tool_trip(_TRIED).problem):
            raise UsageError(f"the model's chat template writes tools, but {problem}: leave out 'tools'")
        return setup

    def _tables(
        self, messages: Sequence[ChatMessage], bodies: Sequence[str], calls: Sequence[ChatToolCall] = ()
    ) -> list[dict[str, Any]]:
        """Return messages as templates take them; special tokens in tool calls are parted by a blank."""
        names = {call.id: call.name for call in calls}
        tables = []
        for message, body in zip(messages, bodies, strict=True):
            table: dict[str, Any] = {"role": message.role, "content": body}
            if message.tool_calls:
                names |= {call.id: call.name for call in message.tool_calls}
                table["tool_calls"] = [self._call_table(call) for call in message.tool_calls]
            if message.role == "tool":
                table |= {"tool_call_id": message.tool_call_id}
                table |= {"name": names.get(message.tool_call_id, "")}
            tables.append(table)
        return tables

    def _call_table(self, call: ChatToolCall) -> dict[str, Any]:
        arguments: Any = self.chat.parted(call.arguments)
        with suppress(ValueError, RecursionError):
            arguments = loads(arguments)
        return {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": arguments}}


def _unwritten(tables: Sequence[Mapping[str, Any]], reason: str) -> UsageError:
    roles = ", ".join(table["role"] for table in tables[:8]) + (", ..." if len(tables) > 8 else "")
    return UsageError(f"the model's chat template cannot write these messages ({roles}): {reason}")
