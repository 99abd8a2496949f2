"""Planned and measured runs: ``python -m benchmarks.plan``.

Ten small runs on one thread of a CPU, each in a process of its own: models with random weights, with and
without a reference, a critic, an adapter and checkpointing. Each run takes two iterations of four episodes
with one turn, which read one prompt; the plan counts four. The measured memory is the growth of the resident
set up to its peak, from before the run is opened. The first columns compare the bytes that `agentgym train
--plan` counts with runs whose allocator returns freed blocks at once (`MALLOC_MMAP_THRESHOLD_=65536`). The
last columns compare the whole plan, with the gaps that glibc's allocator leaves by default. Two factors of
these gaps, 1/2 and 1 with an adapter, are fitted to these runs; nothing else is.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from agentgym.inference.models.language_model import LanguageModel, save_model
from agentgym.inference.models.tiny import word_tokenizer
from agentgym.training.config import TrainConfig, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.memory import GAPS, ModelSize, plan_memory
from agentgym.training.machine.pace import FORWARD, UPDATE
from agentgym.training.machine.resources import Machine, resolve
from agentgym.training.setup import TrainingSetup
from benchmarks.harness.report import machine

RESULTS = Path(__file__).with_suffix(".json")
PAGE = RESULTS.with_suffix(".md")
ENV = "agentgym/EZPoints-v0"
MIB = 1 << 20
SMALL = "small"
"""Trained first in each process, so that what is imported and made once is there."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model."""

    hidden: int
    layers: int
    intermediate: int
    vocabulary: int


SHAPES = {
    SMALL: Shape(hidden=64, layers=2, intermediate=128, vocabulary=1_000),
    "10M": Shape(hidden=256, layers=6, intermediate=1024, vocabulary=16_000),
    "20M": Shape(hidden=384, layers=6, intermediate=1280, vocabulary=20_000),
    "34M": Shape(hidden=448, layers=8, intermediate=1536, vocabulary=24_000),
}

EPISODES = 4
KL, AGAIN, ADAPTER = "objective.kl_coefficient", "learner.gradient_checkpointing", "learner.lora_rank"
CASES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("10M", "grpo", {KL: 0.0}),
    ("10M", "grpo", {KL: 0.0, AGAIN: True}),
    ("10M", "steppo", {KL: 0.0}),
    ("20M", "grpo", {KL: 0.0}),
    ("20M", "grpo", {KL: 0.01}),
    ("20M", "grpo", {KL: 0.0, ADAPTER: 8}),
    ("20M", "gigpo", {KL: 0.0, "rollout.tasks": 2, "rollout.num_envs": 8}),
    ("20M", "steppo", {KL: 0.0}),
    ("34M", "grpo", {KL: 0.0}),
    ("34M", "gigpo", {KL: 0.01, AGAIN: True}),
)
"""Model, algorithm and settings of each run."""


THRESHOLD = {"MALLOC_MMAP_THRESHOLD_": "65536"}
"""Environment in which glibc returns each large block that is freed, so that memory holds what is in use."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run: bytes at the fullest moment, and the work and seconds of the second iteration."""

    planned: int
    """Peak of the plan, without the allocator's gaps."""
    gaps: int
    """The allocator's gaps, by the plan."""
    measured: int
    parameters: int
    models: int
    """Number of trained models, a critic included."""
    passes: float
    """Passes without a gradient, in forward passes."""
    group: int
    """Number of episodes with the same prompt, which is read once."""
    tokens_in: int
    tokens_out: int
    learner_tokens: int
    sampling: float
    """Wall-clock seconds, as of the update: their shares divide the processor's seconds."""
    update: float
    processor: float


def make(folder: Path) -> None:
    """Save the models."""
    tokenizer = word_tokenizer(["Make a number."])
    for name, shape in SHAPES.items():
        config = Qwen2Config(
            vocab_size=shape.vocabulary,
            hidden_size=shape.hidden,
            intermediate_size=shape.intermediate,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.hidden // 64,
            num_key_value_heads=shape.hidden // 64,
            max_position_embeddings=4096,
            tie_word_embeddings=True,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id,
        )
        model = Qwen2ForCausalLM(config)
        model.generation_config = GenerationConfig.from_model_config(config)
        save_model(folder / name, LanguageModel(model, tokenizer))


def config_of(folder: Path, size: str, algorithm: str, changes: dict[str, Any]) -> TrainConfig:
    """Return a run's configuration."""
    plain = TrainConfig(algorithm=algorithm, env_id=ENV, model=str(folder / size), iterations=2, device="cpu")
    return override(
        plain,
        {
            "rollout.engine": "hf",
            "env_options": {"max_steps": 1},
            "rollout.tasks": 1,
            "rollout.group_size": EPISODES,
            "rollout.num_envs": EPISODES,
            "prompting.budget": 768,
            "prompting.max_tokens": 32,
            "learner.packing": "rows",
            "learner.token_budget": 800,
            "evaluation.every": 0,
            **changes,
        },
    )


