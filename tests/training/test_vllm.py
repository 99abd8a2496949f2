"""The engine over vLLM, on a stand-in for it: what it asks, in which order, and what it refuses."""

import math
import random
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.inference.engines import GenerationRequest, Sampling, weight_transfer
from agentgym.inference.engines.choices import ActionTrie
from agentgym.inference.engines.sync_check import CanaryError, SyncCheck
from agentgym.inference.engines.vllm import VllmEngine
from agentgym.inference.models.language_model import copied, load_model, save_model
from agentgym.inference.models.lora import Adapter
from agentgym.inference.models.pictures import Picture, PicturePrompt
from agentgym.prompts.settings import Prompting
from agentgym.training import setup
from agentgym.training.collect.config import RolloutConfig
from agentgym.training.config import TrainConfig, override
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.update import Learner
from agentgym.training.machine.resources import Machine, described, resolve
from agentgym.training.run import start
from tests.training import stand_in_vllm
from tests.training.batches import OBJECTIVES, some_batch, some_rows


@pytest.fixture(scope="module")
def directory(tmp_path_factory, language_model):
    path = tmp_path_factory.mktemp("model")
    save_model(path, language_model)
    return path


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch):
    stand_in_vllm.install(monkeypatch)


@pytest.fixture
def learner(directory):
    return load_model(directory).model


@pytest.fixture
def engine(directory, learner):
    return VllmEngine(directory, dtype=torch.float32)


def train(learner):
    with torch.no_grad():
        for weight in learner.parameters():
            weight.mul_(1.1)


def request(*, allowed=None, seed=0, **sampling):
    return GenerationRequest((5, 6, 7), allowed, Sampling(**sampling), seed)


def test_the_model_is_loaded_as_training_needs_it(engine, directory):
    options = engine._llm.options
    assert options.pop("weight_transfer_config").backend == "agentgym"
    assert options == {
        "model": str(directory),
        "dtype": "float32",
        "max_model_len": 128,
        "logprobs_mode": "processed_logprobs",
        "enable_prefix_caching": True,
        "skip_tokenizer_init": True,
        "generation_config": "vllm",
        "seed": 0,
    }


def test_loading_leaves_the_process_s_generators_alone(directory):
    random.random(), torch.rand(1), np.random.rand()  # noqa: NPY002 (so that they are not as if seeded)
    before = random.getstate(), torch.random.get_rng_state(), np.random.get_state()[1:3]  # noqa: NPY002
    VllmEngine(directory)
    assert random.getstate() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])
    assert np.random.get_state()[2] == before[2][1]  # noqa: NPY002
    assert np.array_equal(np.random.get_state()[1], before[2][0])  # noqa: NPY002


def test_options_are_passed_on(directory):
    options = {"gpu_memory_utilization": 0.4, "seed": 5}
    engine = VllmEngine(directory, context_length=80, options=options)
    assert engine.context_length == 80
    given = engine._llm.options
    assert (given["gpu_memory_utilization"], given["seed"]) == (0.4, 5)
    assert (given["max_model_len"], given["dtype"]) == (80, "bfloat16")
    assert VllmEngine(directory, context_length=4096).context_length == 128
    assert VllmEngine(directory, context_length=8).context_length == 65  # of the sync check


