"""The shapes of the models that the five papers train, as their published ``config.json`` have them."""

from typing import Any

_QWEN2: dict[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "hidden_act": "silu",
    "max_position_embeddings": 32768,
    "rms_norm_eps": 1e-6,
    "rope_theta": 1e6,
    "torch_dtype": "bfloat16",
}
_VISION: dict[str, Any] = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "in_chans": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31],
}


def _sizes(
    hidden: int, inner: int, layers: int, heads: int, keys: int, vocabulary: int, tied: bool
) -> dict[str, Any]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": keys,
        "vocab_size": vocabulary,
        "tie_word_embeddings": tied,
    }


def _pictures(width: int, **sizes: Any) -> dict[str, Any]:
    return {
        **_QWEN2,
        **sizes,
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "max_position_embeddings": 128000,
        "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "vision_config": {**_VISION, "out_hidden_size": width},
    }


def _qwen3(**sizes: Any) -> dict[str, Any]:
    return {
        **_QWEN2,
        **sizes,
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "head_dim": 128,
        "max_position_embeddings": 40960,
    }


_SMALL, _LARGE = _sizes(1536, 8960, 28, 12, 2, 151936, True), _sizes(3584, 18944, 28, 28, 4, 152064, False)

MODELS: dict[str, tuple[float, dict[str, Any]]] = {
    "Qwen2.5-1.5B-Instruct": (1.54, {**_QWEN2, **_SMALL}),
    "Qwen2.5-7B-Instruct": (7.62, {**_QWEN2, **_LARGE}),
    "Qwen2.5-VL-3B-Instruct": (3.75, _pictures(2048, **_sizes(2048, 11008, 36, 16, 2, 151936, True))),
    "Qwen2.5-VL-7B-Instruct": (8.29, _pictures(3584, **_LARGE)),
    "Qwen3-1.7B": (1.72, _qwen3(**_sizes(2048, 6144, 28, 16, 8, 151936, True))),
    "Qwen3-4B-Instruct-2507": (4.02, _qwen3(**_sizes(2560, 9728, 36, 32, 8, 151936, True))),
    "Llama3.1-8B-Instruct": (
        8.03,
        {
            **_QWEN2,
            **_sizes(4096, 14336, 32, 32, 8, 128256, False),
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "max_position_embeddings": 131072,
            "rope_theta": 500000.0,
        },
    ),
}
"""By the papers' names: billions of parameters, and ``config.json``."""
