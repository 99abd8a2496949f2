"""`--plan`: activations counted on the meta device, and the arithmetic of its speed."""

import dataclasses
import json

import pytest
import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from agentgym.cli import main
from agentgym.training.config import TrainConfig, override
from agentgym.training.learner import attention
from agentgym.training.learner.gradients import recompute_layers
from agentgym.training.learner.logprobs import hidden_states
from agentgym.training.learner.packing import StepRow, pack_rows
from agentgym.training.machine.memory import BYTES, ModelSize, plan_memory
from agentgym.training.machine.pace import Rates, device_rates, plan_pace
from agentgym.training.machine.resources import Machine, resolve
from benchmarks.simulate import Turn, lock_step, own_pace

GIB = 2**30
SIZES = {
    "hidden_size": 256,
    "intermediate_size": 1024,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "tie_word_embeddings": True,
}
FAMILIES = {
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
}


class Kernel(torch.autograd.Function):
    """An attention kernel that saves what FlexAttention and FlashAttention save, and computes nothing."""

    @staticmethod
    def forward(ctx, query, key, value):
        output = torch.empty_like(query)
        ctx.save_for_backward(
            query, key, value, output, query.new_empty(query.shape[:-1], dtype=torch.float32)
        )
        return output

    @staticmethod
    def backward(ctx, gradient):
        return tuple(torch.empty_like(each) for each in ctx.saved_tensors[:3])


@pytest.fixture
def counted(monkeypatch):
    """Return a function that counts the bytes which a pass on the meta device stores for its gradient."""

    def attend(module, query, key, value, mask, **settings):
        return Kernel.apply(query, key, value).transpose(1, 2), None

    monkeypatch.setattr(attention, "flex_attention_forward", attend)  # refuses the meta device

    def count(model, tokens):
        weights = {weight.untyped_storage()._cdata for weight in model.parameters()}
        stored = {}

        def store(tensor):
            storage = tensor.untyped_storage()
            if storage._cdata not in weights and tensor.numel() > 1:
                stored[storage._cdata] = tensor  # keeps the storage, so that its address stays its own
            return tensor

        (pack,) = pack_rows([StepRow(tuple(range(tokens)), (1,))], token_budget=tokens, device="meta")
        with torch.autograd.graph.saved_tensors_hooks(store, lambda tensor: tensor):
            states = hidden_states(model.base_model, pack)
        assert states.is_meta
        return sum(tensor.untyped_storage().nbytes() for tensor in stored.values())

    return count


def meta_model(family, dtype, **changes):
    settings, make = FAMILIES[family]
    with torch.device("meta"):
        return make(settings(**{**SIZES, **changes})).to(getattr(torch, dtype))


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("family", FAMILIES)
def test_a_layer_s_activations_are_those_that_autograd_stores_on_the_meta_device(counted, family, dtype):
    tokens = 500
    found = [counted(meta_model(family, dtype, num_hidden_layers=layers), tokens) for layers in (2, 4)]
    size = ModelSize.of(meta_model(family, dtype))
    # beside the plan's, a float32 number a token and head of attention, and one a norm and head
    assert size.layer_bytes(BYTES[dtype]) * tokens == pytest.approx((found[1] - found[0]) / 2, rel=0.01)


@pytest.mark.parametrize("dtype", BYTES)
def test_layers_computed_again_store_their_inputs(counted, dtype):
    tokens, found = 500, []
    for layers in (2, 4):
        model = meta_model("qwen2", dtype, num_hidden_layers=layers)
        recompute_layers(model)
        found.append(counted(model.train(), tokens))
    number, size = BYTES[dtype], ModelSize.of(meta_model("qwen2", dtype))
    inputs = size.held(number, again=True) - size.layer_bytes(number)
    assert inputs * tokens == 2 * (found[1] - found[0])


def test_an_adapter_s_activations_are_counted():
    size = ModelSize.of(meta_model("qwen2", "float32"))
    assert size.held(2, again=False, rank=8) - size.held(2, again=False) == 2 * 8 * len(size.linear)


def config(**changes):
    plain = TrainConfig(algorithm="gspo", env_id="agentgym/EZPoints-v0", model="tiny:0.1m")
    return override(plain, {key.replace("__", "."): value for key, value in changes.items()})


H100 = Machine("cuda", "NVIDIA H100 80GB HBM3", 80 * GIB, has_vllm=True)


@pytest.fixture(scope="module")
def size():
    sizes = {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
    }
    return ModelSize.of(meta_model("qwen2", "float32", vocab_size=151_936, **sizes))


def test_offloaded_weights_are_in_main_memory(size):
    resolved = resolve(config(learner__offload=True, rollout__engine="hf"), H100, size)
    plan = plan_memory(size, resolved, device_memory=H100.memory)
    assert plan.always["weights"] == plan.always["gradients"] == plan.always["moments"] == 0
    assert plan.main["offloaded"] == 16 * size.parameters
    on_cpu = dataclasses.replace(resolved, device="cpu")
    assert plan_memory(size, on_cpu).always["weights"] == 4 * size.parameters
    assert plan_memory(size, on_cpu).main["offloaded"] == 0


