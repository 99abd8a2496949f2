"""GRPO on the built-in SOTOPIA: ``python -m benchmarks.sotopia_learning``.

A tiny model chooses among listed moves, from random weights, for 20 iterations of the preset ``tiny``. It is
played on test tasks, beside chance, the rule and the oracle. Everything is written under `FOLDER`, which git
ignores; ``--publish`` takes the page and the curve into the repository.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import process_time
from typing import Any

import torch

from agentgym.agents import make_agent
from agentgym.cli import main as agentgym
from agentgym.core.types import Policy
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.policy.agent import make_model_agent
from agentgym.vector.core import AgentVectorEnv

ENV = "agentgym/Sotopia-v0"
OPTIONS: dict[str, Any] = {"actions": "candidates", "view": "lite", "max_turns": 12}
"""Those of the preset ``tiny``."""

FOLDER = Path("runs/sotopia")
RUN = FOLDER / "grpo"
CURVE = FOLDER / "sotopia-grpo.png"
PAGE = Path("benchmarks/sotopia_learning.md")
PICTURE = Path("docs/images") / CURVE.name

ITERATIONS = 20
TASKS, GROUP = 8, 8
EVALUATED, EVERY = 64, 5
SETTINGS = (
    f"rollout.tasks={TASKS}",
    f"rollout.group_size={GROUP}",
    f"rollout.num_envs={TASKS * GROUP}",
    f"evaluation.tasks={EVALUATED}",
    f"evaluation.every={EVERY}",
    "evaluation.temperature=1.0",
    # the preset's rate of 3e-3 settles for accepting whatever is offered, in the first update
    "learner.learning_rate=5e-4",
    "learner.entropy_coefficient=0.02",
)
TESTED = 280
"""Test tasks, of all kinds of interaction and both sides, each played once."""


def train() -> float:
    """Train; return the processor time in seconds."""
    words = ["train", "grpo", "--env", ENV, "--model", "tiny:0.1m", "--preset", "tiny", "--seed", "0"]
    words += ["--out", str(RUN), "--iterations", str(ITERATIONS)]
    words += [word for setting in SETTINGS for word in ("--set", setting)]
    began = process_time()
    code = agentgym(words)
    if code:
        raise SystemExit(code)
    return process_time() - began


def play(make: Callable[[AgentVectorEnv], Policy]) -> dict[str, float]:
    """Return how a policy does on test tasks."""
    with closing(open_vector(ENV, 64, split="test", options=OPTIONS)) as envs:
        worker = RolloutWorker(envs, make(envs), env_id=ENV, measured=True)
        tasks = envs.tasks.ids[:TESTED]
        ended = list(worker.run(EpisodeSpec(task, seed, 0) for seed, task in enumerate(tasks)))
    names = ("goal", "partner_goal", "overall", "utterances")
    row = {name: statistics.fmean(one.measures[name] for one in ended) for name in names}
    return {"success": statistics.fmean(one.won for one in ended), **row}


def play_all() -> dict[str, dict[str, float]]:
    """Play the test tasks by everybody."""
    torch.set_num_threads(1)
    model = str(RUN / "checkpoints" / "last" / "model")
    return {
        "random": play(lambda envs: make_agent("random", envs)),
        "after 20 iterations": play(lambda envs: make_model_agent(envs, model)),
        "the same, greedy": play(lambda envs: make_model_agent(envs, model, temperature=0.0)),
        "rules": play(lambda envs: make_agent("rules", envs)),
        "oracle": play(lambda envs: make_agent("oracle", envs)),
    }


def curve() -> list[dict[str, Any]]:
    """Return what the run logged, an iteration a row."""
    lines = (RUN / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row.get("iteration")]


def report(seconds: float, table: dict[str, dict[str, float]]) -> str:
    """Return the page."""
    lines = [
        "# GRPO on SOTOPIA's built-in scenarios",
        "",
        f"`{ENV}`, preset `tiny` (16 listed moves, no backgrounds, six steps), partner `fair`: a model",
        f"of 0.1 million weights, from random weights, {ITERATIONS} iterations of {TASKS} tasks, {GROUP}",
        f"episodes each. {seconds:.0f} seconds of one core for sampling, learning and evaluation. One seed.",
        "With the preset's learning rate of 3e-3 the first update already settles for accepting whatever is",
        "offered (62.5 % of the second iteration's episodes won, and no group with different returns left),",
        "so this run's is 5e-4.",
        "",
        f"![Success in training and on {EVALUATED} of the validation split](../{PICTURE})",
        "",
        f"{TESTED} test tasks, each played once:",
        "",
        "| | success | goal | the partner's goal | overall | utterances |",
        "|---|---:|---:|---:|---:|---:|",
        *(
            f"| {name} | {row['success']:.1%} | {row['goal']:.2f} | {row['partner_goal']:.2f} | "
            f"{row['overall']:.2f} | {row['utterances']:.1f} |"
            for name, row in table.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Train, play, draw and report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--publish", action="store_true", help="write the committed page and picture")
    publish = parser.parse_args().publish
    shutil.rmtree(FOLDER, ignore_errors=True)  # an earlier run's
    FOLDER.mkdir(parents=True)
    seconds = train()
    text = report(seconds, play_all())
    metrics = ("--metric", "success", "--metric", "eval")
    code = agentgym(["plot", str(RUN), *metrics, "--smooth", "3", "--out", str(CURVE)])
    sys.stdout.write(text)
    (FOLDER / PAGE.name).write_text(text, encoding="utf-8")
    if publish and not code:
        PAGE.write_text(text, encoding="utf-8")
        shutil.copyfile(CURVE, PICTURE)
    return code


if __name__ == "__main__":
    raise SystemExit(main())
