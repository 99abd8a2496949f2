"""From random weights to a row of a leaderboard: ``python -m benchmarks.demo``, or ``make train-demo``.

A tiny model learns easy levels of Sokoban by GraphGPO from its own play; no demonstration is shown. The model
before and after it is benched on levels that it was not trained on, the rows are verified and ranked, and the
learning curve is drawn. Everything is written under `FOLDER`, which git ignores; everything is repeatable but
the times, also on another x86-64 processor that has AVX2 (`REPEATABLE`).
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import closing
from pathlib import Path
from time import perf_counter

from agentgym.cli import main as agentgym
from agentgym.evaluation.board.boards import make_boards
from agentgym.evaluation.board.statistics import Estimate
from agentgym.evaluation.suites import suite_file
from agentgym.evaluation.suites.suite import load_suite
from agentgym.evaluation.verify.submissions import verify_below

FOLDER = Path("runs/demo")
RUN = FOLDER / "sokoban-graphgpo"
UNTRAINED = FOLDER / "untrained"
RESULTS = FOLDER / "results"
BOARD = FOLDER / "LEADERBOARD.md"
CURVE = FOLDER / "curves" / f"{RUN.name}.png"
"""Where the page shows it, and `tools/pictures.py` takes it from."""

SUITE = "demo"
LEVELS = ("env_options.max_optimal=4", "env_options.max_steps=12", "env_options.effective_only=true")
"""One box, solved in four moves at most; twelve are allowed, and only those that change the board."""

REPEATABLE = {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "avx2"}
"""Environment variables under which torch rounds alike on processors of any vendor and width: MKL's products
of matrices and ATen's own loops choose their instructions by the processor otherwise."""

SEED = 0
ITERATIONS = 110
LEARNING = (
    # many levels an iteration rather than many episodes of each: what is learned holds for unseen ones too
    "rollout.tasks=32",
    "rollout.group_size=8",
    "rollout.num_envs=256",
    # credit by the graph of a level's episodes alone, which eight short episodes nearly map out
    "algorithm_options.episode_weight=0.0",
    "algorithm_options.omega=0.5",
    # large steps, and an entropy bonus without which random weights soon stop exploring
    "learner.learning_rate=4e-3",
    "learner.minibatches=8",
    "learner.token_budget=4096",
    "learner.fused=true",
    "learner.entropy_coefficient=0.1",
    "warmup=3",
    "evaluation.tasks=207",
    "evaluation.temperature=1.0",
    "evaluation.every=10",
)


def train() -> int:
    """Train from random weights; return the exit code."""
    words = ["train", "graphgpo", "--env", "agentgym/Sokoban-v0", "--model", "tiny:0.1m", "--preset", "tiny"]
    words += ["--seed", str(SEED), "--iterations", str(ITERATIONS), "--out", str(RUN)]
    for pair in (*LEVELS, *LEARNING):
        words += ["--set", pair]
    return agentgym(words)


def save_untrained() -> int:
    """Save the weights that training began with; return the exit code."""
    from agentgym.training.config import read_config
    from agentgym.training.loop import Trainer
    from agentgym.training.machine.resources import resolve
    from agentgym.training.setup import TrainingSetup

    config = read_config(RUN)
    UNTRAINED.mkdir()
    with closing(TrainingSetup.open(resolve(config))) as setup:
        Trainer(setup, UNTRAINED).save()
    return 0


def draw() -> int:
    """Draw the learning curve; return the exit code."""
    CURVE.parent.mkdir()
    metrics = ("--metric", "success", "--metric", "eval")
    return agentgym(["plot", str(RUN), *metrics, "--smooth", "5", "--out", str(CURVE)])


def rank() -> int:
    """Bench the model before and after, verify and rank; return the exit code."""
    words = ["bench", SUITE, "--out", str(RESULTS), "--verify", "--leaderboard", str(BOARD)]
    for run in (UNTRAINED, RUN):
        words += ["--model", f"{run / 'checkpoints' / 'last' / 'model'}:{run.name}"]
    return agentgym(words)


STAGES = (
    ("train by GraphGPO", train),
    ("save the weights from before", save_untrained),
    ("draw the learning curve", draw),
    ("bench, verify and rank", rank),
)


def learned() -> str:
    """Return what was learned, from the board."""
    suite = suite_file(SUITE)
    (board,), _ = make_boards(verify_below(RESULTS, suites={load_suite(suite).name: suite}))
    success = {row.name: next(iter(row.envs.values())).success for row in board.rows}
    before, chance, after = (success[name] for name in (UNTRAINED.name, "random", RUN.name))
    return (
        f"unseen levels won: {percent(before)} with random weights (random moves: {percent(chance)}) "
        f"-> {percent(after)} after {ITERATIONS} iterations of GraphGPO, without demonstrations"
    )


def percent(share: Estimate) -> str:
    """Return a share and its 95 % interval in percent."""
    return f"{share.value:.1%} [{100 * share.low:.1f}, {100 * share.high:.1f}]"


def main() -> int:
    """Go through the stages; end at the first that fails."""
    shutil.rmtree(FOLDER, ignore_errors=True)  # an earlier demo's
    began = perf_counter()
    for title, stage in STAGES:
        sys.stderr.write(f"\n{title}\n")
        stage_began = perf_counter()
        code = stage()
        if code:
            return code
        sys.stderr.write(f"{title}: {perf_counter() - stage_began:.0f} s\n")
    sys.stderr.write(f"\nthe curve is {CURVE}, the board {BOARD}\n")
    sys.stdout.write(f"{learned()} ({perf_counter() - began:.0f} s)\n")
    return 0


if __name__ == "__main__":
    os.environ.update(REPEATABLE)  # read when torch computes first; not in main(), which tests call
    raise SystemExit(main())
