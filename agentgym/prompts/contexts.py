"""Contexts: what of an episode's past a model is sent, and in which form.

======================  =========================================================================
``rebuilt``             one user message, made anew at every turn, which tells the last k turns
``summarised``          the same, and before these k turns a summary of all earlier ones
``window``              a chat of the last k turns, made anew at every turn
``append``              a chat that only grows: the tokens of a turn's prompt and response, exactly as
                        they were, are what the next prompt begins with
======================  =========================================================================

A context is a function of the request alone, whose history holds what was sampled: an episode that is
restored to an earlier state and continued from there has the prompts of an episode that never went elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from agentgym.core.types import Completion, Message, Request
from agentgym.prompts.fields import PromptFields
from agentgym.prompts.fitting import (
    FittedPrompt,
    PromptTokenizer,
    PromptTooLongError,
    fit,
    fit_attempts,
)
from agentgym.prompts.rendering import Prompt, PromptTemplate, render_opening, render_present, render_whole
from agentgym.prompts.summary import render_summary, summary_lines

Context: TypeAlias = Literal["rebuilt", "append", "window", "summarised"]
"""What of the past a prompt holds, and in which form."""


@runtime_checkable
class ConversationTokenizer(PromptTokenizer, Protocol):
    """The part of a tokenizer that chats of several turns need."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the token ids of a piece of text, without special tokens around it."""

    def encode_conversation(self, messages: Sequence[Message]) -> Sequence[int]:
        """Return the token ids of a chat that a user's message ends, up to where the answer begins."""

    def encode_next(self, message: str, said: Sequence[int]) -> Sequence[int]:
        """Return the tokens from the end of a response to where the next one begins.

        Args:
            message: what the user says between them.
            said: tokens that end with the response, perhaps with what ends its message.
        """


class PromptSettings(Protocol):
    """The part of `agentgym.prompts.budget.PromptBuilder` that contexts need."""

    @property
    def template(self) -> PromptTemplate:
        """The words."""

    @property
    def tokenizer(self) -> PromptTokenizer:
        """Writes and counts."""

    @property
    def budget(self) -> int:
        """Most tokens of a prompt."""

    @property
    def history(self) -> int:
        """Past turns told, k."""

    @property
    def before(self) -> tuple[Message, ...]:
        """What the chat template is handed beside a prompt."""


def rebuilt(builder: PromptSettings, request: Request) -> FittedPrompt:
    """Return one message that tells the last k turns, or what the wording tells instead."""
    slots = builder.template.fields(request, history=builder.history)
    return fit(builder.template, slots, builder.tokenizer, builder.budget)


def summarised(builder: PromptSettings, request: Request) -> FittedPrompt:
    """Return one message that tells the last k turns, and what the turns before them come to.

    Where that does not fit, the oldest of the k turns go into the summary, then its oldest lines go.
    """
    slots = PromptFields.of(request, history=builder.history)
    steps, told = request.history, len(slots.recent)

    def lines_of(shown: int) -> int:
        return len(summary_lines(steps[: len(steps) - shown], _seen_after(request, shown)))

    def attempt(left_out: int, cut: int) -> FittedPrompt:
        shown = max(told - left_out, 0)
        lines = summary_lines(steps[: len(steps) - shown], _seen_after(request, shown))
        kept = lines[max(left_out - told, 0) :]
        # turns that neither a line nor an exchange tells
        missing = len(steps) - shown if not kept else kept[0].first - 1
        recent = slots.recent[len(slots.recent) - shown :]
        fields = replace(slots, recent=recent, summary=render_summary(kept))
        text = render_whole(builder.template, fields, omitted=missing, cut=cut)
        ids = tuple(builder.tokenizer.encode_chat(text))
        return FittedPrompt(Prompt(text, shown, missing, cut), ids)

    return fit_attempts(attempt, builder.template.id, slots, told + lines_of(0), builder.budget)


def _seen_after(request: Request, shown: int) -> object:
    """Return what the turns before the last ``shown`` led to."""
    return request.history[len(request.history) - shown].observation if shown else request.observation


