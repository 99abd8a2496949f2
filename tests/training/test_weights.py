"""Models whose weights are read from their files as needed: bit for bit what `transformers` loads."""

import copy
import json
import weakref

import pytest
import torch
from safetensors.torch import save_file
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedModel,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)

from agentgym.errors import UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.models import weights
from agentgym.inference.models.families import make_family_model
from agentgym.inference.models.language_model import (
    LanguageModel,
    copied,
    load_model,
    open_directory,
    save_model,
)
from agentgym.inference.models.lora import merged_weights
from agentgym.inference.models.tiny import tiny_vision_model, word_tokenizer
from agentgym.training.config import TrainConfig, override
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.update import Learner
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from tests.training.batches import OBJECTIVES, some_batch, some_rows

KINDS = ("qwen2", "qwen3", "llama3", "vl")


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for kind in KINDS[:-1]:
        save_model(folder / kind, make_family_model(kind, ["Go up."], context=4096))
    save_model(folder / "vl", tiny_vision_model("0.1m", word_tokenizer(["Go up."])))
    return folder


def tensors(model):
    return [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]


def assert_equal(ours, theirs):
    for (name, tensor), (other, expected) in zip(tensors(ours), tensors(theirs), strict=True):
        assert name == other
        assert tensor.dtype == expected.dtype, name
        assert torch.equal(tensor, expected), name
        assert tensor.requires_grad == expected.requires_grad
    assert len(list(ours.parameters())) == len(list(theirs.parameters()))  # as many are tied


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind", KINDS)
def test_a_model_is_bit_for_bit_the_library_s(directories, kind, dtype):
    family = AutoModelForImageTextToText if kind == "vl" else AutoModelForCausalLM
    expected = family.from_pretrained(directories / kind, dtype=dtype)
    opened = open_directory(directories / kind, dtype=dtype)
    assert opened.weights is not None
    assert {weight.device.type for weight in opened.model.parameters()} == {"meta"}
    loaded = load_model(directories / kind, dtype=dtype)
    assert loaded.weights is None
    assert_equal(loaded.model, expected)
    assert loaded.model.training is expected.training is False
    assert loaded.model.config.to_dict() == expected.config.to_dict()
    assert loaded.model.generation_config.to_dict() == expected.generation_config.to_dict()
    assert_equal(copied(opened.model, torch.bfloat16, opened.weights), copied(expected, torch.bfloat16))


def test_weights_are_read_from_several_files_and_in_blocks(directories, tmp_path, monkeypatch):
    monkeypatch.setattr(weights, "BLOCK", 1000)
    expected = load_model(directories / "llama3")
    expected.model.save_pretrained(tmp_path, max_shard_size="100KB")
    expected.tokenizer.save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("*.safetensors"))) > 3
    assert_equal(load_model(tmp_path).model, expected.model)
    index = tmp_path / weights.INDEX
    table = json.loads(index.read_text())
    for damaged, complaint in (
        ({**table, "weight_map": dict.fromkeys(table["weight_map"], "../x.safetensors")}, "which is not in"),
        ({**table, "weight_map": {}}, "lists no weights"),
    ):
        index.write_text(json.dumps(damaged))
        with pytest.raises(UsageError, match=complaint) as raised:
            load_model(tmp_path)
        assert "\n" not in str(raised.value)


def test_one_weight_under_two_names_of_a_module_stays_one(tmp_path):
    save_file({"stored": torch.ones(3, 2)}, tmp_path / "a.safetensors")
    place = tmp_path / "a.safetensors", "stored"
    module = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False, device="meta"))
    module[0].also = module[0].weight
    weights.WeightFiles(tmp_path, {"0.weight": place, "0.also": place}).fill(module, torch.device("cpu"))
    assert torch.equal(module[0].weight, torch.ones(3, 2))
    assert module[0].also is module[0].weight


def test_weights_in_another_format_are_refused_in_one_line(directories, tmp_path):
    loaded = load_model(directories / "qwen2")
    loaded.model.config.save_pretrained(tmp_path)
    loaded.tokenizer.save_pretrained(tmp_path)
    torch.save(loaded.model.state_dict(), tmp_path / "pytorch_model.bin")
    with pytest.raises(UsageError, match="save the weights in that format") as raised:
        load_model(tmp_path)
    assert "\n" not in str(raised.value)


