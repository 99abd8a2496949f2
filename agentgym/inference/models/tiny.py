"""Tiny models: Qwen2's architecture with random weights, and tokenizers made from an environment's words.

For pictures of games they have Qwen2.5-VL's. They learn an environment within minutes on a
processor's single core, and are saved and loaded like any other model.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2Tokenizer,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agentgym.agents.random import RandomPolicy
from agentgym.core.episodes import observed_text
from agentgym.core.types import Policy
from agentgym.inference.models.language_model import LanguageModel
from agentgym.inference.models.pictures import PictureReader
from agentgym.inference.models.tiny_names import Shape, shape_of
from agentgym.prompts.template_sandbox import trusted
from agentgym.rollout.worker import RolloutWorker
from agentgym.vector.core import AgentVectorEnv

PAD, BEGIN, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
"""Qwen2's names for what fills batches up, and for the begin and the end of a message."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Chat template in the layout called ChatML."""

_ROLES = "system user assistant"

_WORD = re.compile(r" ?[^\W\d_]+")
"""Pattern of a word with the blank before it."""

MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
"""Qwen2-VL's names for what stands around a picture, and in the place of its patches and a film's."""

PATCH, MERGE = 8, 2
"""Pixels of a patch's side, and patches along the side of one picture token's area."""

MAX_PICTURE_TOKENS = 64
"""Most tokens of a picture; a larger one is scaled down."""


def tiny_model(size: str, tokenizer: Qwen2Tokenizer, *, context: int = 4096, seed: int = 0) -> LanguageModel:
    """Make a model with random weights for a tokenizer, with a shape of `SHAPES`."""
    config = Qwen2Config(**model_settings(shape_of(size), tokenizer, context), tie_word_embeddings=True)
    model = with_random_weights(Qwen2ForCausalLM, config, seed)
    model.generation_config = GenerationConfig.from_model_config(config)
    return LanguageModel(model.train(False), tokenizer)


def model_settings(shape: Shape, tokenizer: PreTrainedTokenizerBase, context: int) -> dict[str, Any]:
    """Return what configurations of all families say of a shape, a tokenizer and the ``context``."""
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": shape.hidden,
        "intermediate_size": shape.intermediate,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.key_value_heads,
        "max_position_embeddings": context,
        # the usual 0.02 suits wide models; with it, narrow ones need several times as many updates
        "initializer_range": shape.hidden**-0.5,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
    }


def with_random_weights(make: Callable[[Any], PreTrainedModel], config: Any, seed: int) -> PreTrainedModel:
    """Return the model that ``make`` makes of a ``config``, its weights decided by a ``seed``."""
    with torch.random.fork_rng(devices=[]):  # its initialisation draws from torch's global generator
        torch.manual_seed(seed)
        return make(config)


def word_tokenizer(texts: Iterable[str], *, max_tokens: int = 4096, numbers: int = 0) -> Qwen2Tokenizer:
    """Make a tokenizer for which the words of some texts are single tokens; it can spell any other text.

    It is Qwen2's tokenizer with other merges: bytes are merged within words only, so that digits, marks
    and the cells of a board remain tokens of their own. `transformers` loads no other kind for models of
    this architecture. With ``max_tokens``, at least 259, rare words are spelled in parts. ``numbers``
    after a blank, from 0 up to it, are added as single tokens: the names of things are then two tokens
    each.

    Example:
        >>> tokenizer = word_tokenizer(["Go to shelf 1."])
        >>> [tokenizer.decode([token]) for token in tokenizer.encode("Go to shelf 12.")]
        ['Go', ' to', ' shelf', ' ', '1', '2', '.']
    """
    words = Counter(_ROLES.split())
    for text in texts:
        words.update(_WORD.findall(text))
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    special = (PAD, BEGIN, END)
    trainer = trainers.BpeTrainer(
        vocab_size=max_tokens - len(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    core.train_from_iterator(words.elements(), trainer)
    learned = json.loads(core.to_str())["model"]
    tokenizer = Qwen2Tokenizer(
        vocab=learned["vocab"],
        merges=[tuple(pair) for pair in learned["merges"]],  # type: ignore[misc]
        unk_token=PAD,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[BEGIN],
    )
    if numbers:
        tokenizer.add_tokens([AddedToken(f" {number}", normalized=False) for number in range(numbers)])
    tokenizer.chat_template = trusted(CHAT_TEMPLATE)
    return tokenizer


def environment_texts(
    envs: AgentVectorEnv, *, episodes: int, seed: int, policy: Policy | None = None
) -> Iterator[str]:
    """Yield observations, goals and admissible actions of the split's first tasks while an agent plays.

    ``envs`` are in autoreset mode DISABLED; without ``policy`` the random agent plays.
    """
    worker = RolloutWorker(envs, policy or RandomPolicy(envs.prototype.action_kind), env_id="")
    tasks = envs.tasks.ids[: min(episodes, len(envs.tasks))]
    for group in worker.collect(tasks, group_size=1, seed=seed):
        for trajectory in group.trajectories:
            yield from (value for value in trajectory.extra.values() if isinstance(value, str))
            yield observed_text(trajectory.final_observation)
            for step in trajectory.steps:
                yield observed_text(step.observation)
                yield from step.admissible_actions


def tiny_vision_model(
    size: str, tokenizer: Qwen2Tokenizer, *, context: int = 4096, seed: int = 0
) -> LanguageModel:
    """Make a vision-language model with random weights for a tokenizer, which gets the marks of pictures.

    Its shape is one of `SHAPES`; the encoder of pictures is as wide.
    """
    tokenizer.add_special_tokens({"extra_special_tokens": [BEGIN, *MARKS]})
    config = _vision_config(shape_of(size), tokenizer, context)
    model = with_random_weights(Qwen2_5_VLForConditionalGeneration, config, seed)
    model.generation_config = GenerationConfig.from_model_config(config.get_text_config())
    unit = (PATCH * MERGE) ** 2
    processor = Qwen2VLImageProcessorPil(
        patch_size=PATCH,
        merge_size=MERGE,
        size={"shortest_edge": unit, "longest_edge": MAX_PICTURE_TOKENS * unit},
    )
    return LanguageModel(model.train(False), tokenizer, PictureReader(model, processor))


def _vision_config(shape: Shape, tokenizer: Qwen2Tokenizer, context: int) -> Qwen2_5_VLConfig:
    ids = {mark: tokenizer.encode(mark)[0] for mark in MARKS}
    quarter = shape.hidden // shape.heads // 8
    return Qwen2_5_VLConfig(
        text_config={
            **model_settings(shape, tokenizer, context),
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [2 * quarter, quarter, quarter],
            },
            "tie_word_embeddings": True,
            "bos_token_id": None,
        },
        vision_config={
            "depth": 2,
            "hidden_size": shape.hidden,
            "intermediate_size": 2 * shape.hidden,
            "num_heads": shape.heads,
            "out_hidden_size": shape.hidden,
            "patch_size": PATCH,
            "spatial_merge_size": MERGE,
            "window_size": 4 * PATCH * MERGE,
            "fullatt_block_indexes": [1],
            "initializer_range": shape.hidden**-0.5,
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )
