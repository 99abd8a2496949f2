"""SmolLM2-135M-Instruct trained on EZPoints: ``python -m benchmarks.smollm2_training FOLDER``.

The pretrained model is shown a few games of the oracle, since it wins none in a hundred by itself, then
trained by `ALGORITHMS` with low-rank adapters on one processor core. Before and after it plays deals that it
was not trained on, and deals of pairs of values that it was not trained on. Runs go to `FOLDER`, which git
ignores; the same command resumes what was interrupted, and ``--publish`` writes the page, its curves and its
picture. ``make train-smollm2`` makes the model first.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from time import perf_counter, process_time

import torch

from agentgym.algos.table import ALGORITHMS as KNOWN
from agentgym.cli import main as agentgym
from agentgym.errors import UsageError
from agentgym.evaluation.board.statistics import wilson
from agentgym.history.run import CONFIG_FILE, METRICS_FILE, read_metrics
from agentgym.io.files import make_folder, replace_file
from agentgym.registration import open_vector
from agentgym.rollout.worker import EpisodeSpec, RolloutWorker
from agentgym.training.policy.agent import make_model_agent

ENV = "agentgym/EZPoints-v0"
OPTIONS = {"max_steps": 6}
"""Four tokens win; six leave room for two that do not help."""

PROMPTING = {
    "wording": "terse",
    "answer": "bare",
    "history": 0,
    "choice": "constrained",
    "budget": 512,
    "system": "EZPoints",
}
"""Few words, and a choice among the tokens that the game accepts; observations hold the formula so far."""

FOLDER = Path("runs/smollm2-training")
CLONE = FOLDER / "clone"
PLAYED = FOLDER / "played.json"
TIMES = FOLDER / "seconds.json"
CURVE = FOLDER / "learning.png"
PAGE = Path("benchmarks/smollm2_training.md")
CURVES = Path("benchmarks/curves")
PICTURE = Path("docs/images/smollm2-ezpoints.png")

GAMES, EPOCHS = 16, 2
"""Training deals that the oracle plays for the warm start, and how often they are gone through."""
CLONING = ("learning_rate=3e-5", "batch=16", "held_out=0")

ALGORITHMS = ("grpo", "gigpo")
ITERATIONS = 16
TASKS, GROUP = 4, 8
"""Deals of an iteration, and episodes of each."""
LEARNING = (
    f"rollout.tasks={TASKS}",
    f"rollout.group_size={GROUP}",
    f"rollout.num_envs={TASKS * GROUP}",
    "learner.lora_rank=16",
    "learner.lora_alpha=32",
    "learner.learning_rate=3e-4",
    "learner.minibatches=2",
    "learner.token_budget=2048",
    "objective.kl_coefficient=0.0",
    "evaluation.every=0",
    "checkpoint_every=2",
    "keep=1",
)

PLAYS = {"held-out deals": ("valid", "test"), "unseen pairs": ("unseen_pairs",)}
"""What is played before and after: splits by title, every deal once."""

_CHUNK = 32
"""Episodes that are played side by side."""


def run_folder(algorithm: str) -> Path:
    """Return the folder of a training run."""
    return FOLDER / f"ezpoints-{algorithm}"


def untrained(model: Path) -> dict[str, Path]:
    """Return the model directories that reinforcement learning did not touch, by title."""
    return {"SmolLM2 as it is": model, "warm start": CLONE}


def trained() -> dict[str, Path]:
    """Return those that it did."""
    return {
        f"warm start, then {KNOWN[name].title}": run_folder(name) / "checkpoints" / "last" / "model"
        for name in ALGORITHMS
    }


# ---- training -------------------------------------------------------------------------------------


def clone(model: Path) -> int:
    """Show the model what the oracle does; return the exit code."""
    if (CLONE / "cloning.json").exists():
        return 0
    shutil.rmtree(CLONE, ignore_errors=True)
    words = ["train", "bc", "--env", ENV, "--model", str(model), "--out", str(CLONE)]
    words += ["--tasks", str(GAMES), "--epochs", str(EPOCHS)]
    prompting = [f"prompting.{name}={value}" for name, value in PROMPTING.items()]
    return _timed("clone", _with_settings(words, [*CLONING, *prompting]))


def train(algorithm: str, iterations: int) -> int:
    """Train the clone, or resume; return the exit code."""
    folder = run_folder(algorithm)
    words = ["train", algorithm]
    if (folder / "checkpoints" / "last").exists():
        if len(read_metrics(folder)) >= iterations:
            return 0
        return _timed(algorithm, [*words, "--resume", str(folder)])
    shutil.rmtree(folder, ignore_errors=True)
    words += ["--env", ENV, "--model", str(CLONE), "--preset", "plain", "--out", str(folder)]
    words += ["--iterations", str(ITERATIONS)]
    return _timed(algorithm, _with_settings(words, LEARNING))


def _with_settings(words: Sequence[str], settings: Sequence[str]) -> list[str]:
    options = [f"env_options.{name}={value}" for name, value in OPTIONS.items()]
    return [*words, *(word for pair in (*options, *settings) for word in ("--set", pair))]


def _timed(stage: str, words: list[str]) -> int:
    """Run a command; add its seconds to the stage's, and return the exit code."""
    began, worked = perf_counter(), process_time()
    try:
        return agentgym(words)
    finally:
        path = TIMES.with_suffix(f".{stage}.json")
        known = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"wall": 0, "cpu": 0}
        known["wall"] += perf_counter() - began
        known["cpu"] += process_time() - worked
        replace_file(path, json.dumps(known) + "\n")


