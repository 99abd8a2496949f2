"""Where an iteration's time goes: ``python -m benchmarks.speed.iteration``.

GiGPO with a tiny model, 16 tasks of 8 episodes, as the tiny preset has it. Wall-clock time, so that other
work on the machine shows; shares of one run compare.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from agentgym.history.metrics import IterationMetrics
from agentgym.training.config import TINY, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from benchmarks.harness.report import machine, parser, publish, table

OUT = Path(__file__).with_suffix(".json")
ENVS = ("agentgym/ALFWorld-v0", "agentgym/Sokoban-v0", "agentgym/EZPoints-v0")
FORMS: Mapping[str, Mapping[str, object]] = {
    "one after the other": {},
    "playing on during updates": {"rollout.max_staleness": 1},
}
STAGES = ("model", "env", "credit", "update", "sync")


def iterations(env_id: str, form: Mapping[str, object], count: int) -> Iterator[IterationMetrics]:
    """Run a few iterations; the first, which warms caches, is left out."""
    config = TINY.config("gigpo", env_id, model="tiny:0.1m", seed=0)
    sizes = {"learner.minibatches": 4}
    config = override(config, {"evaluation.every": 0, "checkpoint_every": 0, **sizes, **form})
    setup = TrainingSetup.open(resolve(config))
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(setup, Path(folder))
        trainer.iterate()
        yield from [trainer.iterate() for _ in range(count)]
        trainer.close()
    setup.close()


def row(env_id: str, form: str, metrics: Sequence[IterationMetrics]) -> tuple[str, ...]:
    """Return a line of the table: medians over iterations."""
    total = statistics.median(m.seconds.total for m in metrics)
    shares = [
        f"{statistics.median(getattr(m.seconds, stage) / m.seconds.total for m in metrics):.1%}"
        for stage in STAGES
    ]
    steps = statistics.median(m.steps_per_episode * 128 for m in metrics)
    tokens = statistics.median(m.tokens_per_second for m in metrics)
    name = env_id.rpartition("/")[2]
    return name, form, f"{total:.1f}", *shares, f"{steps:,.0f}", f"{tokens:,.0f}"


def main() -> int:
    """Measure, and write a record and a table."""
    arguments = parser(__spec__.name, __doc__, OUT)
    arguments.add_argument("--iterations", type=int, default=4)
    options = arguments.parse_args()
    torch.set_num_threads(1)
    about = machine("torch", "transformers")
    lines = [
        "# Where an iteration's time goes",
        "",
        f"`python -m benchmarks.speed.iteration --iterations {options.iterations}` on {about['cpu']}; "
        f"torch {about['torch']}, transformers {about['transformers']}.",
        "",
        "GiGPO, a tiny model of 0.1 million weights, 16 tasks of 8 episodes; medians over iterations of",
        "wall-clock time. `env` is everything of the rollout but the policy. Where a thread plays during",
        "updates, the time in the policy overlaps with the others: shares add up to more than the whole.",
        "",
    ]
    record, rows = [], []
    for env_id in ENVS:
        for form, settings in FORMS.items():
            metrics = list(iterations(env_id, settings, options.iterations))
            record.append({"env": env_id, "form": form, "iterations": [asdict(m) for m in metrics]})
            rows.append(row(env_id, form, metrics))
    lines += table(("environment", "rollout", "seconds", *STAGES, "steps", "tokens sampled/s"), rows, 8)
    publish(options.out, {"machine": about, "rows": record}, "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
