"""Policies from prompt settings (`agentgym.prompts.settings`), a language model and an engine."""

from __future__ import annotations

from collections.abc import Callable

from agentgym.agents.table import refuse_slots
from agentgym.core.types import Request
from agentgym.errors import UsageError
from agentgym.prompts.budget import PromptBuilder
from agentgym.prompts.chat_tokenizer import ChatTokenizer
from agentgym.prompts.fitting import FittedPrompt
from agentgym.prompts.settings import Prompting
from agentgym.training.engines.choices import ActionSpeller
from agentgym.training.engines.types import Engine, Sampling
from agentgym.training.models.models import LanguageModel
from agentgym.training.policy.picture_prompts import with_picture
from agentgym.training.policy.policy import AsyncLanguageModelPolicy, LanguageModelPolicy
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
    """Return the policy of a model that is prompted by settings.

    Args:
        prompting: the settings.
        language_model: whose tokenizer writes and reads; only ``engine`` samples.
        engine: samples.
        envs: the environments to be played.
        speller: of `make_speller`, where a learner shares it.
        keep_messages: whether completions hold the text of their prompts.
        asynchronous: whether the policy also has ``submit``, so that rollouts ask about each episode alone.

    Raises:
        UsageError: the prompt's budget leaves no room for a response in the engine's context, or as
            `Prompting.builder`.
        UnsupportedEnvError: actions to choose among have free slots.
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
    """Return the speller of actions for a constrained choice; None for free responses.

    Raises:
        UsageError: no token ends a response of this model.
    """
    if prompting.choice == "free":
        return None
    end = language_model.tokenizer.eos_token_id
    if end is None:
        raise UsageError("the tokenizer has no eos_token, which ends actions that begin another one")
    assert isinstance(end, int)
    return ActionSpeller(language_model.chat, end=end)


def prompt_maker(
    prompting: Prompting, builder: PromptBuilder, language_model: LanguageModel
) -> Callable[[Request], FittedPrompt]:
    """Return the function from requests to prompts, with pictures where the settings show them.

    Raises:
        UsageError: the model reads no pictures.
    """
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
