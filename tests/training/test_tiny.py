import json
import subprocess
import sys
import unicodedata

import gymnasium
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, AutoTokenizer

import agentgym  # noqa: F401 (registers the environments)
from agentgym.errors import UsageError
from agentgym.inference.models.language_model import LanguageModel, load_model, save_model
from agentgym.inference.models.tiny import environment_texts, tiny_model, word_tokenizer
from agentgym.inference.models.tiny_names import SHAPES
from tests.training.test_loop import same


@pytest.fixture(scope="module")
def directory(language_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    save_model(path, language_model)
    return path


def weights(model):
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize(("size", "expected"), [("0.1m", 0.1e6), ("0.8m", 0.8e6), ("5m", 5e6)])
def test_a_size_says_how_many_weights_there_are_besides_the_embedding(size, expected):
    model = tiny_model(size, word_tokenizer(["go"])).model
    embedding = model.get_input_embeddings().weight.numel()
    assert sum(weight.numel() for weight in model.parameters()) - embedding == pytest.approx(
        expected, rel=0.06
    )
    assert model.config.model_type == "qwen2"
    assert model.config.hidden_size % model.config.num_attention_heads == 0
    assert model.config.num_attention_heads % model.config.num_key_value_heads == 0


def test_unknown_sizes_are_refused():
    with pytest.raises(UsageError, match=f"choose one of {', '.join(SHAPES)}"):
        tiny_model("7b", word_tokenizer(["go"]))


def test_the_seed_decides_the_weights_and_torch_s_generator_is_left_alone():
    tokenizer = word_tokenizer(["go"])
    before = torch.random.get_rng_state()
    first, again, other = (weights(tiny_model("0.1m", tokenizer, seed=seed).model) for seed in (1, 1, 2))
    assert torch.equal(torch.random.get_rng_state(), before)
    assert same(first, again)
    assert not same(first, other)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_any_text_is_spelled_up_to_composition(language_model, text):
    chat = language_model.chat
    assert chat.decode(chat.encode(text)) == unicodedata.normalize("NFC", text)


def test_words_are_tokens_and_cells_are_tokens(language_model):
    chat = language_model.chat
    pieces = [chat.decode([token]) for token in chat.encode("go to shelf 12\n##\n#@")]
    assert pieces == ["go", " to", " shelf", " ", "1", "2", "\n", "#", "#", "\n", "#", "@"]


def test_a_bound_leaves_rare_words_in_parts():
    tokenizer = word_tokenizer(["often often often often", "rarity"], max_tokens=278)
    assert len(tokenizer) == 278
    assert len(tokenizer.encode("often")) == 1
    assert 1 < len(tokenizer.encode("rarity")) <= 6


def test_tokenizers_are_deterministic():
    texts = ["put a clean cup on a shelf", "open the drawer, then close it"]
    first, second = (word_tokenizer(texts).get_vocab() for _ in range(2))
    assert first == second


def test_a_saved_model_is_an_ordinary_directory(directory, language_model):
    model = AutoModelForCausalLM.from_pretrained(directory)
    tokenizer = AutoTokenizer.from_pretrained(directory)
    assert same(weights(model), weights(language_model.model))
    text = "go to shelf 1<|im_end|>\n\x07é漢 unheard"
    assert tokenizer.encode(text) == language_model.tokenizer.encode(text)
    chat = [{"role": "system", "content": "be brief"}, {"role": "user", "content": "look"}]
    assert tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True) == (
        "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\nlook<|im_end|>\n<|im_start|>assistant\n"
    )


def test_a_loaded_model_is_the_saved_one(directory, language_model):
    loaded = load_model(directory)
    assert same(weights(loaded.model), weights(language_model.model))
    assert (
        loaded.stop_ids == language_model.stop_ids == (loaded.tokenizer.convert_tokens_to_ids("<|im_end|>"),)
    )
    message = "You stand in a kitchen."
    ids = loaded.chat.encode_chat(message)
    assert loaded.chat.decode(ids) == (f"<|im_start|>user\n{message}<|im_end|>\n<|im_start|>assistant\n")
    assert load_model(directory, dtype=torch.bfloat16).model.dtype == torch.bfloat16


def test_loading_and_saving_say_nothing(directory, tmp_path, capfd):
    save_model(tmp_path, load_model(directory))
    assert capfd.readouterr() == ("", "")


def test_directories_without_a_model_are_refused(tmp_path):
    with pytest.raises(UsageError, match="does not exist: give the path of a saved model"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(UsageError, match=r"holds no config\.json"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "qwen2"}')
    with pytest.raises(UsageError, match="cannot load a model from") as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_directory_without_weights_is_refused(directory, tmp_path):
    for path in directory.iterdir():
        if path.suffix != ".safetensors":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(UsageError, match="cannot load a model from") as caught:
        load_model(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_tokenizer_without_a_chat_template_is_refused(language_model, tmp_path):
    plain = word_tokenizer(["go"])
    plain.chat_template = None
    save_model(tmp_path, LanguageModel(tiny_model("0.1m", plain).model, plain))
    with pytest.raises(UsageError, match="has no chat template: use an instruction-tuned model"):
        load_model(tmp_path)


def test_a_tokenizer_of_another_model_is_refused(directory, tmp_path):
    small = word_tokenizer([])
    save_model(tmp_path, LanguageModel(tiny_model("0.1m", small).model, word_tokenizer(["kitchen drawer"])))
    with pytest.raises(UsageError, match=r"tokens but the model only \d+ embeddings"):
        load_model(tmp_path)


@pytest.mark.parametrize("env_id", ["agentgym/ALFWorld-v0", "agentgym/Sokoban-v0", "agentgym/EZPoints-v0"])
def test_an_environment_s_words_make_its_actions_short(env_id):
    envs = gymnasium.make_vec(env_id, num_envs=4, autoreset_mode="Disabled", max_steps=5)
    texts = list(environment_texts(envs, episodes=4, seed=0))
    assert texts == list(environment_texts(envs, episodes=4, seed=0))
    tokenizer = word_tokenizer(texts)
    actions = {text for text in texts if "\n" not in text and len(text.split()) <= 6}
    assert len(actions) >= 4
    for action in actions:  # a word with its blank, a sign or a digit each; no more
        assert len(tokenizer.encode(action)) <= sum(
            1 if word.isalpha() else 1 + len(word) for word in action.split()
        )


def test_without_torch_the_extra_is_named():
    code = """
import importlib.util, json, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torch" else found(name, *rest)
try:
    import agentgym.inference.engines
except Exception as error:
    print(json.dumps([type(error).__name__, str(error), "torch" in sys.modules]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kind, message, imported = json.loads(done.stdout)
    assert (kind, imported) == ("MissingPackageError", False)
    assert message.startswith("torch is not installed: pip install ")
    assert "'torch" in message