def test_vllm_that_does_not_start_is_one_line(directory, monkeypatch):
    def fail(self, **options):
        raise ValueError("36.00 GiB of cache is needed.\nDecrease `gpu_memory_utilization`")

    monkeypatch.setattr(stand_in_vllm.LLM, "__init__", fail)
    with pytest.raises(UsageError, match=r"36\.00 GiB of cache.*rollout\.vllm_memory") as raised:
        VllmEngine(directory)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("device", "context", "tokens"), [("cpu", "rebuilt", 90), ("cuda", "append", 90), ("cpu", "rebuilt", 500)]
)
def test_an_engine_has_room_for_a_prompt_and_its_response(directory, device, context, tokens):
    prompting = Prompting(
        wording="generic",
        answer="think-action",
        history=0,
        budget=70,
        max_tokens=tokens - 70,
        context=context,
    )
    config = TrainConfig(
        algorithm="grpo",
        env_id="agentgym/EZPoints-v0",
        prompting=prompting,
        rollout=RolloutConfig(engine="vllm", vllm_memory=0.3),
        learner=LearnerConfig(dtype="float32"),
    )
    engine = setup._engine(resolve(config), load_model(directory), Ranks(device=torch.device(device)))
    assert engine._llm.options["max_model_len"] == min(tokens, 128)  # which is all that the model has
    assert engine._llm.options["gpu_memory_utilization"] == 0.3
    assert engine._llm.options.get("enforce_eager", False) == (device == "cpu")
    ((_, said),) = [row for row in described(config, Machine("cuda", "H100", 80 << 30)) if row[0] == "engine"]
    assert f"{tokens} tokens each" in said


def test_free_responses_are_one_request_each(engine):
    engine.generate([request(seed=seed, temperature=0.7, max_tokens=4, stop_ids=(9,)) for seed in range(3)])
    asked = engine._llm.asked
    assert [prompt for prompt, _ in asked] == [(5, 6, 7)] * 3
    for _, parameters in asked:
        assert (parameters.temperature, parameters.max_tokens, parameters.stop_token_ids) == (0.7, 4, [9])
        assert parameters.allowed_token_ids is None
        assert parameters.ignore_eos
    assert len({parameters.seed for _, parameters in asked}) == 3