# ---- playing --------------------------------------------------------------------------------------


def play(asked: Mapping[str, Path]) -> None:
    """Let policies play every held-out deal; what has been played stays."""
    for title, path in asked.items():
        for name, splits in PLAYS.items():
            key = f"{title}: {name}"
            if key not in played():
                won = [each for split in splits for each in _play(path, split)]
                replace_file(PLAYED, json.dumps({**played(), key: won}) + "\n")


def played() -> dict[str, list[bool]]:
    """Return which deals were won, by policy and kind of deal."""
    return json.loads(PLAYED.read_text(encoding="utf-8")) if PLAYED.exists() else {}


def _play(model: Path, split: str) -> list[bool]:
    """Return which deals of a split a policy wins, each played once, sampled at temperature 1."""
    with closing(open_vector(ENV, _CHUNK, split=split, options=OPTIONS)) as envs:
        policy = make_model_agent(envs, str(model), **PROMPTING)  # type: ignore[arg-type]
        worker = RolloutWorker(envs, policy, env_id=ENV)
        specs = [EpisodeSpec(task.id, seed, 0) for seed, task in enumerate(envs.tasks)]
        won = {trajectory.task_id: trajectory.won for trajectory in worker.run(specs)}
        return [won[spec.task_id] for spec in specs]


# ---- what is shown --------------------------------------------------------------------------------


def draw() -> int:
    """Draw the learning curves; return the exit code."""
    runs = [str(run_folder(algorithm)) for algorithm in ALGORITHMS]
    return agentgym(["plot", *runs, "--metric", "success", "--smooth", "3", "--out", str(CURVE)])


