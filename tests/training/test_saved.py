import hashlib
import json

import gymnasium
import pytest
import torch

import agentgym  # noqa: F401 (registers the environments)
from agentgym.errors import UsageError
from agentgym.inference.models.language_model import load_model, save_model
from agentgym.inference.models.tiny_names import tiny_size
from agentgym.inference.policy.open import open_model, vocabulary_texts
from agentgym.inference.policy.saved import (
    SavedAgent,
    Training,
    default_prompting,
    read_agent,
    weights_sha256,
)
from agentgym.prompts.settings import Prompting
from agentgym.registration import suite_spec
from tests.saved_agents import save_agent

SOKOBAN = "agentgym/Sokoban-v0"
TRAINING = Training(
    env_id=SOKOBAN,
    algorithm="grpo",
    base_model="tiny",
    seed=3,
    run="sokoban-grpo",
    iterations=40,
    episodes=5120,
    tokens=60_000,
)


@pytest.fixture(scope="module")
def envs():
    return gymnasium.make_vec(SOKOBAN, num_envs=4, autoreset_mode="Disabled", max_steps=4)


def test_a_saved_policy_is_read_back(tmp_path, language_model):
    agent = SavedAgent(Prompting.tiny(suite_spec(SOKOBAN).prompt), TRAINING)
    save_agent(tmp_path / "deep" / "model", language_model, agent)
    assert read_agent(tmp_path / "deep" / "model") == agent
    loaded = load_model(tmp_path / "deep" / "model")
    assert torch.equal(loaded.model.lm_head.weight, language_model.model.lm_head.weight)
    assert default_prompting(str(tmp_path / "deep" / "model"), "any") == agent.prompting


def test_a_wording_of_one_s_own_travels_with_the_policy(tmp_path, language_model):
    own = tmp_path / "short.toml"
    own.write_text('id = "short"\nversion = 2\nextends = "terse"\n[sections]\nstuck = "nothing"\n')
    agent = SavedAgent(Prompting(wording=str(own), answer="bare"), TRAINING)
    save_agent(tmp_path / "model", language_model, agent)
    own.unlink()
    (tmp_path / "model").rename(tmp_path / "elsewhere")
    found = read_agent(tmp_path / "elsewhere")
    assert found.prompting.template == agent.prompting.template
    save_agent(tmp_path / "elsewhere", language_model, found)
    assert read_agent(tmp_path / "elsewhere") == found


def test_a_directory_may_say_nothing(tmp_path, language_model):
    save_model(tmp_path, language_model)
    assert read_agent(tmp_path) is None
    assert default_prompting(str(tmp_path), SOKOBAN) == Prompting.default(suite_spec(SOKOBAN).prompt)
    with pytest.raises(UsageError, match="does not exist: give the path of a saved model"):
        read_agent(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 2}, "schema 2 is not 3; save the model anew"),
        ({"schema": 4}, "schema 4 is not 3; save the model anew"),
        ({"trainig": {}}, r"unknown key 'trainig' \(did you mean 'training'\?\)"),
        ({"prompting": []}, "prompting: expected a table"),
        ({"training": {"env_id": SOKOBAN}}, "key 'algorithm' is missing"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, change, message):
    table = SavedAgent(Prompting.tiny(suite_spec(SOKOBAN).prompt), TRAINING).to_json()
    (tmp_path / "agent.json").write_text(json.dumps({**table, **change}))
    with pytest.raises(UsageError, match=f"agent.json: .*{message}"):
        read_agent(tmp_path)
    (tmp_path / "agent.json").write_text("{")
    with pytest.raises(UsageError, match=r"agent\.json: not JSON: Expecting"):
        read_agent(tmp_path)


def test_the_sha256_is_that_of_all_weights_in_order(tmp_path, language_model):
    save_model(tmp_path, language_model)
    weights = (tmp_path / "model.safetensors").read_bytes()
    assert weights_sha256(tmp_path) == hashlib.sha256(weights).hexdigest()
    (tmp_path / "model-00002.safetensors").write_bytes(weights[100:])
    (tmp_path / "model-00001.safetensors").write_bytes(weights[:100])
    (tmp_path / "model.safetensors").unlink()
    assert weights_sha256(tmp_path) == hashlib.sha256(weights).hexdigest()
    with pytest.raises(UsageError, match=r"holds no \*\.safetensors"):
        weights_sha256(tmp_path.parent)


def test_a_tiny_model_is_made_for_its_environment(envs):
    prompting = Prompting.tiny(suite_spec(SOKOBAN).prompt)
    texts = vocabulary_texts("tiny:0.1m", [(envs, prompting)])
    first, again, other = (open_model("tiny:0.1m", texts, prompting, seed) for seed in (1, 1, 2))
    assert torch.equal(first.model.lm_head.weight, again.model.lm_head.weight)
    assert not torch.equal(first.model.lm_head.weight, other.model.lm_head.weight)
    assert first.tokenizer.get_vocab() == other.tokenizer.get_vocab()
    for text in ("up", " up", "actions", "Nothing happened", "stuck"):
        assert len(first.chat.encode(text)) == len(text.split())
    wide = open_model("tiny:0.1m", texts, prompting.replaced({"budget": 5000}), 1)
    assert wide.model.config.max_position_embeddings == 5512


def test_a_path_is_loaded(tmp_path, language_model, envs):
    save_model(tmp_path, language_model)
    assert vocabulary_texts(str(tmp_path), [(envs, Prompting.default(suite_spec(SOKOBAN).prompt))]) == []
    loaded = open_model(
        str(tmp_path), [], Prompting.default(suite_spec(SOKOBAN).prompt), 0, dtype=torch.bfloat16
    )
    assert loaded.model.dtype == torch.bfloat16
    assert loaded.tokenizer.get_vocab() == language_model.tokenizer.get_vocab()


def test_sizes():
    assert (tiny_size("tiny"), tiny_size("tiny:5m"), tiny_size("tinytown"), tiny_size("./tiny")) == (
        "0.8m",
        "5m",
        None,
        None,
    )
    with pytest.raises(UsageError, match=r"unknown model 'tiny:8m' \(did you mean 'tiny:0.8m'\?\); choose"):
        tiny_size("tiny:8m")
