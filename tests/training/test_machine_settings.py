"""Settings that follow from the machine, and old log-probabilities where the engine rounds."""

import copy
import dataclasses
import json

import numpy as np
import pytest

from agentgym.algos.objective import Objective
from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.training.config import TrainConfig, override, read_config
from agentgym.training.learner import head
from agentgym.training.learner.config import CHUNK_LOGITS, CPU_TOKENS, IMPORTANCE_CAP, LearnerConfig
from agentgym.training.learner.update import Learner
from agentgym.training.machine.memory import ModelSize, plan_memory
from agentgym.training.machine.resources import (
    CPU_ENVS,
    HEAD_ROWS,
    Machine,
    check_feasible,
    described,
    resolve,
)
from agentgym.training.run import start
from tests.training.batches import some_batch, some_rows

GIB = 2**30
H100 = Machine("cuda", "NVIDIA H100 80GB HBM3", 80 * GIB, has_vllm=True)
CPU = Machine("cpu", "CPU", 16 * GIB)
QWEN = {
    "model_type": "qwen2",
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
"""Sizes of Qwen2.5-1.5B."""


VISION = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "num_heads": 16,
    "patch_size": 14,
    "window_size": 112,
    "fullatt_block_indexes": [7, 15, 23, 31],
}
VISUAL = {
    "3B": (2048, 11008, 36, 16, 2, 151936, True),
    "7B": (3584, 18944, 28, 28, 4, 152064, False),
}
"""Of Qwen2.5-VL: width, inner width, layers, heads, key-value heads, vocabulary, tied embeddings."""


def write_visual(folder, name):
    width, inner, layers, heads, key_value_heads, vocabulary, tied = VISUAL[name]
    sizes = {
        "model_type": "qwen2_5_vl",
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "hidden_size": width,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": key_value_heads,
        "vocab_size": vocabulary,
        "max_position_embeddings": 128_000,
        "tie_word_embeddings": tied,
        "vision_config": {**VISION, "out_hidden_size": width},
    }
    (folder / "config.json").write_text(json.dumps(sizes))


@pytest.mark.parametrize(
    ("name", "billions", "devices", "fits"),
    [("3B", 3.75, 1, False), ("3B", 3.75, 8, True), ("7B", 8.29, 1, False), ("7B", 8.29, 8, True)],
)
def test_a_model_of_pictures_is_planned(tmp_path, capsys, name, billions, devices, fits):
    write_visual(tmp_path, name)
    words = ["train", "--recipe", "gigpo/gigpo-visual-sokoban", "--model", str(tmp_path)]
    assert main([*words, "--plan", str(devices), "--device-memory", "80"]) == (0 if fits else 1)
    shown = capsys.readouterr().out
    assert f"{billions} billion parameters, {VISUAL[name][2]} layers" in shown
    assert "update  pictures" in shown
    size = ModelSize.read(tmp_path)
    assert (size.patches, size.encoder.layers) == (4, 32)
    embedding = VISUAL[name][0] * VISUAL[name][5]
    assert size.body == size.parameters - (0 if VISUAL[name][6] else embedding)
    text = ["train", "--recipe", "gigpo/gigpo-sokoban", "--model", str(tmp_path)]
    main([*text, "--plan", str(devices), "--device-memory", "80"])
    assert "update  pictures" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "told"),
    [({}, False), ({"num_hidden_layers": 340}, True), ({"model_type": "qwen3_moe", "num_experts": 8}, True)],
)
def test_a_plan_says_where_larger_models_are_trained(tmp_path, capsys, changes, told):
    (tmp_path / "config.json").write_text(json.dumps({**QWEN, **changes}))
    main(["train", "--recipe", "gigpo/gigpo-alfworld", "--model", str(tmp_path), "--plan", "8"])
    assert ("use verl with these environments" in capsys.readouterr().out) == told


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    (folder / "config.json").write_text(json.dumps(QWEN))
    return folder


def config(**changes):
    plain = TrainConfig(algorithm="gspo", env_id="agentgym/EZPoints-v0", model="tiny:0.1m")
    return override(plain, {key.replace("__", "."): value for key, value in changes.items()})


