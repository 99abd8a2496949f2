"""Metrics of made-up training runs."""

import json
from dataclasses import replace
from pathlib import Path

from agentgym.history.metrics import Evaluated, IterationMetrics, StageSeconds
from agentgym.history.run import CONFIG_FILE, METRICS_FILE


def make_metrics(iteration, **changes):
    """Return the record of an iteration that wins a hundredth of its episodes more than the last."""
    metrics = IterationMetrics(
        iteration=iteration,
        version=iteration,
        episodes=8 * iteration,
        env_steps=50 * iteration,
        success=iteration / 100,
        score=iteration / 50,
        mean_return=-1.5,
        steps_per_episode=6.25,
        valid_fraction=0.75,
        usable_fraction=0.5,
        step_groups={"1": 40, "2": 10},
        tokens_in=9000,
        tokens_out=1000,
        tokens_per_second=2000.0,
        learning_rate=1e-3,
        loss=0.25,
        kl=2e-4,
        ref_kl=None,
        clip_fraction=0.125,
        entropy=1.75,
        grad_norm=0.5,
        logp_diff=3e-7,
        value_loss=None,
        explained_variance=None,
        staleness=0.0,
        dropped=0,
        pending=0,
        seconds=StageSeconds(
            model=0.5, env=0.125, credit=0.25, update=0.75, sync=0.0625, evaluate=0.0, total=2.0
        ),
    )
    return replace(metrics, **changes)


def evaluated(success):
    """Return an evaluation of ten episodes."""
    return Evaluated(episodes=10, success=success, score=2 * success)


def make_run(iterations, *, every=0, **changes):
    """Return the records of a run, evaluated before its first and after every so many iterations."""
    return [
        make_metrics(
            i,
            evaluation_before=evaluated(0.0) if every and i == 1 else None,
            evaluation=evaluated(i / 200) if every and i % every == 0 else None,
            **changes,
        )
        for i in range(1, iterations + 1)
    ]


def write_run(folder: Path, records, *, algorithm="grpo", env_id="agentgym/Sokoban-v0", model="tiny", seed=0):
    """Write the folder of a run; return it."""
    folder.mkdir(parents=True)
    config = {"algorithm": algorithm, "env_id": env_id, "model": model, "seed": seed, "iterations": 100}
    (folder / CONFIG_FILE).write_text(json.dumps(config))
    lines = "".join(json.dumps(record.to_json()) + "\n" for record in records)
    (folder / METRICS_FILE).write_text(lines)
    return folder
