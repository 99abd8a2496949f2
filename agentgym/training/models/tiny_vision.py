"""Tiny vision-language models: Qwen2.5-VL's architecture with random weights, for pictures of games."""

from __future__ import annotations

from transformers import (
    GenerationConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Tokenizer,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agentgym.training.models.models import LanguageModel
from agentgym.training.models.pictures import PictureReader
from agentgym.training.models.tiny import BEGIN, Shape, model_settings, shape_of, with_random_weights

MARKS = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
"""Qwen2-VL's names for what stands around a picture, and in the place of its patches and a film's."""

PATCH, MERGE = 8, 2
"""Pixels of a patch's side, and patches along the side of what one picture token stands for."""

MAX_PICTURE_TOKENS = 64
"""Tokens of a picture at most; a larger one is made smaller."""


def tiny_vision_model(
    size: str, tokenizer: Qwen2Tokenizer, *, context: int = 4096, seed: int = 0
) -> LanguageModel:
    """Make a vision-language model with random weights for a tokenizer.

    Args:
        size: a key of `agentgym.training.models.tiny.SHAPES`; the encoder of pictures is as wide.
        tokenizer: such as `agentgym.training.models.tiny.word_tokenizer` makes; gets the marks of pictures.
        context: most tokens of a prompt and its response.
        seed: decides the weights.

    Raises:
        UsageError: unknown size.
    """
    tokenizer.add_special_tokens({"extra_special_tokens": [BEGIN, *MARKS]})
    config = _config(shape_of(size), tokenizer, context)
    model = with_random_weights(Qwen2_5_VLForConditionalGeneration, config, seed)
    model.generation_config = GenerationConfig.from_model_config(config.get_text_config())
    unit = (PATCH * MERGE) ** 2
    processor = Qwen2VLImageProcessorPil(
        patch_size=PATCH,
        merge_size=MERGE,
        size={"shortest_edge": unit, "longest_edge": MAX_PICTURE_TOKENS * unit},
    )
    return LanguageModel(model.train(False), tokenizer, PictureReader(model, processor))


def _config(shape: Shape, tokenizer: Qwen2Tokenizer, context: int) -> Qwen2_5_VLConfig:
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
