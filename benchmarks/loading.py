"""Memory of a run's start: ``python -m benchmarks.loading [--before CHECKOUT] [--cases N ...]``.

Models of three sizes with random weights, saved in bfloat16 as published ones are, are opened for training by
one process and by two: environments, policy, engine and learner, and in a second form a reference and a
critic as well. Each opening has processes of its own, on one thread. What is reported is the growth of
resident memory at the fullest moment, in the bytes of the model in float32; pages of the weights' files count
while they are mapped. ``--before`` measures another checkout of this project in the same way. Each case is
written down when it is finished, in the place of an older result.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import torch
from transformers import GenerationConfig, Qwen2Config, Qwen2ForCausalLM

from agentgym.training.config import TrainConfig, override
from agentgym.training.learner.distributed import Ranks
from agentgym.training.machine.resources import resolve
from agentgym.training.models.models import LanguageModel, save_model
from agentgym.training.models.tiny import word_tokenizer
from agentgym.training.setup import TrainingSetup

RESULTS = Path(__file__).with_suffix(".json")
PAGE = RESULTS.with_suffix(".md")
ENV = "agentgym/EZPoints-v0"
SMALL = "small"
"""Opened first, so that what is imported and made once is there."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a model."""

    hidden: int
    layers: int
    intermediate: int
    vocabulary: int


SHAPES = {
    SMALL: Shape(hidden=64, layers=2, intermediate=128, vocabulary=1_000),
    "30m": Shape(hidden=384, layers=8, intermediate=1536, vocabulary=32_000),
    "120m": Shape(hidden=768, layers=12, intermediate=2048, vocabulary=50_000),
    "480m": Shape(hidden=1280, layers=20, intermediate=3456, vocabulary=64_000),
}

PARTS = {
    "policy": ("grpo", 0.0),
    "policy, reference, critic": ("ppo", 0.01),
}
"""What is opened, by an algorithm and its coefficient of the divergence from a reference."""

CASES = [(size, ranks, parts) for size in ("30m", "120m", "480m") for ranks in (1, 2) for parts in PARTS]


@dataclass(frozen=True, slots=True)
class Opening:
    """What opening a run took, of the rank that took most."""

    parameters: int
    peak: int
    """Growth of resident memory at the fullest moment, in bytes."""
    kept: int
    """Growth when all was open."""

    @property
    def ratio(self) -> float:
        """Peak over the model's bytes in float32."""
        return self.peak / (4 * self.parameters)


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
        model = Qwen2ForCausalLM(config).to(dtype=torch.bfloat16)  # type: ignore[call-arg]
        model.generation_config = GenerationConfig.from_model_config(config)
        save_model(folder / name, LanguageModel(model, tokenizer))


def config_of(folder: Path, size: str, parts: str) -> TrainConfig:
    """Return the run that is opened."""
    algorithm, coefficient = PARTS[parts]
    plain = TrainConfig(algorithm=algorithm, env_id=ENV, model=str(folder / size))
    changes = {"objective.kl_coefficient": coefficient, "rollout.num_envs": 8, "evaluation.every": 0}
    return override(plain, changes)


