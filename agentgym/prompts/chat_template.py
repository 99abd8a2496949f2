"""Chat templates of model directories: what they are handed, what of it they show, and rendering."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import jinja2

from agentgym.core.types import Message
from agentgym.errors import UsageError, nearest
from agentgym.prompts.template_sandbox import TemplateLimitError, read_variables, render_template

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class ChatSetup:
    """Setup of a chat template, beside the user's message."""

    system: str = ""
    """The system message; empty for none."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """JSON schemas of functions, as `agentgym.core.tools.Tool.schema`; empty for none."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Further variables of the template, such as ``enable_thinking``."""

    def taken_by(self, template: ChatTemplate) -> ChatSetup:
        """Return the part that a template has a place for.

        A system message or tools that it refuses, or renders a chat without, are left out of the result: they
        belong into the user's message.

        Raises:
            UsageError: the template never reads one of the options, or takes too much.
        """
        try:
            return self._taken_by(template)
        except TemplateLimitError as error:
            raise UsageError(f"the chat template is not rendered: {error}") from error

    def _taken_by(self, template: ChatTemplate) -> ChatSetup:
        known = option_names(template.source) if self.options else frozenset()
        for name in self.options:
            if name not in known:
                raise UsageError(
                    f"the chat template reads no option {name!r}{nearest(name, known)}; "
                    f"its options: {', '.join(sorted(known)) or 'none'}"
                )
        taken = replace(self, system="", tools=())
        if self.system and _shows(template, replace(taken, system=self.system), [self.system]):
            taken = replace(taken, system=self.system)
        names = [str(tool["function"]["name"]) for tool in self.tools]
        if self.tools and _shows(template, replace(taken, tools=self.tools), names):
            taken = replace(taken, tools=self.tools)
        return taken


NO_OPTIONS = frozenset(("messages", "tools", "documents", "add_generation_prompt"))
"""Variables of every chat template, which are no options."""

_ANSWER = "agentgym-answer-7f3a"
"""Answer in a sample chat, which shows the text that a template writes after an answer."""

_ONE_TURN = (
    "the chat template writes no chat of several turns: use the context 'rebuilt' or 'summarised', or put "
    "another chat_template.jinja into the model directory"
)

REFUSALS = (jinja2.TemplateError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Errors of a template that takes no system message, or no tools."""


def option_names(source: str) -> frozenset[str]:
    """Return the variables that a chat template reads and that its caller sets."""
    return frozenset(name for name in read_variables(source) - NO_OPTIONS if not name.endswith("_token"))


def _shows(template: ChatTemplate, setup: ChatSetup, expected: Iterable[str]) -> bool:
    """Return whether a template renders what it is handed: the chat differs, and holds what is expected."""
    shown = []
    for tried in (setup, replace(setup, system="", tools=())):
        try:
            shown.append(template.render((Message("user", "?"),), tried))
        except TemplateLimitError:
            raise
        except REFUSALS:
            shown.append("")  # some templates are for chats with tools alone
    text, without = shown
    return text not in ("", without) and all(part.strip() in text for part in expected)


@lru_cache(maxsize=16)
def _takes_parts(source: str) -> bool:
    """Return whether a template shows what a user says only in a list of parts, as where pictures come."""
    shown = []
    for content in ("agentgym-part", [{"type": "text", "text": "agentgym-part"}]):
        values = {"messages": [{"role": "user", "content": content}], "bos_token": "", "eos_token": ""}
        try:
            shown.append("agentgym-part" in render_template(source, values))
        except TemplateLimitError:
            raise
        except REFUSALS:
            shown.append(False)
    return shown == [False, True]


@dataclass(frozen=True, slots=True)
class ChatTemplate:
    """A chat template with the special tokens of its tokenizer."""

    source: str
    special: Mapping[str, Any] = field(default_factory=dict)
    """Special tokens by name."""

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> ChatTemplate:
        """Return the template of a tokenizer."""
        return cls(tokenizer.get_chat_template(), tokenizer.special_tokens_map)

    def render(self, messages: Sequence[Message | Mapping[str, Any]], setup: ChatSetup = ChatSetup()) -> str:
        """Return a chat up to where the next answer begins.

        ``messages``: the user's and the assistant's in turn, the user's first and last; or tables for
        templates. ``setup``: a system message before them, tools and options.

        Raises:
            Exception: any exception of the template; a `TemplateLimitError` where it takes too much.
        """
        leading = [Message("system", setup.system)] if setup.system else []
        chat = [
            m if isinstance(m, Mapping) else {"role": m.role, "content": m.text}
            for m in (*leading, *messages)
        ]
        values = {**setup.options, **self.special, "messages": chat, "tools": list(setup.tools) or None}
        values |= {"documents": None, "add_generation_prompt": True}
        if _takes_parts(self.source):
            values["messages"] = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in chat]
        return render_template(self.source, values)

    def render_after(self, messages: Sequence[Message | Mapping[str, Any]], setup: ChatSetup) -> str:
        """Return the text after an answer, over messages, up to where the next answer begins.

        Empty where the template shows no answers; arguments and errors as `render`.
        """
        chat = (Message("user", "?"), Message("assistant", _ANSWER), *messages)
        return self.render(chat, setup).partition(_ANSWER)[2]

    def render_next(self, message: str, setup: ChatSetup) -> str:
        """Return the text between an answer and the next one, where the user says a message.

        Raises:
            UsageError: the template writes no chat of several turns.
        """
        try:
            after = self.render_after([Message("user", message)], setup)
        except REFUSALS as error:
            raise UsageError(f"{_ONE_TURN} ({error})") from error
        if not after or message.strip() not in after:
            raise UsageError(_ONE_TURN)
        return after
