"""Tiny random-weight models of three families: Qwen2, Qwen3 and Llama, with chat templates in their form.

They show that what is built for the families' models fits their architectures, special tokens, stop tokens
and templates. The templates' words are this project's own; the models know nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from agentgym.core.options import check_choice
from agentgym.inference.models.language_model import LanguageModel
from agentgym.inference.models.tiny import model_settings, with_random_weights, word_tokenizer
from agentgym.inference.models.tiny_names import SHAPES
from agentgym.prompts.template_sandbox import trusted

_TEMPLATES = Path(__file__).with_name("templates")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFamily:
    """Common properties of a family's models."""

    config: Callable[..., PreTrainedConfig]
    model: Callable[[Any], PreTrainedModel]
    begin: str = ""
    """Token before a text; empty for none."""
    end: str
    """Token that ends a message: the tokenizer's ``eos_token``."""
    pad: str
    stops: tuple[str, ...]
    """Tokens that end an answer, as ``generation_config.json`` lists them."""
    special: tuple[str, ...] = ()
    """Tokens that structure a chat, beside the ones above and those of `word_tokenizer`."""
    marks: tuple[str, ...] = ()
    """Tokens that structure an answer, and remain where special tokens are left out."""
    settings: Mapping[str, Any]
    """Settings of the architecture, except sizes."""


_CALLS = ("<tool_call>", "</tool_call>")

FAMILIES: Mapping[str, ModelFamily] = {
    "qwen2": ModelFamily(
        config=Qwen2Config,
        model=Qwen2ForCausalLM,
        end="<|im_end|>",
        pad="<|endoftext|>",
        stops=("<|im_end|>", "<|endoftext|>"),
        marks=_CALLS,
        settings={"tie_word_embeddings": True},
    ),
    "qwen3": ModelFamily(
        config=Qwen3Config,
        model=Qwen3ForCausalLM,
        end="<|im_end|>",
        pad="<|endoftext|>",
        stops=("<|im_end|>", "<|endoftext|>"),
        marks=(*_CALLS, "<tool_response>", "</tool_response>", "<think>", "</think>"),
        settings={"tie_word_embeddings": True, "head_dim": 32},
    ),
    "llama3": ModelFamily(
        config=LlamaConfig,
        model=LlamaForCausalLM,
        begin="<|begin_of_text|>",
        end="<|eot_id|>",
        pad="<|finetune_right_pad_id|>",
        stops=("<|end_of_text|>", "<|eom_id|>", "<|eot_id|>"),
        special=("<|start_header_id|>", "<|end_header_id|>", "<|python_tag|>"),
        settings={"tie_word_embeddings": False},
    ),
}
"""Model families by the name of their template."""


def make_family_model(
    name: str, texts: Iterable[str], *, size: str = "0.1m", context: int = 8192, seed: int = 0
) -> LanguageModel:
    """Make a model with random weights of a family of `FAMILIES`; the words of ``texts`` become tokens."""
    check_choice("family", name, FAMILIES)
    family = FAMILIES[name]
    tokenizer = _tokenizer(family, texts)
    tokenizer.chat_template = trusted((_TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8"))
    sizes = model_settings(SHAPES[size], tokenizer, context)
    config = family.config(**sizes, bos_token_id=tokenizer.bos_token_id, **family.settings)
    model = with_random_weights(family.model, config, seed)
    model.generation_config = GenerationConfig(  # type: ignore[no-untyped-call]
        do_sample=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.convert_tokens_to_ids(list(family.stops)),
        pad_token_id=tokenizer.pad_token_id,
    )
    return LanguageModel(model.train(False), tokenizer)


def _tokenizer(family: ModelFamily, texts: Iterable[str]) -> PreTrainedTokenizerBase:
    """Return byte pairs for the words of some texts, with the tokens of a family."""
    words = word_tokenizer(texts)
    tokenizer: PreTrainedTokenizerBase = words
    if family.begin:  # else the tokenizer is Qwen's, and `transformers` loads no other for these families
        special = [family.begin, family.pad, *family.stops, *family.special]
        learned = json.loads(words.backend_tokenizer.to_str())["model"]
        core = Tokenizer(models.BPE(learned["vocab"], [tuple(pair) for pair in learned["merges"]]))
        core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        core.decoder = decoders.ByteLevel()
        core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
        tokenizer = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=core,
            bos_token=family.begin,
            eos_token=family.end,
            pad_token=family.pad,
            additional_special_tokens=special,
            clean_up_tokenization_spaces=False,
        )
    tokenizer.add_tokens([AddedToken(mark, special=False, normalized=False) for mark in family.marks])
    return tokenizer