def report(model: Path) -> str:
    """Return the page."""
    table = played()
    done = {algorithm: len(read_metrics(run_folder(algorithm))) for algorithm in ALGORITHMS}
    lines = [
        "# A pretrained model trained on EZPoints",
        "",
        f"SmolLM2-135M-Instruct (`benchmarks/smollm2.py`) on `{ENV}`, on a processor core shared with other "
        "work. It chooses among the tokens that the game accepts, one a step, six at most; the reward is "
        "10 for a formula of both cards that comes to 12. As it is, it wins almost nothing, so that groups "
        f"would have nothing to compare: a warm start shows it {GAMES} games of the oracle ({EPOCHS} epochs, "
        "all weights). Then each algorithm trains an adapter of rank 16 on all linear layers, without a "
        f"reference, {TASKS} deals x {GROUP} episodes an iteration.",
        "",
        f"![Success on training deals](../{PICTURE})",
        "",
        "Deals of `valid` and `test` have other cards of the five pairs that are trained on; `unseen_pairs` "
        "has the two other pairs, 3 * 4 and 3 + 9. Each deal is played once, sampled at temperature 1. "
        "Success in percent, with Wilson's intervals of 95 %.",
        "",
        "| | " + " | ".join(PLAYS) + " |",
        "|---|" + "---:|" * len(PLAYS),
        *(_row(title, table) for title in (*untrained(model), *trained())),
        "",
        "| stage | iterations | success in the first and last quarter | processor-seconds | seconds |",
        "|---|---:|---:|---:|---:|",
        *(_stage(algorithm, done[algorithm]) for algorithm in ALGORITHMS),
        "",
        f"{ITERATIONS} iterations are set; the table says how many were done when this was written. One "
        "random seed, and the first settings of cloning and training that were tried. Before, more than a "
        "dozen prompts were compared on four deals without a warm start, examples among them: none would "
        "have won more than 5 % of one of these deals, or 1 % of the others. The curves are "
        + " and ".join(f"`{CURVES / f'smollm2-{name}' / METRICS_FILE}`" for name in ALGORITHMS)
        + ".",
        "",
        "`make train-smollm2` does all this again under `runs/smollm2-training`, and resumes it; `--publish` "
        "writes this page.",
    ]
    return "\n".join(lines) + "\n"


def _row(title: str, table: Mapping[str, Sequence[bool]]) -> str:
    cells = []
    for name in PLAYS:
        won = table.get(f"{title}: {name}", ())
        if not won:
            cells.append("not played yet")
            continue
        share = wilson(sum(won) / len(won), len(won))
        cells.append(f"{100 * share.value:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}] of {len(won)}")
    return f"| {title} | {' | '.join(cells)} |"


def _stage(algorithm: str, done: int) -> str:
    success = [line.success for line in read_metrics(run_folder(algorithm))]
    quarter = max(done // 4, 1)
    ends = (sum(part) / len(part) for part in (success[:quarter], success[-quarter:]))
    took = json.loads(TIMES.with_suffix(f".{algorithm}.json").read_text(encoding="utf-8"))
    shares = " to ".join(f"{100 * end:.1f} %" for end in ends)
    return f"| {KNOWN[algorithm].title} | {done} | {shares} | {took['cpu']:.0f} | {took['wall']:.0f} |"


def publish(model: Path) -> None:
    """Write the committed page, curves and picture."""
    PAGE.write_text(report(model), encoding="utf-8")
    shutil.copyfile(CURVE, PICTURE)
    for algorithm in ALGORITHMS:
        for name in (METRICS_FILE, CONFIG_FILE):
            make_folder(CURVES / f"smollm2-{algorithm}")
            shutil.copyfile(run_folder(algorithm) / name, CURVES / f"smollm2-{algorithm}" / name)


def main(words: Sequence[str] | None = None) -> int:
    """Go through the stages; end at the first that fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", type=Path, help="directory that benchmarks.smollm2 made")
    parser.add_argument("--only", choices=("clone", *ALGORITHMS, "before"), help="do this stage alone")
    parser.add_argument("--publish", action="store_true", help="write the committed page, curves and picture")
    parser.add_argument("--iterations", type=int, default=ITERATIONS, help="be content with so many")
    parser.add_argument("--as-it-is", action="store_true", help="train and play nothing more")
    given = parser.parse_args(words)
    if not (given.model / "config.json").is_file():
        raise UsageError(
            f"{given.model} is no model directory: python -m benchmarks.smollm2 FILE.gguf FOLDER"
        )
    FOLDER.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for stage in () if given.as_it_is else ("clone", *ALGORITHMS):
        if given.only in (None, stage):
            code = clone(given.model) if stage == "clone" else train(stage, given.iterations)
            if code:
                return code
    if given.only in (None, "before") and not given.as_it_is:
        play(untrained(given.model))
    if given.only is not None:
        return 0
    if not given.as_it_is:
        play(trained())
    if code := draw():
        return code
    sys.stdout.write(report(given.model))
    if given.publish:
        publish(given.model)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