def test_every_ratio_of_a_single_step_is_one_in_bfloat16(tmp_path):
    """The engine's own numbers would be clipped: GSPO's range is 3e-4, rounding is 1e-2."""
    settings = {
        "iterations": 2,
        "rollout.tasks": 4,
        "rollout.group_size": 4,
        "learner.dtype": "bfloat16",
        "learner.minibatches": 1,
        "objective.kl_coefficient": 0.0,
        "evaluation.every": 0,
    }
    start(override(config(), settings), tmp_path, logs=["jsonl"])
    assert read_config(tmp_path).learner.old_log_probs == "recompute"
    for line in read_metrics(tmp_path):
        assert line.clip_fraction == 0
        assert abs(line.importance - 1) > 1e-6  # of the engine's gap, on-policy
        assert line.logp_diff > 1e-4


def test_recomputed_log_probs_take_the_engines_rounding_out_of_the_gradient(language_model):
    rows, objective = some_rows(), Objective(ratio="sequence", clip_low=3e-4, clip_high=3e-4)
    batch = some_batch(language_model.model, rows, ref_log_probs=None, values=None, returns=None)
    found = []
    for where in ("recompute", "engine"):
        settings = LearnerConfig(old_log_probs=where, max_grad_norm=None)
        learner = Learner(copy.deepcopy(language_model.model), objective, settings)
        found.append(learner.update(rows, batch, seed=0))
    own = dataclasses.replace(batch, old_log_probs=learner_log_probs(language_model, rows))
    exact = Learner(copy.deepcopy(language_model.model), objective, LearnerConfig(max_grad_norm=None))
    expected = exact.update(rows, own, seed=0)
    assert found[0].clip_fraction == expected.clip_fraction == 0
    assert found[0].grad_norm == pytest.approx(expected.grad_norm, rel=1e-5)
    assert found[0].logp_diff == pytest.approx(found[1].logp_diff)
    assert found[1].clip_fraction > 0.1


def learner_log_probs(language_model, rows):
    return Learner(copy.deepcopy(language_model.model), Objective(), LearnerConfig()).log_probs(rows)


@pytest.mark.parametrize(
    ("changes", "engine", "old", "cap"),
    [
        ({}, "hf", "engine", None),
        ({"learner__dtype": "bfloat16"}, "hf", "recompute", IMPORTANCE_CAP),
        ({"rollout__engine": "vllm"}, "vllm", "recompute", IMPORTANCE_CAP),
        ({"rollout__engine": "vllm", "learner__old_log_probs": "recompute"}, "vllm", "recompute", None),
        ({"learner__dtype": "bfloat16", "rollout__max_staleness": 1}, "hf", "recompute", IMPORTANCE_CAP),
        ({"learner__dtype": "bfloat16", "learner__old_log_probs": "engine"}, "hf", "engine", None),
        ({"rollout__max_staleness": 1}, "hf", "engine", None),
    ],
)
def test_old_log_probs_are_recomputed_where_the_engine_rounds_otherwise(changes, engine, old, cap):
    resolved = resolve(config(**changes), CPU)
    assert (resolved.rollout.engine, resolved.learner.old_log_probs) == (engine, old)
    assert resolved.learner.importance_cap == cap
    assert resolve(resolved, CPU) == resolved


def test_a_cpu_gets_what_it_always_got(large):
    resolved = resolve(config(), CPU)
    assert resolved == resolve(config(), CPU, ModelSize.read(large))
    learner = resolved.learner
    assert (resolved.device, learner.dtype, resolved.rollout.num_envs) == ("cpu", "float32", CPU_ENVS)
    assert (learner.token_budget, learner.chunk_logits) == (CPU_TOKENS, CHUNK_LOGITS)
    assert learner.gradient_checkpointing is False
    assert resolve(resolved, H100).learner == resolved.learner  # what has been chosen stays
    assert [name for name, _ in described(resolved, CPU)] == ["device", "dtype", "engine", "update"]


