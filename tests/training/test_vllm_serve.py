"""SmolLM2-135M in bfloat16 through the real `vllm serve`: it samples from the weights of the learner."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from agentgym.cli import main
from agentgym.history.run import read_metrics
from agentgym.inference.engines import GenerationRequest, Sampling
from agentgym.inference.engines.server import ServerEngine
from agentgym.inference.engines.server_weights import FileSender
from agentgym.inference.engines.sync_check import CanaryError
from agentgym.inference.engines.vllm_process import VllmProcess, serve_options
from agentgym.inference.engines.vllm_worker import METHOD
from agentgym.inference.models.language_model import copied, load_model
from agentgym.inference.models.lora import Adapter
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.update import Learner
from tests.training.batches import OBJECTIVES, some_batch
from tests.training.plain import forward_logprobs

pytestmark = pytest.mark.vllm

SMOLLM2 = Path(__file__).parents[2] / "runs" / "models" / "smollm2"
TEXTS = ("The capital of France is", "Water boils at", "A triangle has three", "Once upon a time, a small")
NOISE = 0.08
"""Mean difference of log-probabilities of sampled tokens, engine against learner: .040 to .046 measured."""

ADAPTER = Adapter(32, 32.0)


@pytest.fixture(scope="module", autouse=True)
def _environment():
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("VLLM_CPU_KVCACHE_SPACE", "1"), ("VLLM_CPU_OMP_THREADS_BIND", "nobind")):
            patch.setenv(name, value)  # a gibibyte, and any core
        yield


@pytest.fixture(scope="module")
def smollm2():
    """The model with weights of bfloat16, as published ones have."""
    assert (SMOLLM2 / "config.json").exists(), "make runs/models/smollm2/config.json"
    made = load_model(SMOLLM2)
    for weight in made.model.parameters():
        weight.data = weight.data.bfloat16().float()
    return made


def served(adapter=None):
    options = serve_options({}, dtype=torch.bfloat16, device="cpu", context_length=512, adapter=adapter)
    return VllmProcess(SMOLLM2, options)


@pytest.fixture(scope="module")
def plain():
    process = served()
    yield process.url
    process.close()


@pytest.fixture(scope="module")
def adapted():
    process = served(ADAPTER)
    yield process.url
    process.close()


def engine_of(url, model, adapter=None, **options):
    sender = FileSender("", adapter, after=METHOD)
    return ServerEngine([url], model, dtype=torch.bfloat16, adapter=adapter, sender=sender, **options)


def requests_of(made, number=8, tokens=24):
    prompts = [tuple(made.tokenizer(text)["input_ids"]) for text in TEXTS]
    sampling = Sampling(max_tokens=tokens)
    return [
        GenerationRequest(prompts[n % len(prompts)], None, sampling, seed=n, episode=n) for n in range(number)
    ]


def learner_of(smollm2, generations, requests, **settings):
    """Return a learner, and the rows and the batch that make these responses likelier."""
    model = copied(smollm2.model, torch.float32)
    rows = [StepRow(each.prompt_ids, found.ids) for each, found in zip(requests, generations, strict=True)]
    sampled = np.array([logprob for found in generations for logprob in found.logprobs])
    batch = some_batch(
        model,
        rows,
        advantages=np.ones(len(rows)),
        old_log_probs=sampled,
        ref_log_probs=None,
        mask=np.ones(len(sampled), dtype=bool),
        values=None,
        returns=None,
    )
    own = {"dtype": "bfloat16", "old_log_probs": "recompute", "max_grad_norm": None, "token_budget": 512}
    return Learner(model, OBJECTIVES["token"], LearnerConfig(**own | settings)), rows, batch


def scored(engine, rows):
    """Return the engine's log-probabilities of rows' responses."""
    found = []
    for row in rows:
        sampling = {"temperature": 1.0, "max_tokens": 1, "prompt_logprobs": 0}
        ids = [*row.prompt_ids, *row.response_ids]
        places = engine._servers[0].generate(ids, sampling)["prompt_logprobs"]
        start = len(row.prompt_ids)
        found += [places[start + n][str(token)]["logprob"] for n, token in enumerate(row.response_ids)]
    return np.array(found)


def test_responses_are_drawn_from_the_weights_that_were_sent(plain, smollm2):
    engine = engine_of(plain, smollm2.model)
    engine.sync(smollm2.model.named_parameters(), 1)
    requests = requests_of(smollm2)
    generations = engine.generate(requests)
    gaps = [
        abs(x - y)
        for request, found in zip(requests, generations, strict=True)
        for x, y in zip(found.logprobs, forward_logprobs(smollm2.model, request, found.ids), strict=True)
    ]
    assert np.mean(gaps) < NOISE
    assert {found.version for found in generations} == {1}


def test_an_update_arrives_and_moves_what_it_should(plain, smollm2):
    engine = engine_of(plain, smollm2.model)
    engine.sync(smollm2.model.named_parameters(), 1)
    requests = requests_of(smollm2)
    learner, rows, batch = learner_of(smollm2, engine.generate(requests), requests, learning_rate=1e-4)
    before, own = scored(engine, rows), learner.log_probs(rows)
    learner.update(rows, batch, seed=0)
    engine.sync(learner.weights(), 2)
    ours, theirs = (learner.log_probs(rows) - own).mean(), (scored(engine, rows) - before).mean()
    assert ours > 0.2
    assert theirs == pytest.approx(ours, abs=0.03)
    number, known = engine._sync_check._sums[plain]
    assert (number, len(known)) == (2, 62)  # norms and the embedding: other layers are packed on a CPU
    assert any("embed_tokens" in name for name in known)


def test_a_sync_that_does_not_arrive_is_noticed(plain, smollm2, monkeypatch):
    engine = engine_of(plain, smollm2.model)
    engine.sync(smollm2.model.named_parameters(), 1)
    requests = requests_of(smollm2)
    learner, rows, batch = learner_of(smollm2, engine.generate(requests), requests, learning_rate=1e-6)
    learner.update(rows, batch, seed=0)
    monkeypatch.setattr(FileSender, "send", lambda *_: None)
    with pytest.raises(CanaryError, match="to the bit"):
        engine.sync(learner.weights(), 2)


def test_an_adapter_arrives_whole(adapted, smollm2):
    base = copied(smollm2.model, torch.float32)
    engine = engine_of(adapted, base, ADAPTER)
    start = copied(smollm2.model, torch.float32)
    settings = {"lora_rank": ADAPTER.rank, "lora_alpha": ADAPTER.alpha, "learning_rate": 3e-4}
    first = Learner(start, OBJECTIVES["token"], LearnerConfig(dtype="bfloat16", **settings))
    engine.sync(first.weights(), 1)
    requests = requests_of(smollm2)
    learner, rows, batch = learner_of(smollm2, engine.generate(requests), requests, **settings)
    before, own = scored(engine, rows), learner.log_probs(rows)
    for seed in range(2):
        learner.update(rows, batch, seed=seed)
    engine.sync(learner.weights(), 2)
    ours, theirs = (learner.log_probs(rows) - own).mean(), (scored(engine, rows) - before).mean()
    assert ours > 0.1  # merged in bfloat16, less than half of it arrived
    assert theirs == pytest.approx(ours, abs=0.03)


def test_a_server_that_sleeps_goes_on_after_a_sync(plain, smollm2):
    """Its build for processors frees nothing: this is the order of the calls."""
    engine = engine_of(plain, smollm2.model, sleep_level=1)
    engine.sync(smollm2.model.named_parameters(), 1)
    engine.rest()
    assert engine._servers[0].ask("/is_sleeping", method="GET") == {"is_sleeping": True}
    engine.sync(smollm2.model.named_parameters(), 2)
    assert engine._servers[0].ask("/is_sleeping", method="GET") == {"is_sleeping": False}
    assert {found.version for found in engine.generate(requests_of(smollm2))} == {2}


SMALL = ["rollout.engine=vllm", "rollout.tasks=2", "rollout.group_size=2", "rollout.num_envs=4"]
SMALL += ["evaluation.every=0", "env_options.max_steps=3", "prompting.max_tokens=16"]


def trained(tmp_path, model, *settings):
    words = ["train", "grpo", "--env", "agentgym/EZPoints-v0", "--model", model, "--preset", "plain"]
    words += ["--iterations", "2", "--log", "jsonl", "--out", str(tmp_path / "run")]
    assert main([*words, *(word for each in (*SMALL, *settings) for word in ("--set", each))]) == 0
    return read_metrics(tmp_path / "run")


def test_a_run_of_a_tiny_model_starts_its_server(tmp_path):
    metrics = trained(tmp_path, "tiny:0.8m", "learner.learning_rate=1e-2", "prompting.choice=constrained")
    assert [each.version for each in metrics] == [1, 2]
    assert max(each.logp_diff for each in metrics) < 1e-4
    assert json.loads((tmp_path / "run" / "config.json").read_text())["rollout"]["servers"] == []


def test_episodes_go_at_their_own_pace_in_bfloat16(tmp_path):
    settings = ("learner.dtype=bfloat16", "rollout.asynchronous=true", "learner.learning_rate=1e-5")
    metrics = trained(tmp_path, str(SMOLLM2), *settings)
    assert [each.version for each in metrics] == [1, 2]
    assert all(each.staleness == 0 for each in metrics)
    assert max(each.logp_diff_mean for each in metrics) < NOISE
