"""Turns of a chat: what a chat template writes between one answer and the next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentgym.core.types import Message
from agentgym.errors import UsageError
from agentgym.prompts.chat_template import REFUSALS, ChatSetup, render_conversation

_QUESTION = "?"
_ANSWER = "agentgym-answer-7f3a"
"""What is said in a chat that shows what a template writes after an answer."""

_ONE_TURN = (
    "the chat template writes no chat of several turns: use the context 'rebuilt' or 'summarised', or put "
    "another chat_template.jinja into the model directory"
)


def render_next(source: str, message: str, special_tokens: Mapping[str, Any], setup: ChatSetup) -> str:
    """Return what a template writes between an answer and the next one.

    Args:
        source: the chat template.
        message: what the user says between the two.
        special_tokens: of the tokenizer, by name.
        setup: system message, tools and options.

    Raises:
        UsageError: the template writes no chat of several turns.
    """
    try:
        after = render_after(source, [Message("user", message)], special_tokens, setup)
    except REFUSALS as error:
        raise UsageError(f"{_ONE_TURN} ({error})") from error
    if not after or message.strip() not in after:
        raise UsageError(_ONE_TURN)
    return after


def render_after(
    source: str,
    messages: Sequence[Message | Mapping[str, Any]],
    special_tokens: Mapping[str, Any],
    setup: ChatSetup,
) -> str:
    """Return what a template writes from the end of an answer, over messages, to where the next one begins.

    Arguments as those of `agentgym.prompts.chat_template.render_conversation`, and what that raises; or an
    empty text where the template shows no answers.
    """
    chat = (Message("user", _QUESTION), Message("assistant", _ANSWER), *messages)
    return render_conversation(source, chat, special_tokens, setup).partition(_ANSWER)[2]