def test_files_that_are_gone_when_weights_are_read_are_one_line(directories, tmp_path):
    save_model(tmp_path, load_model(directories / "qwen2"))
    opened = open_directory(tmp_path)
    (tmp_path / weights.WEIGHTS).write_bytes(b"cut")
    with pytest.raises(UsageError, match="copy the model anew") as raised:
        opened.weights.fill(opened.model, torch.device("cpu"))
    assert "\n" not in str(raised.value)


def test_weights_that_are_put_together_are_loaded_by_the_library(tmp_path):
    tokenizer = word_tokenizer(["Go up."])
    config = Qwen3MoeConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        moe_intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        num_experts=4,
        num_experts_per_tok=2,
    )
    made = Qwen3MoeForCausalLM(config)
    save_model(tmp_path, LanguageModel(made, tokenizer))
    opened = open_directory(tmp_path)
    assert opened.weights is None
    assert_equal(opened.model, made)


CASES = {
    "reference and critic": ("response", "step", {}),
    "adapter": ("response", None, {"lora_rank": 2}),
    "bfloat16": ("step", "token", {"dtype": "bfloat16", "gradient_checkpointing": True}),
    "adapter in bfloat16": ("token", None, {"lora_rank": 2, "dtype": "bfloat16", "offload": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_learner_learns_the_same_whoever_read_its_weights(directories, case):
    objective, valued, settings = CASES[case]
    rows = some_rows(4)
    batch = some_batch(load_model(directories / "qwen2").model, rows, valued=valued or "step")
    config = LearnerConfig(learning_rate=1e-3, critic_learning_rate=1e-3, **settings)
    found = []
    for load in (load_model, open_directory):
        opened = load(directories / "qwen2")
        critic = None if valued is None else Critic(opened.model, valued)
        learner = Learner(opened.model, OBJECTIVES[objective], config, critic=critic, weights=opened.weights)
        found.append([copy.deepcopy(learner.state_dict()), learner.update(rows, batch, seed=0)])
        found[-1].append(dict(learner.weights()))
    (before, metrics, after), (own, measured, result) = found
    for name in before:
        if not name.endswith("optimizer"):
            assert before[name].keys() == own[name].keys()
            assert all(torch.equal(before[name][key], own[name][key]) for key in own[name])
    assert metrics == measured
    assert all(torch.equal(after[name], result[name]) for name in after)


def test_a_sync_holds_one_new_tensor_at_a_time_and_is_refused_before_the_first(directories):
    model = load_model(directories / "llama3").model
    engine, expected = HfEngine(model), copy.deepcopy(model.state_dict())
    alive, most = weakref.WeakSet(), []

    def made():
        for name, tensor in expected.items():
            new = tensor + 1
            alive.add(new)
            yield name, new
            del new
            most.append(len(alive))

    shapes = {name: tensor.shape for name, tensor in expected.items()}
    for wrong in ({**shapes, "other": torch.Size([1])}, dict(list(shapes.items())[1:])):
        with pytest.raises(UsageError, match="sync"):
            engine.sync(weights.NamedTensors(wrong, made), 1)
    assert not most
    assert engine.version == 0
    engine.sync(weights.NamedTensors(shapes, made), 1)
    assert max(most) == 1
    assert all(torch.equal(tensor, expected[name] + 1) for name, tensor in model.state_dict().items())


def test_where_weights_wait_nothing_is_computed(directories, monkeypatch):
    rows = some_rows(4)
    batch = some_batch(load_model(directories / "qwen2").model, rows)
    opened = open_directory(directories / "qwen2")
    critic = Critic(opened.model, "step")
    config = LearnerConfig(offload=True)
    learner = Learner(opened.model, OBJECTIVES["token"], config, critic=critic, weights=opened.weights)
    asked = []
    monkeypatch.setattr(PreTrainedModel, "device", property(asked.append))
    learner.log_probs(rows)
    learner.values(rows)
    learner.embeddings(rows)
    learner.update(rows, batch, seed=0)
    assert not asked


def test_a_run_reads_the_policy_its_engine_and_its_reward_model(directories):
    plain = TrainConfig(algorithm="istar", env_id="agentgym/Sokoban-v0", model=str(directories / "qwen2"))
    expected = load_model(directories / "qwen2").model
    for rank in (None, 2):
        config = override(plain, {"learner.lora_rank": rank, "rollout.num_envs": 2, "evaluation.every": 0})
        setup = TrainingSetup.open(resolve(config), Ranks())
        setup.close()
        assert setup.engine.model is setup.learner.model
        for learner in (setup.learner, setup.reward_model):
            own = dict(merged_weights(learner.model))
            assert all(torch.equal(own[name], weight) for name, weight in expected.named_parameters())