def test_a_gpu_gets_what_fits_it(large):
    size = ModelSize.read(large)
    assert size.parameters == pytest.approx(1.54e9, rel=0.01)
    resolved = resolve(config(prompting__budget=2048, prompting__max_tokens=512), H100, size)
    learner = resolved.learner
    assert (learner.dtype, resolved.rollout.engine, resolved.rollout.num_envs) == ("bfloat16", "vllm", 128)
    assert learner.token_budget >= 8_192
    assert not learner.gradient_checkpointing
    assert plan_memory(size, resolved, device_memory=H100.memory).peak <= 0.9 * H100.memory
    small = resolve(resolved_without(resolved), dataclasses.replace(H100, memory=48 * GIB), size)
    assert small.learner.gradient_checkpointing
    assert plan_memory(size, small, device_memory=48 * GIB).peak <= 0.9 * 48 * GIB
    asked = resolve(config(learner__token_budget=999, learner__gradient_checkpointing=False), H100, size)
    assert (asked.learner.token_budget, asked.learner.gradient_checkpointing) == (999, False)


def test_an_engine_that_sleeps_leaves_its_memory_to_the_update(large):
    size, given = ModelSize.read(large), {"rollout__vllm_memory": 0.6}
    awake, asleep = (resolve(config(**given, rollout__vllm_sleep=level), H100, size) for level in (0, 2))
    before, after = (plan_memory(size, each, device_memory=H100.memory) for each in (awake, asleep))
    assert before.always["engine"] == after.sampling["engine"] == int(0.6 * H100.memory)
    assert "engine" not in after.always
    assert after.sync["engine's weights"] == 2 * size.parameters
    assert awake.learner.token_budget < asleep.learner.token_budget
    assert awake.rollout.vllm_sleep == 0
    assert resolve(config(**given), H100, size).rollout.vllm_sleep == 1
    ahead = config(**given, rollout__max_staleness=1)
    overlapping = plan_memory(size, resolve(ahead, H100, size), device_memory=H100.memory)
    assert "engine" in overlapping.always  # it samples while weights are updated


def test_the_cache_of_prompts_is_planned(large):
    size = ModelSize.read(large)
    given = resolve(config(rollout__engine="hf", rollout__prompt_cache=100_000), H100, size)
    plan = plan_memory(size, given, device_memory=H100.memory)
    assert plan.sampling["prompt cache"] == 100_000 * size.cached(2)


def test_an_optimiser_in_main_memory_takes_the_rank_s_cores(large):
    size, machine = ModelSize.read(large), dataclasses.replace(H100, cores=13)
    assert resolve(config(), machine, size).threads == 1
    offloaded = resolve(config(learner__offload=True), machine, size)
    assert offloaded.threads == 13
    assert dict(described(offloaded, machine))["device"].endswith("80 GiB, 13 threads")
    assert resolve(config(learner__offload=True, threads=20), machine, size).threads == 20
    assert resolve(config(learner__offload=True), CPU).threads == 1


@pytest.mark.parametrize("memory", [24, 48, 80, 141])
def test_the_head_computes_many_rows_at_once_whatever_share_vllm_takes(large, memory):
    size = ModelSize.read(large)
    for share in (0.2, 0.4, 0.6):
        machine = dataclasses.replace(H100, memory=memory * GIB)
        learner = resolve(config(rollout__vllm_memory=share), machine, size).learner
        assert learner.chunk_logits >= HEAD_ROWS * size.vocabulary


def test_a_token_budget_is_no_more_than_a_ranks_share_of_a_minibatch(large):
    size = ModelSize.read(large)
    given = config(
        learner__minibatch_steps=256, prompting__budget=1024, prompting__max_tokens=256, rollout__vllm_sleep=0
    )

    def budget(ranks):
        return resolve(given, dataclasses.replace(H100, ranks=ranks), size).learner.token_budget

    # at 8 ranks 49,152 tokens would fit with layers computed again
    assert [budget(ranks) for ranks in (8, 64, 256)] == [12_288, 8_192, 2_048]


def resolved_without(resolved):
    learner = dataclasses.replace(
        resolved.learner, token_budget=0, chunk_logits=0, gradient_checkpointing=None
    )
    return dataclasses.replace(resolved, learner=learner)


