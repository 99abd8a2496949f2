"""The launch scripts: their plans, the commands that they come to, and a run of two processes."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agentgym.cli import main
from agentgym.cli.commands import make_parser
from agentgym.inference.models.language_model import save_model
from agentgym.inference.models.tiny import tiny_model, word_tokenizer

LAUNCH = Path(__file__).resolve().parents[2] / "trainers" / "launch"
SCRIPTS = sorted(path.name for path in LAUNCH.glob("*.sh"))

SMALL = """
algorithm = "grpo"
env = "agentgym/EZPoints-v0"

[[settings]]
source = "a test"
iterations = 1
rollout.tasks = 2
rollout.group_size = 2
env_options.max_steps = 2
learner.minibatches = 1
evaluation.every = 0
"""


@pytest.fixture
def launch(tmp_path):
    """Run a script with programs that print their words, or with real ones."""
    tools = tmp_path / "bin"
    tools.mkdir()

    def tool(name, text):
        (tools / name).write_text(f"#!/bin/sh\n{text}\n")
        (tools / name).chmod(0o755)

    def run(script, *words, real=(), **variables):
        python = shlex.quote(sys.executable)
        tool("srun", 'echo srun; while [ "${1#--}" != "$1" ]; do shift; done; exec "$@"')
        tool("scontrol", "printf 'node1\\nnode2\\n'")
        for name, module in (("agentgym", "agentgym"), ("torchrun", "torch.distributed.run")):
            tool(name, f'exec {python} -m {module} "$@"' if name in real else f'echo {name} "$@"')
        environment = {
            **os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(LAUNCH.parents[1]), **variables,
        }  # fmt: skip
        command = ["bash", str(LAUNCH / script), *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_there_are_scripts_for_every_size():
    assert SCRIPTS == ["eight-gpus.sh", "nodes-slurm.sh", "nodes-torchrun.sh", "one-gpu.sh"]
    assert all(os.access(LAUNCH / name, os.X_OK) for name in SCRIPTS)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_plans_its_run(script, launch, tmp_path, capsys):
    model = tmp_path / "model"
    save_model(model, tiny_model("0.1m", word_tokenizer(["right"]), context=3000))
    line = launch(script, "--plan", "--seed", "1", MODEL=str(model), ENGINE="hf").stdout
    program, *words = shlex.split(line)
    assert program == "agentgym"
    devices = {"one-gpu.sh": 1, "eight-gpus.sh": 8}.get(script, 16)
    assert make_parser().parse_args(words).plan == devices
    assert main(words) == 0
    assert "GiB a rank at most, of 80.0" in capsys.readouterr().out


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_comes_to_commands_that_there_are(script, launch, tmp_path):
    slurm = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_NUM_NODES": "2"}
    first = launch(script, "--seed", "1", OUT="runs/x", HEAD="node1", **slurm)
    assert first.returncode == 0, first.stderr
    *_, line = first.stdout.splitlines()
    words = shlex.split(line.partition("agentgym train ")[2])
    arguments = make_parser().parse_args(["train", *words])
    assert (arguments.recipe, arguments.seed, str(arguments.out)) == ("gigpo/gigpo-alfworld", 1, "runs/x")
    if script.startswith("nodes"):
        assert first.stdout.startswith("srun\n") == (script == "nodes-slurm.sh")
        assert "--nnodes 1:2 --nproc-per-node 8 --max-restarts 3" in line
        assert (
            f"--rdzv-endpoint node1:{20007 if script == 'nodes-slurm.sh' else 29500} -m -- agentgym" in line
        )
    (tmp_path / "runs" / "x").mkdir(parents=True)
    (tmp_path / "runs" / "x" / "config.json").touch()
    again = launch(script, OUT="runs/x", HEAD="node1", **slurm)
    assert again.stdout.endswith("agentgym train --resume runs/x\n")
    assert str(make_parser().parse_args(["train", "--resume", "runs/x"]).resume) == "runs/x"


@pytest.mark.slow
def test_two_processes_train(launch, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    out = tmp_path / "run"
    variables = {
        "RECIPE": "small.toml", "MODEL": "tiny:0.1m", "ENGINE": "hf", "OUT": str(out),
        "NODES": "1", "GPUS": "2",
    }  # fmt: skip
    real = ("agentgym", "torchrun")
    done = launch("nodes-torchrun.sh", "--set", "device=cpu", real=real, PORT="29617", **variables)
    assert done.returncode == 0, done.stderr
    assert "finished after 1 iteration" in done.stdout
