"""From random weights to a row of the leaderboard: ``python -m benchmarks.demo``, or ``make train-demo``.

A tiny model sees what an oracle does on easy levels of Sokoban, then learns by GiGPO from its own play. Both
stages are benched on levels that neither saw, their rows are replayed and ranked, and the curve of the second
is drawn. Everything is repeatable but the times.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter

from agentgym.cli import main as agentgym

ENV = "agentgym/Sokoban-v0"
LEVELS = ("env_options.max_optimal=5", "env_options.max_steps=8")
"""One box, solvable in five moves, eight allowed."""
FOLDER = Path("runs/demo")
RUN = FOLDER / "sokoban-gigpo"
BENCHMARKS = Path("benchmarks")
CURVE = BENCHMARKS / "curves" / f"{RUN.name}.png"

CLONING = ("learning_rate=5e-3", "batch=32", "held_out=200")
LEARNING = (
    "learner.learning_rate=5e-4",
    "rollout.tasks=24",
    "evaluation.tasks=200",
    "evaluation.temperature=1.0",
    "evaluation.every=20",
)


def settings(*pairs: str) -> Iterator[str]:
    """Yield the words that change settings."""
    for pair in pairs:
        yield from ("--set", pair)


def stages() -> Iterator[tuple[str, list[str]]]:
    """Yield what is done, and the command line that does it."""
    clone = str(FOLDER / "sokoban-clone")
    first = ["train", "bc", "--env", ENV, "--model", "tiny:0.1m", "--tasks", "3454", "--epochs", "4"]
    yield "clone the oracle", [*first, "--out", clone, *settings(*LEVELS, *CLONING)]
    run = ["train", "gigpo", "--env", ENV, "--model", clone, "--preset", "tiny", "--iterations", "150"]
    yield "learn from play", [*run, "--out", str(RUN), *settings(*LEVELS, *LEARNING)]
    yield "draw", ["plot", str(RUN), "--metric", "success", "--metric", "eval", "--out", str(CURVE)]
    suite, model = str(BENCHMARKS / "suites" / "demo.toml"), str(RUN / "checkpoints" / "last" / "model")
    bench = [
        "bench",
        suite,
        "--out",
        str(BENCHMARKS / "results"),
        "--model",
        model,
        "--model",
        clone,
        "--verify",
    ]
    yield "bench, replay and rank", [*bench, "--leaderboard", str(BENCHMARKS / "LEADERBOARD.md")]


def main() -> int:
    """Go through the stages; end at the first that fails."""
    for folder in (FOLDER, BENCHMARKS / "results" / "demo"):
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier demo
    CURVE.parent.mkdir(exist_ok=True)
    began = perf_counter()
    for title, words in stages():
        sys.stderr.write(f"\n{title}: agentgym {' '.join(words)}\n")
        stage = perf_counter()
        code = agentgym(words)
        if code:
            return code
        sys.stderr.write(f"{title}: {perf_counter() - stage:.0f} s\n")
    sys.stderr.write(f"\nall: {perf_counter() - began:.0f} s; the curve is {CURVE}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