def window(builder: PromptSettings, request: Request) -> FittedPrompt:
    """Return a chat of the last k turns, as the chat template writes it; where it is long, the oldest go."""
    tokenizer = _conversations(builder)
    now = PromptFields.of(request, history=0)
    past = min(builder.history, len(request.history))

    def attempt(dropped: int, cut: int) -> FittedPrompt:
        first = len(request.history) - past + dropped
        turns = [PromptFields.of_step(step, number) for number, step in enumerate(request.history)][first:]
        told = [*turns, now]
        told[0] = replace(told[0], task=now.task)
        alone = len(told) == 1
        texts = [render_opening(builder.template, told[0], omitted=first, cut=cut if alone else 0)]
        texts += [render_present(builder.template, fields) for fields in told[1:-1]]
        texts += [] if alone else [render_present(builder.template, now, cut=cut)]
        earlier: list[Message] = []
        for text, step in zip(texts[:-1], request.history[first:], strict=True):
            earlier += [Message("user", text), Message("assistant", _said(builder, step.completion))]
        ids = tokenizer.encode_conversation([*earlier, Message("user", texts[-1])])
        return FittedPrompt(Prompt(texts[-1], len(turns), first, cut), tuple(ids), earlier=tuple(earlier))

    return fit_attempts(attempt, builder.template.id, now, past, builder.budget)


def append(builder: PromptSettings, request: Request) -> FittedPrompt:
    """Return the chat so far, token for token as it was, and one message more.

    Turns without tokens, which another policy played, are written as this one would have had them.

    Raises:
        PromptTooLongError: the chat has outgrown the budget, which nothing is cut from.
    """
    tokenizer = _conversations(builder)
    now = PromptFields.of(request, history=0)
    ids, earlier = _so_far(builder, tokenizer, request, now.task)
    if not ids:
        return fit(builder.template, now, tokenizer, builder.budget)
    prompt = Prompt(render_present(builder.template, now), len(request.history), 0, 0)
    ids = (*ids, *tokenizer.encode_next(prompt.text, ids))
    if len(ids) > builder.budget:
        raise PromptTooLongError(
            f"the chat has {len(ids):,} tokens after {request.turn} turns, but the budget of prompts is "
            f"{builder.budget:,}: raise it, or use another context than 'append'"
        )
    return FittedPrompt(prompt, ids, earlier=earlier)


def _so_far(
    builder: PromptSettings, tokenizer: ConversationTokenizer, request: Request, task: str
) -> tuple[tuple[int, ...], tuple[Message, ...]]:
    """Return the tokens and the messages of a chat up to its last response; nothing before the first."""
    ids: tuple[int, ...] = ()
    messages: tuple[Message, ...] = ()
    history = request.history
    begin = max((n for n, step in enumerate(history) if step.completion.prompt_ids), default=-1)
    if begin >= 0:
        kept = history[begin].completion
        ids = kept.prompt_ids + kept.response_ids
        said = (Message("assistant", kept.text),)
        messages = (*kept.messages[len(builder.before) :], *said) if kept.messages else ()
    for number, step in enumerate(history[begin + 1 :], start=begin + 1):
        if not (step.completion.text or step.action):
            continue  # nothing was admissible, and nobody was asked
        fields, reply = PromptFields.of_step(step, number), _said(builder, step.completion)
        if ids:
            text = render_present(builder.template, fields)
            ids += tuple(tokenizer.encode_next(text, ids))
        else:
            text = render_opening(builder.template, replace(fields, task=task))
            ids = tuple(tokenizer.encode_chat(text))
        ids += tuple(tokenizer.encode(reply))
        messages += (Message("user", text), Message("assistant", reply))
    return ids, messages


def _said(builder: PromptSettings, completion: Completion) -> str:
    """Return a response as text; of another policy, its action in the answer's format where that can be."""
    return completion.text or builder.template.answer.written(completion.action)


def _conversations(builder: PromptSettings) -> ConversationTokenizer:
    assert isinstance(builder.tokenizer, ConversationTokenizer)  # the builder's constructor sees to it
    return builder.tokenizer


CONTEXTS: Mapping[Context, Callable[[PromptSettings, Request], FittedPrompt]] = {
    "rebuilt": rebuilt,
    "append": append,
    "window": window,
    "summarised": summarised,
}
"""What makes a prompt of a request, by name."""

CHATS: frozenset[Context] = frozenset(("append", "window"))
"""Contexts of several messages."""