@pytest.mark.parametrize("submitted", [False, True])
def test_pictures_go_along_as_the_learner_has_them(engine, submitted):
    pictures = [
        Picture(name, torch.full((size, 3), float(size)), (1, 2, size // 2), size // 4)
        for name, size in (("a", 8), ("b", 16))
    ]
    shown = PicturePrompt(tuple(pictures), (2, 6), np.zeros((3, 12)))
    asked = replace(request(max_tokens=2), prompt_ids=tuple(range(12)), shown=shown)
    _ = engine.submit(asked).result(120) if submitted else engine.generate([asked])
    (prompt,) = engine._llm.prompts
    assert (prompt["type"], prompt["prompt_token_ids"]) == ("multimodal", list(range(12)))
    assert prompt["mm_hashes"] == {"image": ["a", "b"]}
    assert [(each.offset, each.length) for each in prompt["mm_placeholders"]["image"]] == [(2, 2), (6, 4)]
    for part, picture in zip(prompt["mm_kwargs"], pictures, strict=True):
        assert torch.equal(part["pixel_values"], picture.patches)
        assert part["image_grid_thw"].tolist() == list(picture.grid)


def test_requests_without_seeds_of_their_own_draw_anew_each_time(directory):
    def drawn(rank):
        engine = VllmEngine(directory, dtype=torch.float32, seeds=False)
        found = []
        for turn in range(3):
            asked = [request(seed=10 * rank + turn, temperature=9.0, max_tokens=8, stop_ids=(9,))] * 2
            found += [one.ids for one in engine.generate(asked)]
        assert {parameters.seed for _, parameters in engine._llm.asked} == {None}
        return found

    before = torch.random.get_rng_state()
    first = drawn(0)
    assert len(set(first)) == len(first)
    assert first == drawn(0)
    assert set(first).isdisjoint(drawn(1))
    assert torch.equal(before, torch.random.get_rng_state())


def test_choices_ask_only_for_tokens_with_an_alternative(engine):
    trie = ActionTrie({"a": (11, 12, 13), "b": (11, 12, 14), "c": (11, 12, 14, 15)}, end=20)
    asked = [request(allowed=trie, seed=seed, temperature=50.0) for seed in range(12)]
    generations = engine.generate(asked)
    assert {trie.action(generation.ids) for generation in generations} == {"a", "b", "c"}
    first, second = engine._llm.asked[:12], engine._llm.asked[12:]
    assert {prompt for prompt, _ in first} == {(5, 6, 7, 11, 12)}
    assert {prompt for prompt, _ in second} == {(5, 6, 7, 11, 12, 14)}
    assert len(second) == sum(trie.action(generation.ids) != "a" for generation in generations)
    for asked, allowed in ((first, [13, 14]), (second, [15, 20])):
        assert all((p.allowed_token_ids, p.max_tokens) == (allowed, 1) for _, p in asked)
    assert {p.seed for _, p in first}.isdisjoint(p.seed for _, p in second)


def test_a_sync_goes_through_its_phases(engine, learner):
    for version in (1, 2):
        train(learner)
        engine.sync(learner.named_parameters(), version)
    update = ["start", "update", "finish", "reset"]
    assert engine._llm.phases == ["init", *update, *update]
    assert engine.version == 2


def test_weights_that_arrive_wrong_are_noticed(engine, learner, monkeypatch):
    """As it was with a tied head, whose packed copy was that of the old weights."""
    train(learner)
    with monkeypatch.context() as broken:
        broken.setattr(weight_transfer, "_repack_tied_head", lambda model: None)
        with pytest.raises(CanaryError, match="its weights are not those it was given"):
            engine.sync(learner.named_parameters(), version=1)
    assert engine.version == 0
    with pytest.raises(UsageError, match="last sync failed"):
        engine.generate([request()])
    engine.sync(learner.named_parameters(), version=1)
    assert engine.generate([request()])[0].version == 1


def test_an_update_that_fails_leaves_nothing_to_sample_from(engine, learner, monkeypatch):
    def fail(weights):
        raise MemoryError

    monkeypatch.setattr(engine._llm.model, "load_weights", fail)
    with pytest.raises(MemoryError):
        engine.sync(learner.named_parameters(), version=1)
    with pytest.raises(UsageError, match="sync it again"):
        engine.generate([request()])


def test_a_cache_that_is_kept_is_an_error(engine, learner):
    engine._llm.forgets = False
    with pytest.raises(RuntimeError, match="did not forget"):
        engine.sync(learner.named_parameters(), version=1)


def test_a_response_that_vllm_gives_up_is_an_error(engine):
    engine._llm.finish_reason = "abort"
    with pytest.raises(RuntimeError, match="vLLM gave up on a response: abort"):
        engine.generate([request()])


def test_temperatures_that_vllm_would_change_are_refused(engine):
    with pytest.raises(UsageError, match=r"draws at temperature 0\.01 instead of 0\.001"):
        engine.generate([request(temperature=0.001)])
    assert engine.generate([request(temperature=0.01, max_tokens=1)])


def test_a_learner_s_model_is_loaded_beside_it(directory):
    language_model = load_model(directory)
    train(language_model.model)
    engine = VllmEngine.of(language_model, dtype=torch.float32)
    assert engine.generate([request(max_tokens=3)])[0].version == 0
    weights = dict(language_model.model.named_parameters())
    assert engine._sync_check.check(weights, engine.log_probs(engine._sync_check.ids)) < 1e-5
    train(language_model.model)
    engine.sync(language_model.model.named_parameters(), version=1)
    assert engine.version == 1
    assert engine._sync_check.tolerance == 1e-3
    assert VllmEngine.of(language_model)._sync_check.tolerance == 0.1


def test_a_run_samples_with_vllm(tmp_path):
    changes = {
        "model": "tiny:0.1m",
        "iterations": 2,
        "rollout.engine": "vllm",
        "rollout.tasks": 2,
        "rollout.group_size": 2,
        "rollout.num_envs": 4,
        "evaluation.every": 0,
        "learner.learning_rate": 1e-2,
    }
    config = override(TrainConfig(algorithm="grpo", env_id="agentgym/EZPoints-v0"), changes)
    assert start(config, tmp_path, logs=["jsonl"]).end == "finished"
    first, last = read_metrics(tmp_path)
    assert max(first.logp_diff, last.logp_diff) < 1e-4
    assert last.version == 2


def test_each_of_several_ranks_has_an_engine_of_its_own(language_model):
    config = override(
        TrainConfig(algorithm="grpo", env_id="agentgym/EZPoints-v0"),
        {"rollout.engine": "vllm", "learner.dtype": "float32"},
    )
    engine = setup._engine(resolve(config), language_model, Ranks(rank=1, size=2))
    options = engine._llm.options
    assert options["distributed_executor_backend"] == "external_launcher"
    more = resolve(override(config, {"rollout.vllm_options.max_num_seqs": 7}))
    assert setup._vllm(more, language_model, Ranks())._llm.options["max_num_seqs"] == 7
    for name in ("tensor_parallel_size", "gpu_memory_utilization"):
        parallel = resolve(override(config, {f"rollout.vllm_options.{name}": 1}))
        with pytest.raises(UsageError, match=rf"sets {name}: set rollout\.vllm_memory .*engine=server"):
            setup._vllm(parallel, language_model, Ranks())
    assert options["tensor_parallel_size"] == 1
    with pytest.raises(UsageError, match=r"vllm_sleep.* must be one of 0, 1, 2"):
        override(config, {"rollout.vllm_sleep": 3})
    with pytest.raises(UsageError, match="vllm_memory must be a number above 0 and below 1"):
        override(config, {"rollout.vllm_memory": 1.0})
    with pytest.raises(UsageError, match="engine"):
        override(config, {"rollout.engine": "vlm"})


@pytest.mark.parametrize(
    ("staleness", "overlap", "rests"), [(0, True, True), (1, False, True), (1, True, False)]
)
def test_an_engine_that_plays_during_updates_does_not_rest(language_model, staleness, overlap, rests):
    config = override(
        TrainConfig(algorithm="grpo", env_id="agentgym/EZPoints-v0"),
        {
            "rollout.engine": "vllm",
            "learner.dtype": "float32",
            "rollout.vllm_sleep": 1,
            "rollout.max_staleness": staleness,
            "rollout.overlap": overlap,
        },
    )
    engine = setup._vllm(resolve(config), language_model, Ranks())
    assert bool(engine._llm.options.get("enable_sleep_mode")) is rests


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_adapter_comes_as_a_request_beside_weights_that_stay(language_model, tmp_path, dtype):
    rounded = copied(copied(language_model.model, torch.bfloat16), torch.float32)
    save_model(tmp_path, replace(language_model, model=rounded))
    model, rows = load_model(tmp_path).model, some_rows()
    batch = some_batch(model, rows)
    engine = VllmEngine(tmp_path, dtype=dtype, adapter=Adapter(5, 8.0))
    assert (engine._llm.options["enable_lora"], engine._llm.options["max_lora_rank"]) == (True, 8)
    name = str(dtype).removeprefix("torch.")
    config = LearnerConfig(
        dtype=name, lora_rank=5, lora_alpha=8.0, old_log_probs="recompute", learning_rate=1e-5
    )
    learner, ids = Learner(model, OBJECTIVES["token"], config), engine._sync_check.ids

    def exact():
        return engine._sync_check.log_probs({name: weight.float() for name, weight in learner.weights()})

    own, drawn = [exact()], [torch.tensor(engine.log_probs(ids))]
    for version in (1, 2):
        learner.update(rows, batch, seed=version)
        engine.sync(learner.weights(), version)
        own.append(exact())
        drawn.append(torch.tensor(engine.log_probs(ids)))
        ours, theirs = own[-1] - own[0], drawn[-1] - drawn[0]
        assert (theirs * ours).sum() / ours.square().sum() == pytest.approx(1.0, abs=0.05)
    assert engine._llm.phases == ["init", "reset", "reset"]  # no weights came
    assert engine.generate([request(max_tokens=3)])[0].version == 2


def test_an_adapter_that_vllm_cannot_have_is_refused(directory):
    with pytest.raises(UsageError, match=r"rank 512 at most: lower learner\.lora_rank"):
        VllmEngine(directory, adapter=Adapter(600, 8.0))
    with pytest.raises(UsageError, match=r"base stays in vLLM: set rollout\.vllm_sleep to 1 or 0"):
        VllmEngine(directory, adapter=Adapter(8, 8.0), sleep_level=2)
    with pytest.raises(UsageError, match="the engine sets max_lora_rank itself"):
        VllmEngine(directory, adapter=Adapter(8, 8.0), options={"max_lora_rank": 64})


@pytest.mark.parametrize("level", [1, 2])
def test_an_engine_that_rests_is_woken_by_its_next_sync(directory, learner, level):
    engine = VllmEngine(directory, dtype=torch.float32, sleep_level=level)
    assert engine._llm.options["enable_sleep_mode"]
    (before,) = engine.generate([request(temperature=0.0, max_tokens=4)])
    engine.rest()
    with pytest.raises(UsageError, match="sync it"):
        engine.generate([request()])
    engine.sync(learner.state_dict().items(), 1)
    assert engine._llm.slept == [level, "weights", "kv_cache"]
    (after,) = engine.generate([request(temperature=0.0, max_tokens=4)])
    assert after.ids == before.ids


def test_an_engine_that_does_not_sleep_does_not_rest(engine):
    engine.rest()
    assert engine._llm.slept == []
    assert engine.generate([request()])


@pytest.mark.parametrize("name", ["vllm", "vllm.config"])
def test_vllm_that_is_not_installed_is_an_error(directory, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UsageError, match=r"engine 'vllm' needs vllm.*: pip install .*'vllm"):
        VllmEngine(directory)


def test_what_cannot_work_is_refused(directory, tmp_path, monkeypatch):
    with pytest.raises(UsageError, match=r"holds no config\.json"):
        VllmEngine(tmp_path)
    with pytest.raises(UsageError, match="the engine sets dtype, model itself"):
        VllmEngine(directory, options={"model": "other", "dtype": "float16"})
    monkeypatch.setenv("VLLM_ENABLE_V1_MULTIPROCESSING", "1")
    with pytest.raises(UsageError, match="VLLM_ENABLE_V1_MULTIPROCESSING=0"):
        VllmEngine(directory)


def test_a_sync_check_knows_the_log_probabilities_of_any_weights(directory, learner):
    sync_check = SyncCheck(load_model(directory).model, tolerance=1e-3)
    assert len(sync_check.ids) == 64
    assert len(set(sync_check.ids)) > 50
    assert all(weight.is_meta for weight in sync_check.own.values())
    assert list(sync_check.own) == list(learner.state_dict())
    for _ in range(2):
        train(learner)
        with torch.no_grad():
            logits = learner(torch.tensor([sync_check.ids])).logits[0].log_softmax(-1)
        expected = [logits[k, token].item() for k, token in enumerate(sync_check.ids[1:])]
        weights = dict(learner.named_parameters())
        assert sync_check.log_probs(weights).tolist() == pytest.approx(expected, abs=1e-5)
        assert sync_check.check(weights, [x + 5e-4 for x in expected]) == pytest.approx(5e-4, abs=1e-5)
        for wrong in ([x + 2e-3 for x in expected], [math.nan, *expected[1:]]):
            with pytest.raises(CanaryError, match="weights are not those it was given"):
                sync_check.check(weights, wrong)


def test_a_sync_check_that_says_nothing_is_refused(directory):
    with pytest.raises(UsageError, match="tolerance of the sync check must be above 0, got 0"):
        VllmEngine(directory, tolerance=0)
