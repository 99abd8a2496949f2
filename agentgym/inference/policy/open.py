"""Model and default prompting of a run: a tiny model made for its environment, or a saved one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import torch

from agentgym.agents.random import RandomStringPolicy
from agentgym.core.options import check_choice
from agentgym.inference.models.families import FAMILIES, make_family_model
from agentgym.inference.models.language_model import LanguageModel, load_model, open_directory
from agentgym.inference.models.tiny import (
    SHAPES,
    environment_texts,
    tiny_model,
    tiny_vision_model,
    word_tokenizer,
)
from agentgym.inference.policy.saved import read_agent
from agentgym.io.hub import model_directory
from agentgym.prompts.settings import Prompting
from agentgym.prompts.summary import summary_words
from agentgym.registration import suite_spec
from agentgym.vector.core import AgentVectorEnv

TINY = "tiny"
VISION = "vl"
"""Family of the tiny vision-language models, which are shown pictures in the place of texts."""

DEFAULT_SIZE = "0.8m"
"""Default size of a tiny model."""

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
    named = _tiny(spec)
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
    if _tiny(spec) is None:
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


def tiny_size(spec: str) -> str | None:
    """Return the size of the tiny model that a spec names; None for a path."""
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
    """Return the default prompting of a model that will play an environment.

    That is how a saved policy was asked while it learned, what suits a tiny model, or what suits any
    other.
    """
    if named := _tiny(spec):
        prompting = Prompting.tiny(suite_spec(env_id).prompt)
        return replace(prompting, pictures="alone") if named[0] == VISION else prompting
    saved = read_agent(model_directory(spec))
    return Prompting.default(suite_spec(env_id).prompt) if saved is None else saved.prompting
