"""Model directories that are damaged: one line that says so, before anything is trained."""

import json

import pytest

from agentgym.errors import UsageError
from agentgym.inference.models.language_model import load_model, save_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.prompts.chat_tokenizer import ChatTokenizer


@pytest.fixture
def directory(tmp_path):
    save_model(tmp_path, tiny_model("0.1m", word_tokenizer(["one two"])))
    return tmp_path


def _cut_off(directory):
    path = directory / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])


def _configured(**changes):
    def change(directory):
        path = directory / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def _without_tokens(directory):
    for path in directory.glob("*token*"):
        path.unlink()


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (_cut_off, "cannot load a model"),
        (_configured(hidden_size=128), "cannot load a model"),
        (_configured(hidden_size="wide"), "cannot load a model"),
        (_configured(model_type="nothing"), "cannot load a model"),
        (_configured(num_hidden_layers=3, layer_types=["full_attention"] * 3), "lack 12 tensors"),
        (_without_tokens, "has no tokens"),
        (lambda directory: (directory / "config.json").write_text("[]"), "cannot load a model"),
        (lambda directory: (directory / "chat_template.jinja").write_text("{% for %}"), "chat template"),
        (
            lambda directory: (directory / "chat_template.jinja").write_text("a"),
            "leaves out what a user says",
        ),
    ],
)
def test_a_damaged_directory_is_refused_in_one_line(directory, damage, complaint, capfd):
    load_model(directory)
    damage(directory)
    with pytest.raises(UsageError, match=complaint) as raised:
        load_model(directory)
    assert "\n" not in str(raised.value)
    assert capfd.readouterr() == ("", "")


def test_text_is_encoded_as_the_tokenizer_does_whatever_was_encoded_before():
    tokenizer = word_tokenizer(["a box is up"])
    chat, end = ChatTokenizer(tokenizer), tokenizer.all_special_tokens[0]
    for text in ("a box", f"up {end} a", "", "\n\n a  b", "ü 漢"):
        as_text = tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True)
        assert chat.encode(text) == tokenizer.encode(text, add_special_tokens=False)
        assert (chat.encode(text) == as_text) is (end not in text)


def test_a_special_token_at_the_beginning_of_a_template_is_text_as_it_stands():
    tokenizer = word_tokenizer(["a box is up"])
    chat, end = ChatTokenizer(tokenizer), tokenizer.all_special_tokens[0]
    body = f"{end} up{end}a"
    as_text = tokenizer.encode(body, add_special_tokens=False, split_special_tokens=True)
    assert chat.encode_rendered([body], lambda bodies: f"{bodies[0]} box") == [
        *as_text,
        *chat.encode(" box"),
    ]
