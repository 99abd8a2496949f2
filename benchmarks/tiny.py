"""Whether the preset ``tiny`` learns: every algorithm on EZPoints from random weights, five seeds each.

``python -m benchmarks.tiny [ALGORITHM...]`` adds what is missing to ``benchmarks/tiny.jsonl``, a line each,
and writes ``benchmarks/tiny.md``. Settings were chosen on seeds 100 to 104, which are not reported.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import torch

from agentgym.algos.table import ALGORITHMS
from agentgym.cli.train import TRAINABLE
from agentgym.history.metrics import IterationMetrics
from agentgym.history.trend import WINDOW
from agentgym.training.config import TINY, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup

ENV, MODEL = "agentgym/EZPoints-v0", "tiny:0.1m"
SEEDS = range(5)
LEARNED = 0.5
"""Final success of a run that has learned."""
BEFORE: Mapping[str, Any] = {
    "iterations": 100,
    "learner.minibatches": 4,
    "learner.learning_rate": 3e-3,
    "learner.entropy_coefficient": 0.0,
}
"""What the preset was; the arm ``gigpo-before`` has it."""
ARMS = (*TRAINABLE, "gigpo-before")
RUNS = Path(__file__).with_suffix(".jsonl")


class _Kept:
    """A log that keeps what it is given."""

    def __init__(self) -> None:
        self.metrics: list[IterationMetrics] = []

    def write(self, metrics: IterationMetrics) -> None:
        self.metrics.append(metrics)

    def close(self) -> None:
        """Do nothing."""


def learn(arm: str, seed: int) -> dict[str, Any]:
    """Train once; return success by iteration, why the run ended, and success on held-out tasks."""
    torch.set_num_threads(1)
    algorithm, _, before = arm.partition("-")
    config = TINY.config(algorithm, ENV, model=MODEL, seed=seed)
    config = override(config, {"checkpoint_every": 0, **(BEFORE if before else {})})
    began, log = process_time(), _Kept()
    with tempfile.TemporaryDirectory() as folder:
        setup = TrainingSetup.open(resolve(config))
        end = Trainer(setup, Path(folder)).run(log)
        setup.close()
    held_out = [each.evaluation.success for each in log.metrics if each.evaluation is not None]
    return {
        "arm": arm,
        "seed": seed,
        "end": end,
        "success": [round(each.success, 4) for each in log.metrics],
        "held_out": round(held_out[-1], 4) if held_out else None,
        "cpu_seconds": round(process_time() - began, 1),
    }


def means(run: Mapping[str, Any]) -> list[float]:
    """Return success averaged over each `WINDOW` iterations."""
    success = run["success"]
    return [
        fmean(success[max(0, end - WINDOW) : end])
        for end in range(min(WINDOW, len(success)), len(success) + 1)
    ]


def dip(run: Mapping[str, Any]) -> float:
    """Return how far the mean falls below its highest value so far, at worst."""
    curve = means(run)
    return max(max(curve[: place + 1]) - value for place, value in enumerate(curve))


def report(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return the page."""
    lines = [
        "# The preset `tiny`",
        "",
        f"`agentgym train ALGORITHM --env {ENV} --model {MODEL}` from random weights with nothing else set, "
        f"seeds {SEEDS[0]} to {SEEDS[-1]}. Success is that of training episodes, at temperature 1, over the "
        f"last {WINDOW} iterations: the mean over seeds, with the least and the greatest. Held-out success "
        "is that on the validation split after the last iteration, at temperature 0.4. A run has learned if "
        f"it ends with {LEARNED:.0%} or more. The dip is the worst fall of the mean of {WINDOW} iterations "
        "below its highest value so far, over all seeds. Settings were chosen on seeds 100 to 104. "
        "`python -m benchmarks.tiny` repeats it.",
        "",
        "| algorithm | final success | held out | without learning | no signal | worst dip | seconds |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    missing = len(ARMS) * len(SEEDS) - len(runs)
    if missing:
        lines.insert(
            3, f"\n**Unfinished**: {missing} runs are still to be done; each row counts its own seeds."
        )
    for arm in ARMS:
        own = [run for run in runs if run["arm"] == arm]
        if not own:
            continue
        name, _, before = arm.partition("-")
        last = [means(run)[-1] for run in own]
        held = [run["held_out"] for run in own if run["held_out"] is not None]
        title = ALGORITHMS[name].title + (", the preset before" if before else "")
        lines.append(
            f"| {title} | {fmean(last):.0%} ({min(last):.0%} to {max(last):.0%}) | "
            f"{f'{fmean(held):.0%}' if held else '-'} | "
            f"{sum(each < LEARNED for each in last)} of {len(own)} | "
            f"{sum(run['end'] == 'no signal' for run in own)} | {max(map(dip, own)):.0%} | "
            f"{fmean(run['cpu_seconds'] for run in own):.0f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is missing, and write the page after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arms", nargs="*", default=ARMS, metavar="ALGORITHM")
    parser.add_argument("--seeds", type=int, nargs="*", default=SEEDS)
    parser.add_argument("--runs", type=Path, default=RUNS)
    given = parser.parse_args()
    for seed in given.seeds:
        for arm in given.arms:
            done = _read(given.runs)
            if not any((run["arm"], run["seed"]) == (arm, seed) for run in done):
                with given.runs.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(learn(arm, seed)) + "\n")
            given.runs.with_suffix(".md").write_text(report(_read(given.runs)), encoding="utf-8")


def _read(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return sorted(map(json.loads, lines), key=lambda run: (ARMS.index(run["arm"]), run["seed"]))


if __name__ == "__main__":
    main()
