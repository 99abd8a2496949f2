"""Models of the hub, wherever a command names one: from a hub of the loopback address, and from its cache."""

import json
import os
import subprocess
import sys

import pytest
import transformers
from huggingface_hub import constants
from huggingface_hub.utils import disable_progress_bars, enable_progress_bars

from agentgym.envs.papersearch.env import PaperSearchEnv
from agentgym.evaluation.board.boards import make_boards
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.verify.submissions import examine_below
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.reward_model_file import RewardModelFile, write_reward_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer
from agentgym.io import hub as models
from agentgym.retrieval import encoders
from agentgym.retrieval.encoders import EncoderPreset, open_encoder
from agentgym.retrieval.opening import open_index, open_or_build
from tests.cli.conftest import ENV
from tests.hub_server import serving_hub
from tests.suite_texts import ORACLE, RANDOM, env_table, suite_text

NAME, REWARD, ENCODER = "someone/tiny-model", "someone/tiny-reward", "someone/tiny-encoder"
FIRST, SECOND, THIRD = "a" * 40, "b" * 40, "c" * 40
PLAIN = ("--wording", "terse", "--answer", "bare", "--option", "choice=constrained", "--no-baselines")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("models")
    for name, seed in ((FIRST, 0), (SECOND, 1)):
        save_model(root / name, tiny_model("0.1m", word_tokenizer(["right left"]), context=3000, seed=seed))
    return root


@pytest.fixture
def hub(folders, tmp_path, monkeypatch):
    """A hub with a model of two commits, which this process downloads from into a cache of its own."""
    with serving_hub() as served:
        served.add(NAME, folders / SECOND, SECOND, "next")
        served.add(NAME, folders / FIRST, FIRST)
        monkeypatch.setattr(constants, "ENDPOINT", served.url)
        template = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", served.url + template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.chdir(tmp_path)
        disable_progress_bars()
        forget()
        yield served
        forget()
        enable_progress_bars()


def forget():
    models._snapshot.cache_clear()
    encoders._opened.cache_clear()


def offline(monkeypatch):
    forget()
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_bench_plays_a_model_of_the_hub_and_names_its_commit(cli, suite, hub, folders, tmp_path, monkeypatch):
    words = ("bench", suite, *PLAIN, "--transcripts")
    code, _, err = cli(*words, "--model", f"{NAME}@next", "--agent", "tiny-model", "--out", "runs")
    assert code == 0, err
    (folder,) = (tmp_path / "runs" / "toys").iterdir()
    played = read_run(folder)
    assert (played.agent.name, played.agent.options["path"]) == ("tiny-model", f"{NAME}@{SECOND}")
    assert {path.split(".")[-1] for path in hub.sent} <= {"json", "safetensors", "jinja"}
    assert cli(*words, "--model", folders / SECOND, "--agent", SECOND, "--out", "local")[0] == 0
    (local,) = (tmp_path / "local" / "toys").iterdir()
    assert read_run(local).agent.model == played.agent.model
    ours, theirs = ([one.hash_chain for one in read_episodes(each)] for each in (folder, local))
    assert ours == theirs
    # who reads a board learns the commit, and no path
    boards, _ = make_boards(run.found for run in examine_below(folder.parents[1], suites={"toys": suite}))
    assert boards[0].rows[0].agent.options["path"] == f"{NAME}@{SECOND}"
    boards, _ = make_boards(run.found for run in examine_below(local.parents[1], suites={"toys": suite}))
    assert "path" not in boards[0].rows[0].agent.options
    for named, expected in ((f"{NAME}@{SECOND}", 0), (folders / SECOND, 0), (NAME, 1)):
        code, out, _ = cli("verify", folder, "--suite", suite, "--model", named, "--sample-seed", 1)
        assert (code, out.startswith("model-checked: ")) == (expected, not expected)
    # a moved branch is another model; the run that has begun goes on with its commit
    offline(monkeypatch)
    assert cli(*words, "--model", f"{NAME}@next", "--agent", "tiny-model", "--out", "runs")[0] == 0
    assert len(list((tmp_path / "runs" / "toys").iterdir())) == 1


def test_a_suite_s_own_agent_and_its_reward_model_are_pinned(cli, hub, folders, tmp_path):
    reward = tmp_path / "reward"
    save_model(reward, tiny_model("0.1m", word_tokenizer(["right left"]), context=3000, seed=2))
    record = RewardModelFile(beta=0.05, compared_with="policy", temperature=1.0)
    write_reward_model(reward, record)
    hub.add(REWARD, reward, THIRD)
    agent = {"name": "best", "kind": "model"}
    options = {"path": NAME, "rerank": REWARD, "candidates": 2, "wording": "terse", "answer": "bare"}
    options |= {"choice": "constrained"}
    played = env_table(ENV, 2, split="train")
    text = suite_text("own", played, agents=(RANDOM, ORACLE, agent | {"options": options}), seed=1)
    (tmp_path / "own.toml").write_text(text)
    code, _, err = cli("bench", "own.toml", "--out", "runs", "--agent", "best", "--no-baselines")
    assert code == 0, err
    (folder,) = (tmp_path / "runs" / "own").iterdir()
    found = read_run(folder).agent.options
    assert (found["path"], found["rerank"]) == (f"{NAME}@{FIRST}", f"{REWARD}@{THIRD}")


