"""Prompts with the picture of the observation in front of the user's message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from agentgym.core.types import Request
from agentgym.errors import UsageError
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.fitting import FittedPrompt
from agentgym.prompts.pictured import PictureUse, without_text
from agentgym.training.models.pictures import PictureReader


def with_picture(
    build: Callable[[Request], FittedPrompt], chat: ChatTokenizer, reader: PictureReader, use: PictureUse
) -> Callable[[Request], FittedPrompt]:
    """Return what builds prompts with pictures.

    A picture's tokens come on top of the prompt's budget, which is of words.

    Args:
        build: makes prompts of words, one user message at their end.
        chat: what they are written with.
        reader: of the model.
        use: what of a pictured observation is told in words.
    """
    start = message_start(chat)

    def pictured(request: Request) -> FittedPrompt:
        fitted = build(without_text(request) if use == "alone" else request)
        picture = reader.of(request.observation)
        if picture is None:
            return fitted
        ids = (*fitted.ids[:start], *reader.tokens_of(picture), *fitted.ids[start:])
        return replace(fitted, ids=ids, shown=reader.prompt(ids, (picture,)))

    return pictured


def message_start(chat: ChatTokenizer) -> int:
    """Return the number of tokens before the words of a chat of one user message.

    Raises:
        UsageError: the chat template begins with the message, so that there is no place for a picture.
    """
    one, other = chat.encode_chat("a"), chat.encode_chat("b")
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    if start == 0:
        raise UsageError("the chat template has nothing before a user's message: no place for a picture")
    return start
