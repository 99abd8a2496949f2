"""Whether algorithms learn: tiny models on EZPoints, several seeds, beside a control with shuffled credit.

``python -m benchmarks.learning`` writes ``benchmarks/learning.md``. A run begins with random weights and ends
after `CPU_SECONDS` of processor time or `ITERATIONS`, whichever is first; nothing is chosen afterwards.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import process_time

import numpy as np
import torch

from agentgym.algos.table import ALGORITHMS
from agentgym.cli.train import TRAINABLE
from agentgym.history.metrics import IterationMetrics
from agentgym.training.config import TINY, TrainConfig, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages import RolloutBatch, Scorer, Scores, Stateless, stages_of

ENV = "agentgym/EZPoints-v0"
SEEDS = (0, 1, 2)
CPU_SECONDS = 90.0
ITERATIONS = 120
FLOOR, GOAL = 0.15, 0.7
"""A run has learned if its success was below the one at first, and above the other at last."""
SETTINGS = {
    "rollout.accuracy": [0.2, 0.8],
    "learner.minibatches": 4,
    "learner.learning_rate": 3e-3,
    "learner.entropy_coefficient": 0.01,
}
"""On top of the preset ``tiny``, whose values have changed since."""
WINDOW = 5
"""Iterations whose success is averaged: at first, and at last."""


def learning_config(algorithm: str, seed: int) -> TrainConfig:
    """Return the settings of a run: the tiny preset, alike for all algorithms."""
    plain = TINY.config(algorithm, ENV, model="tiny:0.1m", seed=seed)
    changes = {"iterations": ITERATIONS, "evaluation.every": 0, "checkpoint_every": 0}
    return override(plain, {**SETTINGS, **changes})


@dataclass
class Shuffled(Stateless):
    """The control: every advantage goes to some other step or token of the batch."""

    inner: Scorer
    draws: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Return the advantages, shuffled."""
        scores = self.inner.score(rollouts)
        return replace(scores, advantages=self.draws.permutation(scores.advantages))


@dataclass(frozen=True)
class Learned:
    """How a run went."""

    algorithm: str
    seed: int
    control: bool
    success: tuple[float, ...]
    """Of each iteration's episodes."""
    cpu_seconds: tuple[float, ...]
    """Of this process at each iteration's end."""

    @property
    def first(self) -> float:
        """Success at first."""
        return statistics.fmean(self.success[:WINDOW])

    @property
    def last(self) -> float:
        """Success at last."""
        return statistics.fmean(self.success[-WINDOW:])

    @property
    def until_goal(self) -> float | None:
        """Processor time until success, averaged over the window, reached the goal; None if it never did."""
        for end in range(WINDOW, len(self.success) + 1):
            if statistics.fmean(self.success[end - WINDOW : end]) >= GOAL:
                return self.cpu_seconds[end - 1]
        return None


def learn(
    algorithm: str,
    seed: int,
    *,
    control: bool = False,
    stop_at: float | None = None,
    iterations: int = ITERATIONS,
    folder: Path,
) -> Learned:
    """Train once.

    Args:
        algorithm: its name.
        seed: of everything.
        control: whether advantages are shuffled.
        stop_at: success, averaged over the window, that ends the run; None for no such end.
        iterations: at most; learning rates fall over `ITERATIONS` all the same.
        folder: takes what a run writes.
    """
    torch.set_num_threads(1)
    config = learning_config(algorithm, seed)
    setup = TrainingSetup.open(resolve(config))
    plain = stages_of(algorithm).scorer(setup)
    trainer = Trainer(setup, folder, scorer=Shuffled(plain) if control else plain)
    success: list[float] = []
    times: list[float] = []
    began = process_time()
    while trainer.iteration < iterations and process_time() - began < CPU_SECONDS:
        metrics: IterationMetrics = trainer.iterate()
        success.append(metrics.success)
        times.append(process_time() - began)
        reached = len(success) >= WINDOW and statistics.fmean(success[-WINDOW:])
        if stop_at is not None and reached >= stop_at:
            break
    setup.close()
    return Learned(algorithm, seed, control, tuple(success), tuple(times))


def report(runs: Sequence[Learned]) -> str:
    """Return the page."""
    lines = [
        "# Learning",
        "",
        f"Tiny models of random weights on `{ENV}`, {CPU_SECONDS:.0f} processor-seconds or {ITERATIONS} "
        f"iterations each, seeds {', '.join(map(str, SEEDS))}. Success is that of the training episodes, "
        f"sampled at temperature 1, averaged over the first and the last {WINDOW} iterations; medians over "
        "seeds, with the least and the greatest. The control shuffles the advantages of every batch.",
        "",
        "`make learning-report` writes this page.",
        "",
        f"| algorithm | at first | at last | processor-seconds to {GOAL:.0%} | seeds there |",
        "|---|---:|---:|---:|---:|",
    ]
    names = dict.fromkeys((run.algorithm, run.control) for run in runs)
    for name, control in names:
        own = [run for run in runs if (run.algorithm, run.control) == (name, control)]
        times = [run.until_goal for run in own]
        reached = [seconds for seconds in times if seconds is not None]
        title = ALGORITHMS[name].title + (", shuffled" if control else "")
        lines.append(
            f"| {title} | {_spread([run.first for run in own])} | {_spread([run.last for run in own])} | "
            f"{f'{statistics.median(reached):.0f}' if reached else '-'} | {len(reached)} of {len(own)} |"
        )
    return "\n".join(lines) + "\n"


def _spread(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1%} ({min(values):.1%} to {max(values):.1%})"


def main() -> None:
    """Run all, and write the page after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("algorithms", nargs="*", default=TRAINABLE, metavar="ALGORITHM")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".md"))
    arguments = parser.parse_args()
    plan = [("grpo", seed, True) for seed in SEEDS]
    plan += [(name, seed, False) for name in arguments.algorithms for seed in SEEDS]
    runs = []
    for name, seed, control in plan:
        with tempfile.TemporaryDirectory() as folder:
            run = learn(name, seed, control=control, folder=Path(folder))
        runs.append(run)
        sys.stderr.write(
            f"{name} {'shuffled ' if control else ''}seed {seed}: {run.first:.1%} -> {run.last:.1%} in "
            f"{run.cpu_seconds[-1]:.0f} s, {len(run.success)} iterations, goal {run.until_goal}\n"
        )
        arguments.out.write_text(report(runs), encoding="utf-8")


if __name__ == "__main__":
    main()