def measure(folder: Path, number: int) -> Outcome:
    """Train in this process."""
    torch.set_num_threads(1)
    size, algorithm, changes = CASES[number]
    _train(config_of(folder, SMALL, algorithm, changes), folder / "first")
    Path("/proc/self/clear_refs").write_text("5")  # forgets the fullest moment so far
    before = _memory("VmRSS")
    config = config_of(folder, size, algorithm, changes)
    metrics, processor = _train(config, folder / "run")
    measured = _memory("VmHWM") - before
    size_, resolved = ModelSize.read(folder / size), resolve(config, Machine("cpu", "CPU", 0))
    plan = plan_memory(size_, resolved)
    gaps = plan.always[GAPS]
    learner, seconds = resolved.learner, metrics.seconds
    passes = sum((learner.recomputes, config.loss.kl_coefficient > 0, bool(learner.gradient_checkpointing)))
    return Outcome(
        planned=plan.peak - gaps,
        gaps=gaps,
        measured=measured,
        parameters=size_.parameters,
        models=1 + (config.spec.critic is not None),
        passes=passes,
        group=config.rollout.group_size,
        tokens_in=metrics.tokens_in,
        tokens_out=metrics.tokens_out,
        learner_tokens=metrics.learner_tokens,
        sampling=seconds.model,
        update=seconds.update,
        processor=processor,
    )


def _train(config: TrainConfig, folder: Path) -> tuple[Any, float]:
    """Return the second iteration's metrics, and its processor seconds."""
    folder.mkdir()
    with closing(TrainingSetup.open(resolve(config))) as setup, closing(Trainer(setup, folder)) as trainer:
        trainer.iterate()
        began = process_time()
        return trainer.iterate(), process_time() - began


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def measure_all(folder: Path) -> None:
    """Print a line of each case, each of a child of this process, which has trained nothing."""
    for number in range(len(CASES)):
        for name in ("first", "run"):
            rmtree(folder / name, ignore_errors=True)
        if os.fork() == 0:
            try:
                print(json.dumps(asdict(measure(folder, number))), flush=True)
            finally:
                os._exit(0)
        os.wait()


def read(lines: str) -> list[Outcome]:
    """Return the outcomes that `measure_all` printed."""
    return [Outcome(**json.loads(line)) for line in lines.splitlines() if line.startswith("{")]


def main() -> None:
    """Measure every case with both settings of the allocator, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=Path, help="measure in this process, with models of this folder")
    folder = parser.parse_args().models
    if folder is not None:
        measure_all(folder)
        return
    found = {}
    with TemporaryDirectory() as made:
        make(Path(made))
        for name, changes in (("default", {}), ("threshold", THRESHOLD)):
            command = [sys.executable, "-m", "benchmarks.plan", "--models", made]
            environment = os.environ | {"OMP_NUM_THREADS": "1"} | changes
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
            found[name] = read(done.stdout)
    about = machine("torch", "transformers")
    table = {name: [asdict(each) for each in outcomes] for name, outcomes in found.items()}
    RESULTS.write_text(json.dumps({"about": about, **table}, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(page(found, about), encoding="utf-8")


def learning_rate(each: Outcome) -> float:
    """Return the operations a second of an update, passes without a gradient included."""
    seconds = each.processor * each.update / (each.sampling + each.update)
    return each.models * each.parameters * each.learner_tokens * (UPDATE + FORWARD * each.passes) / seconds


def sampling_rate(each: Outcome) -> float:
    """Return the operations a second of reading prompts and sampling; a group reads its first prompt once."""
    seconds = each.processor * each.sampling / (each.sampling + each.update)
    read = each.tokens_in / each.group
    return FORWARD * each.parameters * (read + each.tokens_out) / seconds


def page(found: dict[str, list[Outcome]], about: dict[str, str]) -> str:
    """Return the report in Markdown."""
    lines = [
        "# Planned and measured runs",
        "",
        f"`python -m benchmarks.plan` on {about['cpu']}; torch {about['torch']}, transformers "
        f"{about['transformers']}.",
        (__doc__ or "").split("\n\n", 1)[1],
        "| model | algorithm | settings | counted MiB | measured MiB | counted / measured "
        "| planned MiB | measured MiB | planned / measured |",
        "|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for (size, algorithm, changes), exact, usual in zip(
        CASES, found["threshold"], found["default"], strict=True
    ):
        settings = ", ".join(f"`{key}={value}`" for key, value in changes.items() if value)
        cells = []
        for planned, measured in (
            (exact.planned, exact.measured),
            (usual.planned + usual.gaps, usual.measured),
        ):
            cells += [f"{planned / MIB:,.0f}", f"{measured / MIB:,.0f}", f"{planned / measured:.2f}"]
        lines.append(f"| {size} | {algorithm} | {settings} | {' | '.join(cells)} |")
    every = found["default"]
    learned, sampled = (sorted(rate(each) / 1e9 for each in every) for rate in (learning_rate, sampling_rate))
    lines += [
        "",
        f"One thread took {learned[0]:.1f} to {learned[-1]:.1f} billion operations a second in updates, and",
        f"{sampled[0]:.1f} to {sampled[-1]:.1f} billion in sampling. Seconds are the processor's, divided",
        "between the two stages as their wall-clock seconds are; other work shared the machine. A weight and",
        "token take 6 operations in an update, 2 in a pass without a gradient.",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
