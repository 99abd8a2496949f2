"""Estimators under a trained model's policy: ``python -m benchmarks.credit.model``.

Ten models of 0.1 million random weights learn EZPoints by GRPO, with constrained choice and without history,
so that their prompts hold the state alone (`agentgym.training.stages.state_values` refuses all others). Each
stops after the first iteration that wins `ENOUGH` of its episodes. Its probabilities of all actions in all
states of five tasks then give the true advantages, and the estimators are compared as in ``make credit``.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from agentgym.credit.board import (
    DRAWS,
    ITERATIONS,
    SUITES,
    TASKS,
    TRUE,
    CreditCell,
    CreditRow,
    compare,
    contestants,
)
from agentgym.credit.continuations import Sample
from agentgym.credit.standings import Contestant, by_contestant, significantly_better
from agentgym.credit.truth import Truth
from agentgym.io.files import make_folder, replace_file
from agentgym.training.config import TINY, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages.state_values import ExactCollector
from benchmarks.credit.grid import RUNS, SEEDS, row_of, rows_of, table_of
from benchmarks.credit.page import cell_table, name_of
from benchmarks.harness.report import parser, publish, table_text

OUT, SCRIPTED = Path("benchmarks/credit/model.json"), Path("benchmarks/credit/board.json")

CELL = CreditCell(suite="ezpoints", success=0.5)

ENOUGH, MAX_ITERATIONS = 0.5, 60
"""Share of an iteration's episodes that ends the training, and the most iterations."""

INTRODUCTION = f"""# Estimators under a trained model's policy

`python -m benchmarks.credit.model` trains ten models (`tiny:0.1m`, GRPO, EZPoints, seeds 0 to 9) and writes
this page. A model stops after the first iteration in which {ENOUGH:.0%} of its 128 episodes win. Its
probabilities of all actions in all states of {TASKS} tasks give the truth. Everything else is as in
[the first cell of EZPoints](board.md), whose policy is scripted and wins 60 % of its episodes.
[How to read it](../../docs/credit.md).

"""

NOTE = """
The same processor and library versions give the same weights; others may round differently. `model.json` has
the whole sums.
"""


def setup_of(algorithm: str, seed: int) -> TrainingSetup:
    """Open a run's setup, whose weights the seed decides."""
    config = TINY.config(algorithm, SUITES[CELL.suite].env_id, model="tiny:0.1m", seed=seed)
    return TrainingSetup.open(resolve(override(config, {"evaluation.every": 0})))


def truths_of(seed: int) -> tuple[list[Truth], dict[str, Any]]:
    """Train a model; return the truth of the seed's tasks under its policy, and a record of the model."""
    torch.set_num_threads(1)
    with (
        closing(setup_of("grpo", seed)) as learning,
        closing(setup_of("exact", seed)) as listing,
        TemporaryDirectory() as folder,
    ):
        trainer = Trainer(learning, Path(folder))
        while trainer.iterate().success < ENOUGH:
            if trainer.iteration == MAX_ITERATIONS:
                raise SystemExit(f"seed {seed} wins too few episodes after {MAX_ITERATIONS} iterations")
        weights = learning.language_model.model.state_dict()
        listing.language_model.model.load_state_dict(weights)
        collector, ids = ExactCollector.open(listing), listing.worker.envs.tasks.ids
        truths = [collector.truth(ids[number]) for number in range(seed * TASKS, (seed + 1) * TASKS)]
    digest = sha256(b"".join(weights[name].numpy().tobytes() for name in sorted(weights)))
    won = [round(float(truth.values[-1, 0]), 4) for truth in truths]
    return truths, {
        "seed": seed,
        "iterations": trainer.iteration,
        "won": won,
        "sha256": digest.hexdigest(),
    }


def measured(seed: int) -> tuple[list[CreditRow], dict[str, Any]]:
    """Return the rows of a seed and the record of its model, from its file where that is there."""
    path = RUNS / f"model-{seed}.json"
    if not path.exists():
        truths, model = truths_of(seed)
        draws = Sample.of(truths, CELL.group_size, DRAWS, max(ITERATIONS), np.random.default_rng((seed, 0)))
        found = compare(draws, CELL, seed, contestants((), ITERATIONS))
        make_folder(path.parent)
        replace_file(path, json.dumps({"model": model, "rows": [row.record() for row in found]}))
    record = json.loads(path.read_text())
    return [row_of(row) for row in record["rows"]], record["model"]


def main() -> None:
    """Measure what is missing, and write the page."""
    given = parser("benchmarks.credit.model", __doc__, OUT).parse_args()
    rows: list[CreditRow] = []
    models: list[dict[str, Any]] = []
    for seed in SEEDS:
        found, model = measured(seed)
        rows, models = [*rows, *found], [*models, model]
    board = json.loads(SCRIPTED.read_text())["cells"]
    scripted = [row for row in rows_of(board) if row.cell.suite == CELL.suite and row.seed in SEEDS]
    means = {
        name_of(name): {
            "models": values.mean(),
            "scripted": by_contestant(scripted, "correlation")[name].mean(),
        }
        for name, values in by_contestant(rows, "correlation").items()
    }
    record = {"cell": asdict(CELL), "models": models, "correlations": means, "cells": table_of(rows)}
    publish(given.out, record, page(rows, models, scripted))


def significant_pairs(rows: list[CreditRow]) -> set[tuple[Contestant, Contestant]]:
    """Return the pairs of estimators that differ significantly over seeds, the better one first."""
    found = by_contestant([row for row in rows if row.algorithm != TRUE], "correlation")
    better = significantly_better(list(found.values()))
    names = list(found)
    return {(names[i], names[j]) for i, j in np.argwhere(better).tolist()}


def page(rows: list[CreditRow], models: list[dict[str, Any]], scripted: list[CreditRow]) -> str:
    """Return the report.

    Args:
        rows: under the models' policies.
        models: their records.
        scripted: rows under the scripted policy, of the same seeds.
    """
    here, there = significant_pairs(rows), significant_pairs(scripted)
    turned = sum((second, first) in there for first, second in here)
    order = (
        f"\n{len(here)} pairs differ significantly here, and {len(there)} under the scripted policy. "
        f"{len(here & there)} of them differ in both with the same order, {turned} with the opposite one.\n"
    )
    lines = [
        (
            model["seed"],
            model["iterations"],
            " ".join(f"{won:.0%}" for won in model["won"]),
            f"`{model['sha256'][:16]}`",
        )
        for model in models
    ]
    head = ("seed", "iterations", "won, task by task", "sha256 of the weights")
    return "".join(
        (INTRODUCTION, cell_table(rows), order, "\n## The models\n\n", table_text(head, lines), NOTE)
    )


if __name__ == "__main__":
    main()
