"""Planned against measured memory: ``python -m benchmarks.memory``.

Models of three sizes with random weights take updates of GRPO, with a reference, and of StepPO, with a
critic. Each does so in a process of its own, on one thread; what is compared is the growth of its resident
memory at the fullest moment with the peak that `agentgym.training.machine.memory.plan_memory` plans for the
same settings.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from agentgym.algos.objective import Objective
from agentgym.algos.tokens import Batch
from agentgym.training.config import TrainConfig
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.critic import Critic
from agentgym.training.learner.learner import Learner
from agentgym.training.learner.packing import StepRow
from agentgym.training.machine.memory import ModelSize, plan_memory
from agentgym.training.machine.resources import Machine, resolve
from benchmarks.speed.report import machine

RESULTS = Path(__file__).parent / "memory.json"
PAGE = RESULTS.with_suffix(".md")
MIB = 1 << 20
TOKENS, RESPONSE = 1024, 64
"""Of a pack, and of a response."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model."""

    hidden: int
    layers: int
    intermediate: int
    vocabulary: int


SHAPES = {
    "9m": Shape(hidden=256, layers=6, intermediate=1024, vocabulary=16_000),
    "28m": Shape(hidden=448, layers=8, intermediate=1536, vocabulary=24_000),
    "70m": Shape(hidden=640, layers=10, intermediate=2560, vocabulary=32_000),
}

CASES = [
    (size, algorithm, checkpointing)
    for size in SHAPES
    for algorithm, checkpointing in (("grpo", False), ("grpo", True), ("steppo", False))
]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case."""

    size: str
    parameters: int
    algorithm: str
    gradient_checkpointing: bool
    planned: int
    """Bytes."""
    measured: int

    @property
    def ratio(self) -> float:
        """Planned over measured."""
        return self.planned / self.measured


def measure(size: str, algorithm: str, checkpointing: bool) -> Outcome:
    """Take an update in this process, which has done nothing else."""
    torch.set_num_threads(1)
    shape = SHAPES[size]
    warm = torch.nn.Linear(64, 64)
    warm(torch.zeros(8, 64)).sum().backward()
    before = _memory("VmRSS")
    model = Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=shape.vocabulary,
            hidden_size=shape.hidden,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.hidden // 64,
            num_key_value_heads=shape.hidden // 64,
            tie_word_embeddings=True,
        )
    )
    settings = LearnerConfig(token_budget=TOKENS, gradient_checkpointing=checkpointing)
    objective = Objective(kl_coefficient=0.01 if algorithm == "grpo" else 0.0)
    critic = Critic(model, "step") if algorithm == "steppo" else None
    learner = Learner(model, objective, settings, critic=critic)
    rows, batch = _work(learner)
    learner.update(rows, batch, seed=0)
    learner.update(rows, batch, seed=1)  # with moments from the start
    measured = _memory("VmHWM") - before
    config = TrainConfig(
        algorithm=algorithm, env_id="agentgym/EZPoints-v0", learner=learner.config, objective=objective
    )
    plan = plan_memory(ModelSize.of(model), resolve(config, Machine("cpu", "CPU", 0)))
    plan = replace(plan, sampling={})  # nothing is sampled here
    return Outcome(size, learner.parameters, algorithm, checkpointing, plan.peak, measured)


def _work(learner: Learner) -> tuple[list[StepRow], Batch]:
    draws = np.random.default_rng(0)
    length = 256
    rows = [
        StepRow(
            tuple(draws.integers(0, 9000, length - RESPONSE + 1).tolist()),
            tuple(draws.integers(0, 9000, RESPONSE).tolist()),
        )
        for _ in range(TOKENS // length)
    ]
    count = len(rows)
    batch = Batch(
        lengths=np.full(count, RESPONSE),
        trajectory=np.arange(count),
        credit="step",
        advantages=draws.normal(size=count),
        old_log_probs=learner.log_probs(rows),
        ref_log_probs=learner.ref_log_probs(rows) if learner.reference is not None else None,
        valued="step",
        values=np.zeros(count),
        returns=np.ones(count),
    )
    return rows, batch


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def page(outcomes: list[Outcome], about: dict[str, str]) -> str:
    """Write the table."""
    lines = [
        "# Planned and measured memory",
        "",
        f"`python -m benchmarks.memory` on {about['cpu']}; torch {torch.__version__}. Float32, packs of",
        f"{TOKENS:,} tokens; growth of resident memory from before the model is made to the fullest",
        "moment of two updates, each case in a process of its own.",
        "",
        "| model | algorithm | layers computed again | planned MiB | measured MiB | planned / measured |",
        "|---|---|---|---:|---:|---:|",
    ]
    for each in outcomes:
        again = "yes" if each.gradient_checkpointing else "no"
        lines.append(
            f"| {each.parameters / 1e6:.0f} M | {each.algorithm} | {again} "
            f"| {each.planned / MIB:,.0f} | {each.measured / MIB:,.0f} | {each.ratio:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure every case, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--case", type=int, help="measure one case in this process, and print it")
    case = parser.parse_args().case
    if case is not None:
        print(json.dumps(asdict(measure(*CASES[case]))))
        return
    outcomes = []
    for number in range(len(CASES)):
        command = [sys.executable, "-m", "benchmarks.memory", "--case", str(number)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        outcomes.append(Outcome(**json.loads(done.stdout.splitlines()[-1])))
        print(outcomes[-1], f"{outcomes[-1].ratio:.2f}", flush=True)
    about = machine("torch", "transformers")
    RESULTS.write_text(
        json.dumps({"about": about, "cases": [asdict(each) for each in outcomes]}, indent=2) + "\n"
    )
    PAGE.write_text(page(outcomes, about))


if __name__ == "__main__":
    main()
