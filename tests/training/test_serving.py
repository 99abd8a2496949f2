"""`vllm serve` on devices of its own, by a stub of the command, which writes down how it was started."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.errors import UsageError
from agentgym.history.run import read_metrics
from agentgym.inference.models.language_model import save_model
from agentgym.training.config import TrainConfig, override
from agentgym.training.machine.resources import resolve
from agentgym.training.machine.serving import parse_devices, serve_command, take_devices
from tests.training.test_rollout_journal import play, told
from tests.training.test_server_engine import run_of
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
COMMAND = f"""#!{sys.executable}
import json, os, sys
from pathlib import Path
names = ("CUDA_VISIBLE_DEVICES", "VLLM_SERVER_DEV_MODE", "LOCAL_RANK")
found = {{"arguments": sys.argv[1:], "pid": os.getpid(), **{{name: os.environ.get(name) for name in names}}}}
Path(os.environ["STUB_RECORD"]).write_text(json.dumps(found))
if os.environ.get("STUB_FAILS"):
    sys.exit("no memory is left")
sys.path.insert(0, {str(ROOT)!r})
sys.argv[0] = "vllm"
import runpy
runpy.run_module("tests.training.stub_vllm_server", run_name="__main__")
"""


@pytest.fixture
def stub(tmp_path, monkeypatch):
    """Put the command on the path; return where it writes to."""
    command = tmp_path / "bin" / "vllm"
    command.parent.mkdir()
    command.write_text(COMMAND)
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("STUB_RECORD", str(tmp_path / "record.json"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # so that it is put back afterwards
    return tmp_path / "record.json"


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
    assert found["arguments"][:2] == ["serve", str(tmp_path / "model")]
    said = " ".join(found["arguments"])
    assert "--data-parallel-size 2" in said
    assert "--max-num-seqs 7" in said
    (metrics,) = read_metrics(tmp_path / "run")
    assert metrics.logp_diff < 1e-4
    wait_until(lambda: ended(found["pid"]))


def test_a_server_that_does_not_start_is_one_line(tmp_path, stub, words, monkeypatch, capsys):
    monkeypatch.setenv("STUB_FAILS", "1")
    assert main(words) == 2
    assert "vllm serve did not start: no memory is left (all of it in" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert main(words) == 2
    assert "there is no command vllm" in capsys.readouterr().err


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


def test_processes_that_a_server_leaves_behind_are_ended(tmp_path, stub, words):
    command = tmp_path / "bin" / "vllm"
    child = "trap '' TERM; echo $$ > $0.child; while :; do sleep 1; done"
    started = f"import subprocess; subprocess.Popen(['sh', '-c', {child!r}, {str(command)!r}])\n"
    command.write_text(COMMAND.replace("import runpy\n", started + "import runpy\n"))
    assert main(words) == 0
    child = int((tmp_path / "bin" / "vllm.child").read_text())
    wait_until(lambda: ended(child))  # a signal ends a process a moment later


def test_the_plan_shows_who_learns_and_who_samples(words, monkeypatch, capsys):
    assert main([*words, "--plan", "--device-memory", "80"]) == 0
    found = capsys.readouterr().out
    assert "a GPU, 80 GiB 0-1 x 2" in found
    assert "by vllm serve on devices 2,3" in found


def test_devices_are_numbers_of_the_visible_ones(monkeypatch):
    config = TrainConfig(algorithm="grpo", env_id="agentgym/EZPoints-v0")
    shared = {"rollout.engine": "server", "devices": "0", "rollout.devices": "1-2"}
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


def test_tensor_parallel_groups_share_the_devices(tmp_path):
    config, _ = run_of(tmp_path, "0.1m", **{"rollout.vllm_options.tensor_parallel_size": 2})
    with pytest.raises(UsageError, match="must be a directory"):
        serve_command(resolve(config), 2, 1)
    served = replace(resolve(config), model=str(tmp_path))
    said = " ".join(serve_command(served, 4, 8000))
    assert "--data-parallel-size 2" in said
    assert "--tensor-parallel-size 2" in said
    with pytest.raises(UsageError, match="3 devices cannot be cut into tensor-parallel groups of 2"):
        serve_command(served, 3, 8000)
    assert "lora" not in said
    adapted = replace(served, learner=replace(served.learner, lora_rank=4))
    assert "--enable-lora --max-lora-rank 8 --api-server-count 1" in " ".join(serve_command(adapted, 4, 8000))
    eager = replace(served, rollout=replace(served.rollout, vllm_options={"enforce_eager": True}))
    assert serve_command(eager, 1, 1)[-1] == "--enforce-eager"
    tables = {"weight_transfer": "nccl", "vllm_options": {"compilation_config": {"mode": 0}}}
    command = serve_command(replace(served, rollout=replace(served.rollout, **tables)), 1, 1)
    for name, table in (
        ("--weight-transfer-config", '{"backend": "nccl"}'),
        ("--compilation-config", '{"mode": 0}'),
    ):
        assert command[command.index(name) + 1] == table
