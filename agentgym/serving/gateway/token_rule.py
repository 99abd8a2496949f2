"""Token rule of the gateway: a prompt is what was sampled, and what the chat template writes in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from json import dumps, loads
from typing import Any, TypeAlias

from agentgym.endpoint.chat import ChatMessage, ChatToolCall
from agentgym.errors import UsageError
from agentgym.prompts.chat_template import REFUSALS, ChatSetup, render_conversation
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.chat_turns import render_after

FilledTemplate: TypeAlias = Callable[[Sequence[str]], str]
"""Puts texts into a template."""
MessageForm: TypeAlias = tuple[tuple[str, bool], ...]
"""Roles of messages, each with whether tools are called."""

_MARK = "agentgym-part-{}-e2f1"
"""Stands for a message's text where it is looked whether a template shows it."""


class PromptWriter:
    """Writes prompts of model calls in token ids; what messages say is text, special tokens included."""

    def __init__(self, chat: ChatTokenizer):
        """Bind a tokenizer with its chat template."""
        self.chat = chat
        self._source = chat.tokenizer.get_chat_template()
        self._special: Mapping[str, Any] = chat.tokenizer.special_tokens_map
        self._with_tools = lru_cache(maxsize=64)(self._setup)
        self._check = lru_cache(maxsize=1024)(self._check_form)

    def opening(self, messages: Sequence[ChatMessage], tools: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
        """Return the prompt of a chat whose messages are all new.

        Raises:
            UsageError: the template cannot write tools, or one of the messages.
        """
        setup = self._with_tools(dumps(tools)) if tools else self.chat.setup
        form = _form(messages)
        self._check(form, False, dumps(tools) if tools else "")
        texts = [each.text for each in messages]

        def rendered(bodies: Sequence[str]) -> str:
            return render_conversation(self._source, self._tables(messages, bodies), self._special, setup)

        return tuple(self._encoded(texts, rendered, form))

    def following(
        self, messages: Sequence[ChatMessage], last: int, calls: Sequence[ChatToolCall] = ()
    ) -> tuple[int, ...]:
        """Return the tokens from the end of a response, over messages, to where the next one begins.

        ``calls``: of the response; ``last``: its last token. Where that is the special token that ends an
        answer, it is not there twice; where the response was cut off, the token follows it. Raises as
        `opening`.
        """
        form = _form(messages)
        self._check(form, True, "")

        def rendered(bodies: Sequence[str]) -> str:
            tables = self._tables(messages, bodies, calls)
            return render_after(self._source, tables, self._special, self.chat.setup)

        ids = self._encoded([each.text for each in messages], rendered, form)
        ended = ids[0] == last and last in self.chat.tokenizer.all_special_ids
        return tuple(ids[1:] if ended else ids)

    # ---- inside ----------------------------------------------------------------------------

    def _setup(self, tools: str) -> ChatSetup:
        setup = replace(self.chat.setup, tools=tuple(loads(self.chat.parted(tools))))
        if not setup.taken_by(self._source, self._special).tools:
            raise UsageError(
                "the model's chat template writes no tools: leave out 'tools', or serve a model whose "
                "template does"
            )
        return setup

    def _check_form(self, form: MessageForm, after: bool, tools: str) -> None:
        """Refuse messages that the template does not show, tried out with marks instead of their texts."""
        marks = [_MARK.format(place) for place in range(len(form))]
        chat = [
            {"role": role, "content": mark}
            | ({"tool_calls": [_call_table(f"call{mark[-6:]}", mark, {})]} if calls else {})
            | ({"tool_call_id": "call00000", "name": "tool"} if role == "tool" else {})
            for (role, calls), mark in zip(form, marks, strict=True)
        ]

        def rendered(_: Sequence[str]) -> str:
            if after:
                return render_after(self._source, chat, self._special, self.chat.setup)
            setup = self._with_tools(tools) if tools else self.chat.setup
            return render_conversation(self._source, chat, self._special, setup)

        text, end = self._refusing(rendered, (), form), 0
        for (role, _), mark in zip(form, marks, strict=True):
            end = text.find(mark, end)
            if end < 0:
                raise UsageError(_unwritten(form, f"it leaves out a message of the role {role!r}"))

    def _encoded(self, texts: Sequence[str], rendered: FilledTemplate, form: MessageForm) -> list[int]:
        return self.chat.encode_rendered(texts, lambda bodies: self._refusing(rendered, bodies, form))

    def _refusing(self, rendered: FilledTemplate, bodies: Sequence[str], form: MessageForm) -> str:
        try:
            return str(rendered(bodies))
        except REFUSALS as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UsageError(_unwritten(form, reason)) from error

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
                table["tool_calls"] = [
                    _call_table(call.id, call.name, self._arguments(call.arguments))
                    for call in message.tool_calls
                ]
            if message.role == "tool":
                table |= {"tool_call_id": message.tool_call_id}
                table |= {"name": names.get(message.tool_call_id, "")}
            tables.append(table)
        return tables

    def _arguments(self, arguments: str) -> Any:
        text = self.chat.parted(arguments)
        try:
            return loads(text)
        except (ValueError, RecursionError):
            return text


def _call_table(id: str, name: str, arguments: Any) -> dict[str, Any]:
    return {"type": "function", "id": id, "function": {"name": name, "arguments": arguments}}


def _form(messages: Sequence[ChatMessage]) -> MessageForm:
    return tuple((each.role, bool(each.tool_calls)) for each in messages)


def _unwritten(form: MessageForm, reason: str) -> str:
    roles = ", ".join(role for role, _ in form[:8]) + (", ..." if len(form) > 8 else "")
    return f"the model's chat template cannot write these messages ({roles}): {reason}"
