"""`vllm serve` on devices of its own, by a stub of the command, which writes down how it was started."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.inference.engines.vllm_process import serve_command, serve_options, start_error
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.lora import Adapter
from agentgym.training import setup
from agentgym.training.config import TrainConfig, override
from agentgym.training.learner.distributed import Ranks
from agentgym.training.machine.resources import resolve
from agentgym.training.machine.serving import parse_devices, start_server, take_devices
from agentgym.training.run import start
from tests.training.stub_vllm_server import install, install_module
from tests.training.test_rollout_journal import play, told
from tests.training.test_server_engine import run_of
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]


@pytest.fixture
def stub(tmp_path, monkeypatch):
    return install_module(monkeypatch, tmp_path)


@pytest.fixture
def words(tmp_path):
    """The command line of a run whose model is a directory."""
    _, made = run_of(tmp_path, "0.1m")
    save_model(tmp_path / "model", made)
    settings = {
        "rollout.tasks": 2, "rollout.group_size": 2, "rollout.num_envs": 4, "evaluation.every": 0,
        "prompting.choice": "constrained", "prompting.answer": "bare",
        "rollout.vllm_options.max_num_seqs": 7, "learner.dtype": "float32",
    }  # fmt: skip
    plain = ["train", "grpo", "--env", "agentgym/EZPoints-v0", "--model", str(tmp_path / "model")]
    plain += ["--preset", "plain", "--iterations", "1", "--log", "jsonl", "--out", str(tmp_path / "run")]
    plain += [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]
    return [*plain, "--learner", "0-1", "--rollout", "2,3"]


def ended(pid):
    """Whether a process has ended, or waits for its parent to notice."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_run_serves_its_model_and_ends_the_server(tmp_path, stub, words):
    assert main(words) == 0
    found = json.loads(stub.read_text())
    assert (found["CUDA_VISIBLE_DEVICES"], found["VLLM_SERVER_DEV_MODE"]) == ("2,3", "1")
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert found["arguments"][:2] == ["--model", str(tmp_path / "model")]
    said = " ".join(found["arguments"])
    assert "--data-parallel-size 2" in said
    assert "--max-num-seqs 7" in said
    (metrics,) = read_metrics(tmp_path / "run")
    assert metrics.logp_diff < 1e-4
    wait_until(lambda: ended(found["pid"]))


