"""Chat tokenizer: a tokenizer of `transformers` with its chat template, exact to the token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Self

import jinja2

from agentgym.core.tools import Tool
from agentgym.core.types import Message
from agentgym.errors import UsageError
from agentgym.prompts.chat_template import ChatSetup, ChatTemplate
from agentgym.prompts.tool_trip import ToolTrip, round_trip
from agentgym.reading.conventions import thoughts

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


@dataclass(frozen=True, slots=True)
class ChatTokenizer:
    """A tokenizer of `transformers` as prompts, choices and policies use one: exact, and nothing added."""

    tokenizer: PreTrainedTokenizerBase
    setup: ChatSetup = field(default_factory=ChatSetup)
    """Setup of the chat template, beside the user's message."""

    @property
    def template(self) -> ChatTemplate:
        """The tokenizer's chat template."""
        return ChatTemplate.of(self.tokenizer)

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a piece of text, without special tokens around it."""
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        if backend is None or backend.truncation is not None or backend.padding is not None:
            return list(self.tokenizer.encode(text, add_special_tokens=False))
        # the last step of `encode`, without the places in the text, which take a quarter of the time
        backend.encode_special_tokens = False
        return list(backend.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of token ids, special tokens and blanks as they are."""
        # the last step of `decode`, which looks at the type of every id first and so takes longer
        return str(self.tokenizer._decode(list(ids), clean_up_tokenization_spaces=False))

    def encode_chat(self, message: str) -> list[int]:
        """Return the token ids of a chat of one user message, up to where the answer begins.

        What the message says is text. A special token that it spells, such as one that ends a message, is
        encoded letter by letter, so that a page or passage cannot end the message and begin another.
        """
        return self.encode_conversation((Message("user", message),))

    def encode_conversation(self, messages: Sequence[Message]) -> list[int]:
        """Return the token ids of a chat that a user's message ends, up to where the answer begins.

        What earlier answers say is written as the chat template does, which may leave their thoughts out;
        and it is text, as what the user says.
        """
        heads = self._left_out(messages)
        return self.encode_rendered(
            [each.text[len(head) :] for each, head in zip(messages, heads, strict=True)],
            lambda texts: self._render(
                [Message(m.role, head + text) for m, head, text in zip(messages, heads, texts, strict=True)]
            ),
        )

    def _left_out(self, messages: Sequence[Message]) -> list[str]:
        """Return thoughts that answers begin with and the template leaves out, each by its longest line.

        It is looked for where an answer spells special tokens, which would be parted all over it.
        """
        heads = ["" for _ in messages]
        spelled = [m.role == "assistant" and self.parted(m.text) != m.text for m in messages]
        shown = self._render(messages) if any(spelled) else ""
        for place, message in enumerate(messages):
            for kind in thoughts() if spelled[place] else ():
                before, end, _ = message.text.rpartition(kind.end)
                label = max(before.rpartition(kind.begin)[2].splitlines(), key=len, default="").strip()
                if label and label not in shown:
                    heads[place] = before + end
        return heads

    def check_window(self) -> None:
        """Refuse a chat template that writes no earlier answers with thoughts, marked as it marks them.

        Raises:
            UsageError: it is one.
        """
        for kind in thoughts():
            if kind.marked and kind.begin in self.template.source:
                reply = Message("assistant", f"{kind.begin}{kind.label}a{kind.end}{kind.after}a")
                self._render([Message("user", "a"), reply, Message("user", "a")])

    def encode_next(self, message: str, prefix: Sequence[int]) -> list[int]:
        """Return the tokens from the end of a response to where the next one begins.

        Args:
            message: the user's message between them; it is text, as in `encode_chat`.
            prefix: tokens that end with the response, as for `following`.

        Raises:
            UsageError: the chat template writes no chat of several turns.
        """
        template = self.template
        ids = self.encode_rendered([message], lambda texts: template.render_next(texts[0], self.setup))
        return self.following(prefix, ids)

    def following(self, prefix: Sequence[int], ids: Sequence[int]) -> list[int]:
        """Return what a template writes from the end of a response on, without what ends that already.

        Args:
            prefix: tokens that end with the response. The special tokens that end the assistant's message,
                one or two, are not there twice, nor blanks before them; where the response was cut off, they
                follow it.
            ids: token ids that the template writes.
        """
        ends: list[int] = []
        begin = 0
        for place, token in enumerate(ids, 1):
            if self.ends_alone(token):
                ends.append(token)
                begin = place if [*prefix[-len(ends) :]] == ends else begin
            elif self.decode([token]).strip():
                break
        return list(ids[begin:])

    def ends_alone(self, token: int) -> bool:
        """Return whether a token is special, such as one that ends answers: no text spells it."""
        tokenizer = self.tokenizer
        added = tokenizer.added_tokens_decoder.get(token)
        return token in tokenizer.all_special_ids or (added is not None and bool(added.special))

    def encode_rendered(self, bodies: Sequence[str], rendered: Callable[[Sequence[str]], str]) -> list[int]:
        """Return the token ids of texts within a template; special tokens in them are encoded as text.

        Args:
            bodies: the texts, in their order.
            rendered: puts them, or others in their place, into the template.
        """
        spelled = [
            token for token in _special_tokens(self.tokenizer) if any(token in body for body in bodies)
        ]
        text = rendered(bodies)
        if not spelled:
            return self.encode(text)
        pieces, end = [], len(text)
        for body in map(str.strip, reversed(bodies)):  # templates trim
            begin = text.rfind(body, 0, end)
            if begin < 0:  # the template changes what it is given: a blank parts the tokens
                return self.encode(rendered([_parted(body, spelled) for body in bodies]))
            pieces += [text[begin + len(body) : end], body]
            end = begin
        ids = self.encode(text[:end])
        for body, after in zip(pieces[::-2], pieces[-2::-2], strict=True):
            ids += self.tokenizer.encode(body, add_special_tokens=False, split_special_tokens=True)
            ids += self.encode(after)
        return ids

    def parted(self, text: str) -> str:
        """Return a text in which a blank parts each special token that it spells."""
        return _parted(text, _special_tokens(self.tokenizer))

    def _render(self, messages: Sequence[Message]) -> str:
        template = self.template
        try:
            text = template.render(messages, self.setup)
            begun = _with_thoughts_begun(messages, text)
            return text if begun == messages else template.render(begun, self.setup)
        except jinja2.TemplateError as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise UsageError(
                f"the chat template does not write this chat ({reason}): use the context 'append'"
            ) from error

    def tool_trip(self, tools: Sequence[Tool]) -> ToolTrip:
        """Return what comes back of the calls that the chat template writes of tools."""
        return round_trip(self.template, tools, self.setup.options)

    def set_up(self, setup: ChatSetup) -> Self:
        """Return the tokenizer with the part of a setup that its chat template has a place for.

        Raises:
            UsageError: the template never reads one of the options.
        """
        return replace(self, setup=setup.taken_by(self.template))


def _with_thoughts_begun(messages: Sequence[Message], prompt: str) -> Sequence[Message]:
    """Return messages whose answers have again the mark that begins thoughts, where prompts end with it."""
    kind = next((each for each in thoughts() if each.marked and prompt.rstrip().endswith(each.begin)), None)
    if kind is None:
        return messages
    begin = prompt[prompt.rindex(kind.begin) :]
    lost = [m.role == "assistant" and kind.end in m.text and kind.begin not in m.text for m in messages]
    return [replace(m, text=begin + m.text) if each else m for m, each in zip(messages, lost, strict=True)]


def _parted(text: str, tokens: Sequence[str]) -> str:
    for token in tokens:
        text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


@lru_cache(maxsize=8)
def _special_tokens(tokenizer: PreTrainedTokenizerBase) -> tuple[str, ...]:
    """Return the texts of the tokens that structure a chat."""
    added = tokenizer.added_tokens_decoder.values()
    return tuple({*tokenizer.all_special_tokens, *(token.content for token in added if token.special)})