def test_ranks_share_what_is_trained(large):
    size = ModelSize.read(large)
    resolved = resolve(config(), H100, size)
    alone, shared = (plan_memory(size, resolved, ranks=ranks).always for ranks in (1, 8))
    assert shared["moments"] == alone["moments"] // 8
    adapted = plan_memory(size, override(resolved, {"learner.lora_rank": 16}), ranks=1)
    assert adapted.always["moments"] < alone["moments"] / 50
    assert {what for _, what, _ in adapted.rows()} >= {"weights", "moments", "head", "activations"}


def test_an_engine_has_weights_of_its_own_where_the_learner_s_do_not_serve(large):
    size = ModelSize.read(large)
    plain = {"learner__dtype": "float32", "rollout__engine": "hf"}

    def engine(ranks=1, **changes):
        resolved = resolve(config(**plain | changes), H100, size)
        return plan_memory(size, resolved, ranks=ranks).always["engine"]

    assert engine() == 0
    assert engine(learner__dtype="bfloat16") == 2 * size.parameters
    assert engine(rollout__max_staleness=1, rollout__overlap=True) == 4 * size.parameters
    assert engine(rollout__max_staleness=1, rollout__overlap=False) == 0
    assert engine(learner__lora_rank=4) == 0
    assert engine(ranks=2) == 4 * size.parameters


def test_a_billion_weights_on_one_cpu_thread_are_refused(large, tmp_path):
    resolved = resolve(config(model=str(large)), CPU)
    with pytest.raises(UsageError, match=r"1\.5 billion parameters.*insist by --force"):
        check_feasible(resolved)
    check_feasible(dataclasses.replace(resolved, threads=8))
    check_feasible(resolve(config(), CPU))
    with pytest.raises(UsageError, match="insist by --force") as raised:
        start(config(model=str(large), device="cpu"), tmp_path / "run", logs=[])
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_entropies_that_nobody_minimises_are_not_differentiated(language_model, monkeypatch):
    calls = []
    original = head._entropies
    monkeypatch.setattr(head, "_entropies", lambda chances: calls.append(len(chances)) or original(chances))
    rows = some_rows()
    gradients = []
    for coefficient in (0.0, 1e-12):
        calls.clear()
        learner = Learner(
            copy.deepcopy(language_model.model),
            Objective(),
            LearnerConfig(entropy_coefficient=coefficient, token_budget=1000),
        )
        learner.update(rows, some_batch(language_model.model, rows), seed=0)
        gradients.append((len(calls), np.array([weight.sum().item() for _, weight in learner.weights()])))
    (without, ours), (with_, theirs) = gradients
    assert without < with_
    assert np.allclose(ours, theirs)


@pytest.mark.parametrize(("heads", "body"), [(0, 2_000 + 300), (1, 2_000 + 300)])
def test_a_critics_body_is_without_a_head_of_its_own(heads, body):
    """A head that shares the embedding's weights is counted once: the body keeps them."""
    sizes = {"hidden": 3, "intermediate": 12, "queries": 3, "keys": 3, "linear": ()}
    size = ModelSize(
        parameters=2_000 + 300 + heads * 300, layers=2, layer_parameters=1_000, vocabulary=100, **sizes
    )
    assert size.body == body


@pytest.mark.parametrize(
    ("changes", "pace", "level"),
    [
        ({}, True, 1),
        ({"rollout__engine": "hf"}, True, 0),
        ({"rollout__max_staleness": 1}, True, 0),
        ({"rollout__max_staleness": 1, "rollout__overlap": False}, False, 1),
        ({"rollout__asynchronous": False, "rollout__vllm_sleep": 0}, False, 0),
        ({"rollout__engine": "vllm", "rollout__servers": ["http://localhost:1"]}, True, 0),
    ],
)
def test_on_a_gpu_episodes_go_at_their_own_pace_and_vllm_sleeps(large, changes, pace, level):
    size = ModelSize.read(large)
    chosen = resolve(config(**changes), H100, size).rollout
    assert (chosen.asynchronous, chosen.vllm_sleep) == (pace, level)
    if changes.get("rollout__engine") != "vllm" and "rollout__asynchronous" not in changes:
        on_cpu = resolve(config(**changes), CPU).rollout
        assert (on_cpu.asynchronous, on_cpu.vllm_sleep) == (False, 0)