def test_an_adapter_is_counted_where_it_goes(size):
    changes = {"learner__lora_rank": 16, "rollout__engine": "hf"}
    plan = plan_memory(size, resolve(config(**changes), H100, size))
    adapter = 2 * size.adapter(16)
    assert plan.always["engine"] == 2 * size.parameters + adapter
    plan = plan_memory(size, resolve(config(**changes | {"rollout__engine": "vllm"}), H100, size))
    assert (plan.sync["new weights"], plan.main["new weights"]) == (0, adapter)


def test_a_reward_model_is_counted(size):
    plain = resolve(config(learner__dtype="bfloat16"), H100, size)
    prime = resolve(override(plain, {"algorithm": "prime"}), H100, size)
    assert plan_memory(size, plain).always["reward model"] == 0
    assert plan_memory(size, prime).always["reward model"] == (16 + 2) * size.parameters


def test_the_cache_of_vllm_holds_its_share_less_the_weights(size):
    plan = plan_memory(size, resolve(config(rollout__vllm_memory=0.5), H100, size), device_memory=H100.memory)
    assert plan.cache_tokens == (40 * GIB - 2 * size.parameters) // size.cached(2)


def test_an_update_takes_a_third_longer_for_each_pass_without_a_gradient():
    rates = Rates(step=0.01, row=0.001, token=1e-5, learn=3e-5, rest=2.0)
    assert rates.update(1000) == pytest.approx(2.03)
    assert rates.update(1000, passes=1) == pytest.approx(2.04)
    assert rates.decode(rows=10, steps=5) == pytest.approx(0.1)


def test_the_simulated_clock_and_the_plan_are_one_arithmetic():
    rates = Rates(step=0.01, row=0.001, token=1e-5)
    alike = [[Turn(300, 20)] * 3] * 8
    expected = 3 * (rates.decode(8, 20) + 8 * 300 * rates.token)
    assert lock_step(alike, rates) == pytest.approx(expected)
    assert own_pace(alike, rates) == pytest.approx(expected)
    uneven = [[Turn(300, 5 + 10 * (number + turn) % 37) for turn in range(3)] for number in range(8)]
    assert own_pace(uneven, rates) < lock_step(uneven, rates)


def test_rates_of_a_gpu_are_those_of_its_data_sheet(size):
    fast, slow = device_rates(size, H100, engine="vllm", number=2)
    assert fast.step == pytest.approx(3.2e-3 + 2 * size.parameters / (0.8 * 3.35e12))
    assert fast.learn == pytest.approx(6 * size.parameters / (0.45 * 989e12))
    assert all(low < high for low, high in zip(fast, slow, strict=True))
    named = dataclasses.replace(H100, name="a GPU")
    assert device_rates(size, named, engine="vllm", number=2) == [fast, slow]
    hf, _ = device_rates(size, H100, engine="hf", number=2)
    assert hf.step == pytest.approx(28 * 1.6e-3)


def test_a_plan_of_a_run_states_its_load_and_where_each_rate_comes_from(size):
    resolved = resolve(config(env_options={"max_steps": 4}, rollout__engine="vllm"), H100, size)
    seconds, tokens, load, *sources = plan_pace(size, resolved, H100)
    assert "s an iteration: sampling" in seconds
    assert "tokens a second sampled" in tokens
    assert load.startswith("load: 128 episodes of 2 turns of ")
    assert " to 4 turns of " in load
    assert all("unmeasured" in line for line in sources)
    measured = plan_pace(size, resolve(config(), Machine("cpu", "CPU", 0)), Machine("cpu", "CPU", 0))
    assert "benchmarks/plan.md" in measured[-1]


def test_half_of_the_ranks_take_about_twice_as_long_to_sample_and_learn(size):
    resolved = resolve(config(rollout__engine="vllm"), H100, size)

    def fastest(ranks):
        line = plan_pace(size, resolved, dataclasses.replace(H100, ranks=ranks))[0]
        return int(line.partition(" ")[0].replace(",", ""))

    assert fastest(1) > fastest(2) > fastest(8)


def test_the_command_prints_speed_beside_memory(tmp_path, capsys):
    (tmp_path / "config.json").write_text(json.dumps({**SIZES, "model_type": "qwen2"}))
    words = ["train", "grpo", "--env", "agentgym/EZPoints-v0", "--preset", "plain", "--model", str(tmp_path)]
    assert main([*words, "--plan", "--device-memory", "80", "--set", "learner.offload=true"]) == 0
    shown = capsys.readouterr().out
    assert "GiB main memory  offloaded" in shown
    assert "s an iteration: sampling" in shown
    assert "an H100 (assumed)" in shown


@pytest.mark.parametrize(("level", "moved"), [(0, 0), (1, 2), (2, 0)])
def test_weights_of_an_engine_that_sleeps_are_in_main_memory(size, level, moved):
    changes = {"rollout__engine": "vllm", "rollout__vllm_sleep": level}
    plan = plan_memory(size, resolve(config(**changes), H100, size), device_memory=H100.memory)
    assert plan.main["sleeping engine"] == moved * size.parameters
