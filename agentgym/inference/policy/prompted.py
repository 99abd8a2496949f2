"""Policies from prompt settings (`agentgym.prompts.settings`), a language model and an engine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import takewhile

from agentgym.agents.table import refuse_slots
from agentgym.core.types import Request
from agentgym.errors import UsageError
from agentgym.inference.engines.choices import ActionSpeller
from agentgym.inference.engines.types import Engine, Sampling
from agentgym.inference.models.language_model import LanguageModel
from agentgym.inference.models.pictures import PictureReader
from agentgym.inference.policy.policy import AsyncLanguageModelPolicy, LanguageModelPolicy
from agentgym.prompts.budget import PromptBuilder
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.fitting import FittedPrompt
from agentgym.prompts.pictured import PictureUse, without_text
from agentgym.prompts.settings import Prompting
from agentgym.vector.core import AgentVectorEnv


def make_policy(
    prompting: Prompting,
    language_model: LanguageModel,
    engine: Engine,
    envs: AgentVectorEnv,
    *,
    speller: ActionSpeller | None = None,
    keep_messages: bool = False,
    asynchronous: bool = False,
) -> LanguageModelPolicy:
    """Return the policy of a model that is prompted by settings; only ``engine`` samples.

    A learner may share ``speller``. With ``keep_messages`` completions hold the text of their prompts.
    With ``asynchronous`` the policy also has ``submit``, so that rollouts ask about each episode alone.
    """
    constrained = prompting.choice == "constrained"
    room = 1 if constrained else prompting.max_tokens
    if prompting.budget + room > engine.context_length:
        raise UsageError(
            f"prompts of {prompting.budget:,} tokens and responses of {room:,} do not fit the context of "
            f"{engine.context_length:,}: lower the budget{'' if constrained else ' or max_tokens'}"
        )
    refuse_slots(envs.prototype, {"choice": prompting.choice})
    builder = prompting.builder(language_model.chat, envs.prototype.tools)
    kind = AsyncLanguageModelPolicy if asynchronous else LanguageModelPolicy
    return kind(
        engine,
        language_model.chat,
        prompt_maker(prompting, builder, language_model),
        keep_messages=keep_messages,
        sampling=Sampling(
            temperature=prompting.temperature,
            max_tokens=prompting.max_tokens,
            stop_ids=language_model.stop_ids,
        ),
        speller=(speller or make_speller(prompting, language_model)) if constrained else None,
        read=None if constrained else builder.parse,
        action_kind=envs.prototype.action_kind,
    )


def make_speller(prompting: Prompting, language_model: LanguageModel) -> ActionSpeller | None:
    """Return the speller of actions for a constrained choice; None for free responses."""
    if prompting.choice == "free":
        return None
    end = language_model.tokenizer.eos_token_id
    if end is None:
        raise UsageError("the tokenizer has no eos_token, which ends actions that begin another one: set it")
    assert isinstance(end, int)
    return ActionSpeller(language_model.chat, end=end)


def prompt_maker(
    prompting: Prompting, builder: PromptBuilder, language_model: LanguageModel
) -> Callable[[Request], FittedPrompt]:
    """Return the function from requests to prompts, with pictures where the settings show them."""
    if prompting.pictures == "none":
        return builder.build
    if language_model.pictures is None:
        raise UsageError(
            f"a model of type {language_model.model.config.model_type!r} reads no pictures: set "
            "prompting.pictures to 'none', or choose a vision-language model"
        )
    chat = builder.tokenizer
    assert isinstance(chat, ChatTokenizer)
    return with_picture(builder.build, chat, language_model.pictures, prompting.pictures)


def with_picture(
    build: Callable[[Request], FittedPrompt], chat: ChatTokenizer, reader: PictureReader, use: PictureUse
) -> Callable[[Request], FittedPrompt]:
    """Return a builder of prompts with pictures, beside the text of the observation or in its place.

    ``build`` makes text prompts that end in one user message. A picture's tokens come on top of the
    prompt's budget, which is of words.
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
    """Return the number of tokens before the words of a chat of one user message."""
    one, other = chat.encode_chat("a"), chat.encode_chat("b")
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    if start == 0:
        raise UsageError("the chat template has no text before a user's message for a picture: name another")
    return start
