"""Model of a run: a tiny one made for its environment, or a saved one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain

import torch

from agentgym.agents.random import RandomStringPolicy
from agentgym.inference.models.families import make_family_model
from agentgym.inference.models.language_model import LanguageModel, load_model, open_directory
from agentgym.inference.models.tiny import (
    environment_texts,
    tiny_model,
    tiny_vision_model,
    word_tokenizer,
)
from agentgym.inference.models.tiny_names import VISION, tiny_parts
from agentgym.io.hub import model_directory
from agentgym.prompts.settings import Prompting
from agentgym.prompts.summary import summary_words
from agentgym.vector.core import AgentVectorEnv

EPISODES = 128
"""Number of random episodes for a tiny model's vocabulary. On ALFWorld's training tasks they contain every
word of 240 evaluation tasks, where 32 episodes miss three."""

_MIN_CONTEXT = 4096


def open_model(
    spec: str,
    texts: Sequence[str],
    prompting: Prompting,
    seed: int,
    *,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    empty: bool = False,
) -> LanguageModel:
    """Open a model.

    ``spec`` is ``tiny``, ``tiny-vl`` or ``tiny-FAMILY``, alone or with ``:SIZE``, or what
    `agentgym.io.hub.model_directory` takes. A tiny model's tokenizer is made from
    ``texts``, and it has room for the longest prompt and response of ``prompting``. With ``empty`` a
    directory's weights stay in their files.
    """
    named = tiny_parts(spec)
    if named is None:
        return (open_directory if empty else load_model)(model_directory(spec), dtype=dtype, device=device)
    family, size = named
    # also with a blank before it, after which a text begins with another token
    variants = (variant for text in texts for variant in (text, f" {text}"))
    context = max(_MIN_CONTEXT, prompting.budget + prompting.max_tokens)
    if family and family != VISION:
        made = make_family_model(family, variants, size=size, context=context, seed=seed)
    else:
        make = tiny_vision_model if family else tiny_model
        made = make(size, word_tokenizer(variants), context=context, seed=seed)
    model = made.model.to(device=torch.device(device), dtype=dtype)  # type: ignore[call-arg]
    return replace(made, model=model)


def vocabulary_texts(spec: str, plays: Iterable[tuple[AgentVectorEnv, Prompting]]) -> list[str]:
    """Play random episodes and return the texts that a tiny model's vocabulary is taken from, each once.

    ``plays``: environments in autoreset mode DISABLED, with the prompting of each; the first tasks of their
    splits are played. A model that is read from a directory has its vocabulary: nothing is played for it.
    """
    if tiny_parts(spec) is None:
        return []
    return list(dict.fromkeys(chain.from_iterable(_texts(*each) for each in plays)))


def _texts(envs: AgentVectorEnv, prompting: Prompting) -> Iterator[str]:
    """Yield the texts of an environment and of its prompts."""
    yield from environment_texts(envs, episodes=EPISODES, seed=0)
    # plus the prompts' remarks on rejected actions
    yield from environment_texts(envs, episodes=1, seed=0, policy=RandomStringPolicy())
    yield from prompting.template_with(envs.prototype.tools).words()
    yield prompting.system
    yield from summary_words()[:-1] if prompting.context == "summarised" else ()
