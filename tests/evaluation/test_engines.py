"""A model's engine in ``bench``: the trainer's, part of what a row is, and checked whichever samples."""

import sys
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from agentgym.cli import bench_agents
from agentgym.errors import MissingPackageError, UsageError
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from agentgym.evaluation.log.transcripts import read_transcripts
from agentgym.evaluation.play.bench import run_bench
from agentgym.evaluation.suites.suite import SuiteAgent
from agentgym.evaluation.verify.model_check import ModelSample
from agentgym.evaluation.verify.verification import verify_run
from agentgym.inference.engines import standalone
from agentgym.inference.engines.vllm_process import VllmProcess
from agentgym.inference.models.lora import FOLDER
from agentgym.inference.models.reward_model_file import RewardModelFile, write_reward_model
from agentgym.inference.policy import agent, prompted
from agentgym.training.machine import memory
from agentgym.training.machine.resources import VLLM_MIN_PARAMETERS, Machine
from tests.evaluation.model_runs import ALL, CONSTRAINED, FREE, Played, bench, save
from tests.suite_texts import env_table, suite_text
from tests.training.stub_vllm_server import StubProcess, StubServer, install


@pytest.fixture
def vllm(monkeypatch: pytest.MonkeyPatch) -> list[StubProcess]:
    """Put stubs in the place of vLLM's processes; return those that are started."""
    agent._served.cache_clear()
    return install(monkeypatch)


def responses(played: Played) -> list[list[tuple[int, ...]]]:
    records = {record.sha256: record for record in read_transcripts(played.folder)}
    episodes = sorted(read_episodes(played.folder), key=lambda episode: episode.key)
    return [[step.tokens.response_ids for step in records[one.transcript].steps] for one in episodes]


@pytest.mark.parametrize("prompting", [CONSTRAINED, FREE])
def test_vllm_plays_and_its_responses_are_checked(tmp_path, prompting, vllm):
    played = bench(tmp_path, prompting, engine="vllm")
    log = read_run(played.folder)
    assert log.agent.options["engine"] == "vllm"
    assert log.agent.identity["options"] == {"engine": "vllm"}  # other conditions, and so another row
    (engine,) = vllm
    assert engine.options["max_model_len"] >= 65
    verdict = verify_run(played.folder, suite=played.suite, model=ModelSample(played.model, ALL, 0))
    assert (verdict.problems, verdict.badge, verdict.model.tolerance.draw) == ((), "model-checked", 1.0)
    assert verdict.model.largest_difference < 1e-4 < verdict.model.largest_draw
    assert not played.check(save(tmp_path / "other", prompting, seed=1)).ok
    claimed = replace(log.agent, options={"path": log.agent.options["path"]})
    played.forge(agent=claimed)  # what vLLM drew is not what the seeds draw
    assert any("is not the one that the episode's seed draws" in each for each in played.check().problems)


def test_greedy_responses_of_vllm_are_the_likeliest(tmp_path, vllm):
    played = bench(tmp_path, replace(FREE, temperature=0.0), engine="vllm")
    found = played.check()
    assert (found.problems, found.tolerance.draw < 0.1) == ((), True)


def test_what_is_picked_rather_than_sampled_is_found_out(tmp_path, vllm, monkeypatch):
    honest = StubServer.generate

    def likeliest(self, body):
        return honest(self, body | {"sampling_params": body["sampling_params"] | {"temperature": 0.0}})

    monkeypatch.setattr(StubServer, "generate", likeliest)
    found = bench(tmp_path, replace(FREE, max_tokens=32), engine="vllm").check()
    assert "the responses are not sampled from the model: " in found.problems[-1]


def test_vllm_starts_once_for_all_environments(tmp_path, vllm):
    envs = [env_table("tests/Corridor-v0", 2, label=label) for label in ("One", "Two")]
    (tmp_path / "both.toml").write_text(suite_text("both", *envs, seed=1))
    further = [SuiteAgent("tiny", "model", {"path": str(save(tmp_path / "model", FREE)), "engine": "vllm"})]
    run_bench(tmp_path / "both.toml", tmp_path / "results", agents=["tiny"], further=further)
    assert len(vllm) == 1


def test_episodes_side_by_side_say_the_same(tmp_path, monkeypatch):
    """As on a GPU, where each episode goes on once its own response has ended."""
    one = bench(tmp_path / "batches", FREE)
    asynchronous = []

    def make_policy(*parts, **options):
        asynchronous.append(options["asynchronous"])
        return prompted.make_policy(*parts, **options | {"asynchronous": True})

    monkeypatch.setattr(agent, "make_policy", make_policy)
    other = bench(tmp_path / "side-by-side", FREE)
    assert responses(one) == responses(other)
    assert other.check().problems == ()
    assert read_run(one.folder).request_id == read_run(other.folder).request_id
    assert asynchronous == [False, False]  # on a CPU they are drawn in batches, which repeat bit for bit


@pytest.mark.parametrize(
    ("engine", "options", "parameters", "has_vllm", "chosen"),
    [
        ("auto", {}, VLLM_MIN_PARAMETERS, True, {"engine": "vllm", "dtype": "bfloat16"}),
        ("auto", {}, VLLM_MIN_PARAMETERS, False, {"dtype": "bfloat16"}),
        ("auto", {}, VLLM_MIN_PARAMETERS - 1, True, {"dtype": "bfloat16"}),
        ("auto", {"rerank": "reward"}, VLLM_MIN_PARAMETERS, True, {"dtype": "bfloat16"}),
        ("auto", {"device": "cpu"}, VLLM_MIN_PARAMETERS, True, {}),
        ("hf", {}, VLLM_MIN_PARAMETERS, True, {"dtype": "bfloat16"}),
        ("vllm", {}, 1, False, {"engine": "vllm", "dtype": "bfloat16"}),
    ],
)
def test_what_is_chosen_on_a_gpu(monkeypatch, tmp_path, engine, options, parameters, has_vllm, chosen):
    machine = Machine("cuda", "H100", 80 << 30, has_vllm=has_vllm)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(Machine, "here", lambda: machine)
    monkeypatch.setattr(memory.ModelSize, "read", lambda folder: SimpleNamespace(parameters=parameters))
    assert bench_agents._sampler(tmp_path, engine, options) == chosen
    (tmp_path / FOLDER).mkdir()  # weights that hold an adapter stay in float32
    assert "dtype" not in bench_agents._sampler(tmp_path, engine, options)


def test_on_a_cpu_a_run_is_what_it_was(tmp_path):
    assert [bench_agents._sampler(tmp_path, engine, {}) for engine in ("auto", "hf")] == [{}, {}]
    assert bench_agents._sampler(tmp_path, "vllm", {}) == {"engine": "vllm"}


def test_what_does_not_go_together(tmp_path, monkeypatch, vllm):
    reward = save(tmp_path / "reward", FREE)
    write_reward_model(reward, RewardModelFile(compared_with="policy", beta=0.1, temperature=1.0))
    with pytest.raises(UsageError, match="a reward model is compared with weights in this process"):
        bench(tmp_path / "a", FREE, engine="vllm", rerank=str(reward))
    assert not vllm
    with pytest.raises(UsageError, match="unknown engine 'auto'; choose one of hf, vllm"):
        bench(tmp_path / "b", FREE, engine="auto")
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setattr(standalone, "VllmProcess", VllmProcess)
    agent._served.cache_clear()
    with pytest.raises(MissingPackageError, match="the engine 'vllm' needs vllm: pip install"):
        bench(tmp_path / "c", FREE, engine="vllm")
