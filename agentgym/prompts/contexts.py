"""Contexts: the part of an episode's past that a model is sent, and its form.

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
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from agentgym.core.options import NonNegativeInt, PositiveInt
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
"""Part of the past that a prompt shows, and its form."""


@runtime_checkable
class ConversationTokenizer(PromptTokenizer, Protocol):
    """The part of a tokenizer that chats of several turns need."""

    def encode(self, text: str) -> Sequence[int]:
        """Return the token ids of a piece of text, without special tokens around it."""

    def encode_conversation(self, messages: Sequence[Message]) -> Sequence[int]:
        """Return the token ids of a chat that a user's message ends, up to where the answer begins."""

    def encode_next(self, message: str, prefix: Sequence[int]) -> Sequence[int]:
        """Return the tokens from the end of a response to where the next one begins.

        Args:
            message: the user's message between them.
            prefix: tokens that end with the response, perhaps with what ends its message.
        """


@dataclass(frozen=True, slots=True)
class PromptSettings:
    """The part of `agentgym.prompts.budget.PromptBuilder` that contexts need."""

    template: PromptTemplate
    tokenizer: PromptTokenizer
    budget: PositiveInt
    """Largest number of tokens in a prompt."""
    history: NonNegativeInt = 2
    """Past turns told, k, where they fit."""
    before: tuple[Message, ...] = ()
    """Messages for the chat template beside a prompt, for `FittedPrompt.before`."""


def rebuilt(builder: PromptSettings, request: Request) -> FittedPrompt:
    """Return one message that tells the last k turns, or what the wording tells instead."""
    slots = builder.template.fields(request, history=builder.history)
    return fit(builder.template, slots, builder.tokenizer, builder.budget)


def summarised(builder: PromptSettings, request: Request) -> FittedPrompt:
    """Return one message that tells the last k turns, and what the turns before them come to.

    Where that does not fit, the oldest of the k turns go into the summary, then its oldest lines go.
    """
    slots = PromptFields.of(request, history=builder.history)
    steps, shown_turns = request.history, len(slots.recent)

    def lines_of(shown: int) -> int:
        return len(summary_lines(steps[: len(steps) - shown], _seen_after(request, shown)))

    def attempt(left_out: int, cut: int) -> FittedPrompt:
        shown = max(shown_turns - left_out, 0)
        lines = summary_lines(steps[: len(steps) - shown], _seen_after(request, shown))
        summarised = lines[max(left_out - shown_turns, 0) :]
        # turns that stand neither in a line nor in an exchange
        missing = len(steps) - shown if not summarised else summarised[0].first - 1
        recent = slots.recent[len(slots.recent) - shown :]
        fields = replace(slots, recent=recent, summary=render_summary(summarised))
        text = render_whole(builder.template, fields, omitted=missing, cut=cut)
        ids = tuple(builder.tokenizer.encode_chat(text))
        return FittedPrompt(Prompt(text, shown, missing, cut), ids)

    return fit_attempts(attempt, builder.template.id, slots, shown_turns + lines_of(0), builder.budget)


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
        shown_fields = [*turns, now]
        shown_fields[0] = replace(shown_fields[0], task=now.task)
        alone = len(shown_fields) == 1
        texts = [render_opening(builder.template, shown_fields[0], omitted=first, cut=cut if alone else 0)]
        texts += [render_present(builder.template, fields) for fields in shown_fields[1:-1]]
        texts += [] if alone else [render_present(builder.template, now, cut=cut)]
        earlier: list[Message] = []
        for text, step in zip(texts[:-1], request.history[first:], strict=True):
            earlier += [Message("user", text), Message("assistant", _reply_text(builder, step.completion))]
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
        latest = history[begin].completion
        ids = latest.prompt_ids + latest.response_ids
        reply_message = (Message("assistant", latest.text),)
        messages = (*latest.messages[len(builder.before) :], *reply_message) if latest.messages else ()
    for number, step in enumerate(history[begin + 1 :], start=begin + 1):
        if not (step.completion.text or step.action):
            continue  # nothing was admissible, so the model was not called
        fields, reply = PromptFields.of_step(step, number), _reply_text(builder, step.completion)
        if ids:
            text = render_present(builder.template, fields)
            ids += tuple(tokenizer.encode_next(text, ids))
        else:
            text = render_opening(builder.template, replace(fields, task=task))
            ids = tuple(tokenizer.encode_chat(text))
        ids += tuple(tokenizer.encode(reply))
        messages += (Message("user", text), Message("assistant", reply))
    return ids, messages


def _reply_text(builder: PromptSettings, completion: Completion) -> str:
    """Return a response as text; of another policy, its action in the answer's format where that can be."""
    return completion.text or builder.template.answer.written(completion.action)


def _conversations(builder: PromptSettings) -> ConversationTokenizer:
    assert isinstance(builder.tokenizer, ConversationTokenizer)  # the builder's constructor checks it
    return builder.tokenizer


CONTEXTS: Mapping[Context, Callable[[PromptSettings, Request], FittedPrompt]] = {
    "rebuilt": rebuilt,
    "append": append,
    "window": window,
    "summarised": summarised,
}
"""Makers of a request's prompt, by name of the context."""

CHATS: frozenset[Context] = frozenset(("append", "window"))
"""Contexts of several messages."""