def write_encoder(folder):
    """Write a sentence-transformers model of a few weights."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "which", "ship", "sank"]
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    size = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=64, **size)
    transformers.BertModel(config).save_pretrained(folder)
    parts = [("", "Transformer"), ("1_Pooling", "Pooling")]
    modules = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    pooling = {"word_embedding_dimension": 8, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


def test_an_encoder_of_the_hub_and_its_index(cli, hub, tmp_path, monkeypatch):
    folder = write_encoder(tmp_path / "encoder")
    hub.add(ENCODER, folder, THIRD)
    one = open_encoder(ENCODER, device="cpu")
    facts = one.text_parameters
    assert (facts["encoder"], facts["revision"]) == (ENCODER, THIRD)
    local = open_encoder(str(folder), device="cpu").text_parameters
    assert {**facts, "encoder": "encoder", "revision": ""} == local
    preset = EncoderPreset(ENCODER, query_prefix="query: ", max_length=16)
    monkeypatch.setattr(encoders, "PRESETS", {"small": preset})
    assert open_encoder("small", device="cpu").text_parameters["revision"] == THIRD
    assert open_encoder(f"small@{ENCODER}", device="cpu").text_parameters["query_prefix"] == "query: "
    given = {"corpus": "ships", "count": 2, "encoder": ENCODER, "device": "cpu"}
    documents = [("1", "ship sank"), ("2", "which ship")]
    index = open_or_build("exact", tmp_path / "exact", lambda: documents, **given)
    offline(monkeypatch)
    hub.branches[ENCODER]["main"] = FIRST
    (made,) = tmp_path.glob("exact-*")
    assert open_index(made).search("which ship", 1) == index.search("which ship", 1)


def test_what_only_torch_s_own_files_have_is_fetched(hub, tmp_path):
    folder = tmp_path / "repository"
    folder.mkdir()
    for name in ("config.json", "pytorch_model.bin", "training_args.bin"):
        (folder / name).write_text("{}")
    hub.add(ENCODER, folder, THIRD)
    found = {path.name for path in encoders._directory(ENCODER).iterdir()}
    assert found == {"config.json", "pytorch_model.bin"}


def test_a_selector_of_the_hub(hub, tmp_path):
    options = {"split": "test", "dataset": "builtin"}
    named = PaperSearchEnv(selector=f"model:{NAME}", **options).query_backends["selector"].kind
    local = tmp_path / "hub" / "models--someone--tiny-model" / "snapshots" / FIRST
    assert named == PaperSearchEnv(selector=f"model:{local}", **options).query_backends["selector"].kind


def test_doctor_reads_a_template_without_weights(cli, hub):
    _, out, _ = cli("doctor", NAME)
    assert "the chat template has no place for tools" in out
    assert not any(path.endswith(".safetensors") for path in hub.sent)


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "quick", "--model", "someone/else"),
        ("bench", "quick", "--model", NAME, "--rerank", "someone/else", *PLAIN),
        ("verify", "somewhere", "--model", "someone/else"),
        ("play", "agentgym/HotpotQA-v0", "--option", "search=exact", "--option", "encoder=someone/else"),
        ("doctor", "someone/else"),
        ("play", "agentgym/PaperSearch-v0", "--option", "selector=model:someone/else"),
    ],
)
def test_without_a_network_the_command_that_fetches_it_is_named(refused, hub, monkeypatch, words):
    models.model_directory(NAME)
    offline(monkeypatch)
    assert "`hf download someone/else`" in refused(*words)


def test_the_hub_s_variables_hold(hub, tmp_path):
    variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "home"), "HF_HUB_DISABLE_XET": "1"}

    def ask(name, **further):
        lines = "import sys, agentgym.io.hub as hub; print(hub.pinned(sys.argv[1]))"
        env = {**os.environ, **variables, **further}
        command = [sys.executable, "-c", lines, name]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)

    done = ask(f"{NAME}@next")
    assert done.stdout == f"{NAME}@{SECOND}\n", done.stderr
    assert (tmp_path / "home" / "hub" / "models--someone--tiny-model" / "snapshots" / SECOND).is_dir()
    refused = ask(f"{NAME}@{FIRST}", HF_HUB_OFFLINE="1").stderr
    assert f"`hf download {NAME} --revision {FIRST}`" in refused