def test_a_server_that_does_not_start_is_one_line(tmp_path, stub, words, monkeypatch, capsys):
    for log, line in (
        ("too old a driver", "start: too old a driver (all of it in {}/run/vllm-serve.log)"),
        (
            "ValueError: no such model\nbye",
            "start: ValueError: no such model (all of it in {}/run/vllm-serve.log)",
        ),
        (
            "RuntimeError: CUDA out of memory",
            "memory (all of it in {}/run/vllm-serve.log; see rollout.vllm_memory)",
        ),
    ):
        monkeypatch.setenv("STUB_FAILS", log)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
        assert main(words) == 2
        assert line.format(tmp_path) in capsys.readouterr().err.replace("\n", " ")
    monkeypatch.setitem(sys.modules, "vllm", None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(words) == 2
    assert "the engine 'vllm' needs vllm: pip install" in capsys.readouterr().err


def test_a_server_ends_with_a_run_that_is_killed(tmp_path, stub, words):
    words[words.index("--iterations") + 1] = "1000000"
    run = subprocess.Popen([sys.executable, "-m", "agentgym", *words], cwd=ROOT, env=dict(os.environ))
    metrics = tmp_path / "run" / "metrics.jsonl"
    wait_until(lambda: run.poll() is not None or (metrics.exists() and metrics.stat().st_size))
    assert run.poll() is None
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    wait_until(lambda: ended(json.loads(stub.read_text())["pid"]))


def test_a_resumed_run_goes_on_with_its_open_episodes(tmp_path, stub, words, monkeypatch):
    play(lambda: main(words), fails_at=8)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    play(lambda: main(["train", "--resume", str(tmp_path / "run"), "--log", "jsonl"]))
    assert told(tmp_path / "run")[1] > 0  # though the server has another port


def test_processes_that_a_server_leaves_behind_are_ended(tmp_path, stub, words, monkeypatch):
    noted = tmp_path / "child"
    monkeypatch.setenv("STUB_CHILD", f"trap '' TERM; echo $$ > {noted}; while :; do sleep 1; done")
    assert main(words) == 0
    child = int(noted.read_text())
    wait_until(lambda: ended(child))  # a signal ends a process a moment later


def test_the_plan_shows_who_learns_and_who_samples(words, monkeypatch, capsys):
    assert main([*words, "--plan", "--device-memory", "80"]) == 0
    found = capsys.readouterr().out
    assert "a GPU, 80 GiB 0-1 x 2" in found
    assert "on devices 2,3" in found


def test_devices_are_numbers_of_the_visible_ones(monkeypatch):
    config = TrainConfig(algorithm="grpo", env_id="agentgym/EZPoints-v0")
    shared = {"rollout.engine": "vllm", "devices": "0", "rollout.devices": "1-2"}
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,5,7")
    assert take_devices(override(config, shared)) == "5,7"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4"
    assert take_devices(config) == ""
    for wrong, line in (
        ({"devices": "0-1"}, "device 1 cannot both learn and sample"),
        ({"rollout.devices": "8"}, "no device 8 among the visible 4"),
        ({"rollout.devices": "all"}, "not 'all'"),
    ):
        with pytest.raises(UsageError, match=line):
            take_devices(override(config, shared | wrong))
    with pytest.raises(UsageError, match="give both --learner and --rollout"):
        override(config, {"devices": "0"})
    assert parse_devices("0-2, 5") == [0, 1, 2, 5]


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        (
            [
                "(VllmWorker-0 pid=1) ERROR 11-30 [multiproc_executor.py:953]     raise ValueError(",
                "(VllmWorker-0 pid=1) ERROR 11-30 [m.py:9] ValueError: Available memory on node 0 is less",
                "(EngineCore pid=1) ERROR [core.py:1] Exception: WorkerProc initialization failed due to an",
                "RuntimeError: Engine core initialization failed. See root cause above.",
            ],
            "ValueError: Available memory on node 0 is less",
        ),
        (
            [
                "WARNING [s.py:255] This can cause errors like `OSError: [Errno 24] Too many open files`",
                "pydantic_core.ValidationError: 1 validation error for ModelConfig",
                "  Value error, Invalid repository ID or local directory specified: '/tmp'.",
                "    For further information visit https://errors.pydantic.dev",
            ],
            "Value error, Invalid repository ID or local directory specified: '/tmp'.",
        ),
        (
            ["usage: api_server", "api.py: error: unrecognized arguments: -x"],
            "error: unrecognized arguments: -x",
        ),
        (["no error", "the end"], "the end"),
        ([], "it wrote nothing"),
    ],
)
def test_the_cause_of_a_failed_start_is_found(lines, cause):
    """Lines as vLLM 0.32 wrote them."""
    assert start_error(lines) == cause


def test_options_become_flags():
    options = serve_options(
        {"tensor_parallel_size": 2, "max_num_seqs": 7, "compilation_config": {"mode": 0}},
        dtype=torch.bfloat16,
        device="cuda",
        context_length=100,
        devices=4,
        enable_sleep_mode=True,
    )
    command = serve_command("model", 8000, options)
    said = " ".join(command)
    for flags in (
        "--model model --host 127.0.0.1 --port 8000 --enable-scale-out",
        "--data-parallel-size 2",
        "--tensor-parallel-size 2",
        "--dtype bfloat16",
        "--max-model-len 100",
        "--max-num-seqs 7",
        "--enable-sleep-mode",
    ):
        assert flags in said
    assert command[command.index("--compilation-config") + 1] == '{"mode": 0}'
    assert "lora" not in said
    plain = {"dtype": torch.float32, "device": "cpu"}
    adapted = " ".join(serve_command("model", 1, serve_options({}, adapter=Adapter(5, 8.0), **plain)))
    assert "--enforce-eager" in adapted
    assert "--enable-lora --max-lora-rank 8" in adapted
    assert "max-model-len" not in adapted
    assert serve_options({}, context_length=3, **plain)["max_model_len"] == 65  # of the sync check
    for given, more, line in (
        (
            {"tensor_parallel_size": 2},
            {"devices": 3},
            "3 devices cannot be cut into tensor-parallel groups of 2",
        ),
        ({"dtype": "float16"}, {}, "options of vLLM set dtype, which is decided here"),
        ({}, {"adapter": Adapter(600, 8.0)}, r"rank 512 at most: lower learner\.lora_rank"),
    ):
        with pytest.raises(UsageError, match=line):
            serve_options(given, **plain, **more)