def measure(folder: Path, size: str, parts: str) -> None:
    """Open a run in this process, and write what it took."""
    torch.set_num_threads(1)
    with Ranks.join() as ranks:
        with closing(TrainingSetup.open(resolve(config_of(folder, SMALL, parts)), ranks)):
            pass
        Path("/proc/self/clear_refs").write_text("5")  # forget the fullest moment so far
        before = _memory("VmRSS")
        with closing(TrainingSetup.open(resolve(config_of(folder, size, parts)), ranks)) as setup:
            opening = Opening(setup.learner.parameters, _memory("VmHWM") - before, _memory("VmRSS") - before)
        (folder / f"rank {ranks.rank}.json").write_text(json.dumps(asdict(opening)))


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def opened(folder: Path, size: str, ranks: int, parts: str, checkout: Path) -> Opening:
    """Open a run in processes of their own, by the code of a checkout."""
    command = [sys.executable]
    if ranks > 1:
        command += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command += [__file__, "--folder", str(folder), "--case", size, parts]
    environment = os.environ | {"PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    found = [Opening(**json.loads((folder / f"rank {rank}.json").read_text())) for rank in range(ranks)]
    return max(found, key=lambda each: each.peak)


def middle(rounds: list[Opening]) -> Opening:
    """Return the median of each figure."""
    figures = {name: median(getattr(each, name) for each in rounds) for name in ("peak", "kept")}
    return replace(rounds[0], **figures)


def planned(folder: Path, size: str, ranks: int, parts: str) -> int:
    """Return the bytes that ``--plan`` plans for the start."""
    from agentgym.training.machine.memory import plan_memory
    from agentgym.training.machine.resources import Machine, model_size

    machine = replace(Machine.here("cpu"), ranks=ranks)
    config = config_of(folder, size, parts)
    read = model_size(config)
    assert read is not None
    return plan_memory(read, resolve(config, machine, read), ranks=ranks).start


def page(cases: list[dict[str, Any]], about: dict[str, str]) -> str:
    """Write the table."""
    lines = [
        "# Memory of a run's start",
        "",
        f"`python -m benchmarks.loading --before CHECKOUT` on {about['cpu']};",
        f"torch {about['torch']}, transformers {about['transformers']}, safetensors {about['safetensors']}.",
        "",
        "Growth of resident memory while a run is opened, at the fullest moment of the rank that needs most,",
        "in the bytes of the model in float32; files are in bfloat16. Medians of rounds, each in processes",
        "of its own on one thread. With several ranks the engine `hf` has a whole copy on each: 1.00 of the",
        "figures. Before (c30222c), each rank loaded the model and copied it before keeping its part.",
        "",
        "| model | opened | ranks | before | now | `--plan` | rounds |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for case in cases:
        now = Opening(**case["now"])
        before = Opening(**case["before"]) if case["before"] else None
        share = case["planned"] / (4 * now.parameters)
        old = "" if before is None else f"{before.ratio:.2f}"
        lines.append(
            f"| {now.parameters / 1e6:.0f} M | {case['parts']} | {case['ranks']} | {old} | {now.ratio:.2f} "
            f"| {share:.2f} | {case['rounds']} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure every case, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--before", type=Path, help="another checkout, to be measured as well")
    parser.add_argument("--rounds", type=int, default=3, help="of each case (default: 3)")
    parser.add_argument("--cases", type=int, nargs="+", help=f"0 to {len(CASES) - 1} (default: all)")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--case", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.case:
        measure(given.folder, *given.case)
        return
    from benchmarks.speed.report import machine

    here = Path(__file__).resolve().parent.parent
    with TemporaryDirectory(prefix="agentgym-") as name:
        folder = Path(name)
        make(folder)
        for number in given.cases or range(len(CASES)):
            size, ranks, parts = CASES[number]
            found: dict[str, Any] = {"size": size, "ranks": ranks, "parts": parts, "rounds": given.rounds}
            for label, checkout in (("before", given.before), ("now", here)):
                count = given.rounds if checkout else 0
                rounds = [opened(folder, size, ranks, parts, checkout) for _ in range(count)]
                found[label] = asdict(middle(rounds)) if rounds else None
            found["planned"] = planned(folder, size, ranks, parts)
            print(json.dumps(found), flush=True)
            write(number, found, machine("torch", "transformers", "safetensors"))


def write(number: int, found: dict[str, Any], about: dict[str, str]) -> None:
    """Write a case down beside those that are written already."""
    cases = json.loads(RESULTS.read_text())["cases"] if RESULTS.exists() else {}
    cases = {**cases, str(number): found}
    ordered = {key: cases[key] for key in sorted(cases, key=int)}
    RESULTS.write_text(json.dumps({"about": about, "cases": ordered}, indent=2) + "\n")
    PAGE.write_text(page(list(ordered.values()), about))


if __name__ == "__main__":
    main()
