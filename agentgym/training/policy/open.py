"""Model and default prompting of a run: a tiny model made for its environment, or a saved one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch

from agentgym.agents.random import RandomStringPolicy
from agentgym.core.options import check_choice
from agentgym.prompts.settings import Prompting
from agentgym.prompts.summary import summary_words
from agentgym.registration import suite_spec
from agentgym.training.models.families import FAMILIES, make_family_model
from agentgym.training.models.hub import model_directory
from agentgym.training.models.models import LanguageModel, load_model, open_directory
from agentgym.training.models.tiny import SHAPES, environment_texts, tiny_model, word_tokenizer
from agentgym.training.models.tiny_vision import tiny_vision_model
from agentgym.training.policy.saved import read_agent
from agentgym.vector.core import AgentVectorEnv

TINY = "tiny"
VISION = "vl"
"""Family of the tiny vision-language models, which are shown pictures in the place of texts."""

DEFAULT_SIZE = "0.8m"
"""Default size of a tiny model."""

EPISODES = 128
"""Random episodes that a tiny model's vocabulary is taken from.

On ALFWorld's training tasks these say every word of 240 evaluation tasks, where 32 leave three unheard.
"""

_MIN_CONTEXT = 4096


def open_model(
    spec: str,
    envs: AgentVectorEnv,
    prompting: Prompting,
    seed: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    empty: bool = False,
    others: Sequence[tuple[AgentVectorEnv, Prompting]] = (),
) -> LanguageModel:
    """Open a model.

    Args:
        spec: ``tiny``, ``tiny-vl`` or ``tiny-FAMILY``, alone or with ``:SIZE``; or what
            `agentgym.training.models.hub.model_directory` takes. Families are those of
            `agentgym.training.models.families.FAMILIES`, sizes those of
            `agentgym.training.models.tiny.SHAPES`.
        envs: what it will play, in autoreset mode DISABLED; a tiny model's vocabulary is taken from the
            first tasks of its split.
        prompting: how it will be asked; its words are part of that vocabulary.
        seed: decides a tiny model's weights.
        dtype: of the weights.
        device: where they go.
        empty: whether a directory's weights stay in their files, as `open_directory` leaves them there.
        others: what it will play besides, and how it will be asked there.

    Raises:
        UsageError: unknown family or size, or a directory that cannot be loaded.
    """
    named = _tiny(spec)
    if named is None:
        return (open_directory if empty else load_model)(model_directory(spec), dtype=dtype, device=device)
    family, size = named
    sources = chain.from_iterable(_texts(*each) for each in ((envs, prompting), *others))
    # a text that a prompt puts after a blank begins with another token
    texts = (variant for text in dict.fromkeys(sources) for variant in (text, f" {text}"))
    context = max(_MIN_CONTEXT, prompting.budget + prompting.max_tokens)
    if family and family != VISION:
        made = make_family_model(family, texts, size=size, context=context, seed=seed)
    else:
        make = tiny_vision_model if family else tiny_model
        made = make(size, word_tokenizer(texts), context=context, seed=seed)
    model = made.model.to(device=torch.device(device), dtype=dtype)  # type: ignore[call-arg]
    return replace(made, model=model)


def _texts(envs: AgentVectorEnv, prompting: Prompting) -> Iterator[str]:
    """Yield what an environment and the prompts of it say."""
    yield from environment_texts(envs, episodes=EPISODES, seed=0)
    # what is said about actions that are not accepted
    yield from environment_texts(envs, episodes=1, seed=0, policy=RandomStringPolicy())
    yield from prompting.template_with(envs.prototype.tools).words()
    yield prompting.system
    yield from summary_words()[:-1] if prompting.context == "summarised" else ()


def tiny_size(spec: str) -> str | None:
    """Return the size of the tiny model that a spec names; None for a path.

    Raises:
        UsageError: unknown family or size.
    """
    named = _tiny(spec)
    return None if named is None else named[1]


def _tiny(spec: str) -> tuple[str, str] | None:
    """Return the family, empty for the plain form, and the size of the tiny model that a spec names."""
    name, colon, size = spec.partition(":")
    family = name.removeprefix(f"{TINY}-") if name.startswith(f"{TINY}-") else ""
    if name != TINY and not family:
        return None
    if family and family not in (*FAMILIES, VISION):
        if "/" in name or Path(spec).exists():
            return None
        check_choice("model", name, [f"{TINY}-{known}" for known in (*FAMILIES, VISION)])
    size = size if colon else DEFAULT_SIZE
    check_choice("model", f"{name}:{size}", [f"{name}:{known}" for known in SHAPES])
    return family, size


def default_prompting(spec: str, env_id: str) -> Prompting:
    """Return the default prompting of a model.

    That is how a saved policy was asked while it learned, what suits a tiny model, or what suits any
    other.

    Args:
        spec: as `open_model` takes it.
        env_id: what it will play.

    Raises:
        UsageError: unknown size, or a directory that is missing or damaged.
    """
    if named := _tiny(spec):
        prompting = Prompting.tiny(suite_spec(env_id).prompt)
        return replace(prompting, pictures="alone") if named[0] == VISION else prompting
    saved = read_agent(model_directory(spec))
    return Prompting.default(suite_spec(env_id).prompt) if saved is None else saved.prompting