PLAIN = {"rollout.devices": "", "devices": "", "rollout.vllm_options": {"max_num_seqs": 7}}


def opened(tmp_path, device="cpu", ranks=None, **changes):
    config, made = run_of(tmp_path, "0.1m", **PLAIN | {"learner.dtype": "float32"} | changes)
    resolved = replace(resolve(config), device=device)
    return setup._engine(resolved, made, ranks or Ranks())


def test_a_server_beside_the_learner_has_a_part_of_its_device(tmp_path, monkeypatch):
    started = install(monkeypatch)
    opened(tmp_path, **{"rollout.vllm_memory": 0.3})
    opened(tmp_path, "cuda", **{"rollout.vllm_sleep": 1})
    on_cpu, on_gpu = (each.options for each in started)
    assert (on_cpu["gpu_memory_utilization"], on_cpu["enforce_eager"]) == (0.3, True)
    assert (on_cpu["max_num_seqs"], on_cpu["data_parallel_size"]) == (7, 1)
    assert "enable_sleep_mode" not in on_cpu
    assert on_gpu["enable_sleep_mode"]
    assert "enforce_eager" not in on_gpu
    with pytest.raises(UsageError, match="set gpu_memory_utilization, which is decided here"):
        opened(tmp_path, **{"rollout.vllm_options": {"gpu_memory_utilization": 0.9}})


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"learner.lora_rank": 4, "rollout.vllm_sleep": 2}, "base stays in vLLM"),
        ({"rollout.vllm_sleep": 1}, "sleeps on GPUs alone"),
        ({"rollout.prompt_cache": 5}, "of the engine hf, not vllm"),
        (
            {"rollout.servers": ["http://l:1"], "prompting.pictures": "alone"},
            "to a server that the run starts",
        ),
    ],
)
def test_what_vllm_cannot_do_is_refused(tmp_path, changes, line):
    with pytest.raises(UsageError, match=line):
        opened(tmp_path, **changes)


@pytest.mark.parametrize("adapted", [False, True])
def test_a_run_starts_its_server_and_ends_it(tmp_path, monkeypatch, adapted):
    started = install(monkeypatch)
    config, _ = run_of(tmp_path, "0.1m", **PLAIN | {"learner.lora_rank": 4 if adapted else None})
    assert start(config, tmp_path / "run", logs=["jsonl"]).end == "finished"
    metrics = read_metrics(tmp_path / "run")
    assert [each.version for each in metrics] == [1, 2]
    assert max(each.logp_diff for each in metrics) < 1e-4
    (process,) = started
    assert (process.closed, process.log) == (True, tmp_path / "run" / "vllm-serve.log")
    asked = [body.get("method") for path, body in process.server.asked if path == "/collective_rpc"]
    assert asked == ([] if adapted else ["reload_weights", "repack_tied_head"] * 3)


def test_one_rank_of_a_machine_starts_a_server_for_all(tmp_path, monkeypatch):
    started = install(monkeypatch)
    config, made = run_of(tmp_path, "0.1m", **PLAIN)
    for name, value in (("GROUP_RANK", "1"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "2")):
        monkeypatch.setenv(name, value)

    class Others(Ranks):
        def gather(self, items):
            return [(0, "http://other:1"), *(items or [(1, "http://here:2")])]

    first = start_server(resolve(config), made, Others(2, 4), devices="", log=tmp_path / "serve.log")
    assert started[0].log == tmp_path / "serve-1.log"
    assert (first.url, first.sends, first.process.options["data_parallel_size"]) == (started[0].url, True, 2)
    monkeypatch.setenv("LOCAL_RANK", "1")
    second = start_server(resolve(config), made, Others(3, 4), devices="", log=None)
    assert (second.url, second.sends, second.process) == ("http://here:2", False, None)
    assert len(started) == 1
