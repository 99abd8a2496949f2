"""GraphGPO under noise, its Table 6 at tiny scale: ``python -m benchmarks.noise``.

A page carries q advertisements with probability p, anew at every showing and in every episode; states and
their hashes know nothing of them. Each cell trains GraphGPO with one way of matching states, and counts how
many pairs of steps taken in one state it recognises. The environment is EZPoints with the advertisements of
`agentgym.envs.webshop.engine.noise`, which tiny models learn in seconds; WebShop itself asks for free text.
A cell that has been trained is kept, so a sweep that is stopped continues where it was.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch

from agentgym.algos.matching import Match, match_states
from agentgym.core.rng import KeyRng
from agentgym.core.tasks import Task
from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.envs.webshop.engine.noise import Noise, stream_of
from agentgym.envs.webshop.engine.pages import Node
from agentgym.io.files import make_folder, replace_file
from agentgym.training.cloning.clone import SUMMARY_FILE, clone
from agentgym.training.cloning.supervised import CloningConfig
from agentgym.training.config import TINY, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.policy.open import default_prompting
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages import OutcomeScorer, RolloutBatch, Scores
from benchmarks.speed.report import machine

ENV_ID = "agentgym-bench/AdvertisedEZPoints-v0"
PROBABILITIES, ADVERTS = (0.0, 0.5, 1.0), (1, 2, 4)
MATCHES: tuple[Match, ...] = ("state", "text", "similar", "embedding")
MODEL = "tiny:0.1m"
SETTINGS = {
    "iterations": 25,
    "rollout.tasks": 4,
    "rollout.group_size": 8,
    "rollout.num_envs": 32,
    "checkpoint_every": 0,
    "evaluation.every": 0,
    "decay": "constant",
    "learner.learning_rate": 1e-3,
    "learner.minibatches": 2,
    "learner.entropy_coefficient": 0.0,
    "env_options.max_steps": 8,
    "algorithm_options.omega": 0.8,
}
CLONING = {"noise": 0.5, "adverts": 2}
"""Noise of the demonstrations that every run's first weights are cloned from; alike for all cells."""
DEMONSTRATIONS = 60
WARM_START = Path("runs/noise/warm-start")
LAST = 5
"""Iterations at the end of a run whose success is reported."""

OUT = Path(__file__).with_name("noise.json")
PAGE = OUT.with_suffix(".md")


class AdvertisedEZPointsEnv(EZPointsEnv):
    """EZPoints whose observations carry advertisements below the task."""

    def __init__(self, *, noise: float = 0.0, adverts: int = 2, **options: Any):
        """Say how much is advertised.

        Args:
            noise: probability that an observation carries advertisements.
            adverts: how many, on one that does.
            **options: of `EZPointsEnv`.
        """
        super().__init__(**options)
        self._noise = Noise(noise, adverts)

    def _load(self, task: Task) -> None:
        super()._load(task)
        self._stream = stream_of(int(self.np_random.integers(1 << 62)), self.rollout)

    def _observe(self) -> str:
        first, *others = str(super()._observe()).split("\n")
        nodes = [Node("instruction", first), *(Node("text", line) for line in others)]
        return "\n".join(node.text for node in self._noise.spread(nodes, KeyRng(self._stream, self._turn)))


gymnasium.register(ENV_ID, entry_point=AdvertisedEZPointsEnv, disable_env_checker=True, order_enforce=False)


@dataclass(frozen=True, slots=True)
class Cell:
    """One run."""

    probability: float
    adverts: int
    match: Match
    seed: int


@dataclass(frozen=True, slots=True)
class CellResult:
    """What a run came to."""

    cell: Cell
    success: float
    """Share of the last `LAST` iterations' episodes that were won."""
    reached: float
    """Mean over all iterations: the area under the curve."""
    recognised: float
    """Of pairs of steps of a group taken in one state, the share matched."""
    mistaken: float
    """Of pairs matched, the share taken in different states."""
    cpu_seconds: float


class _Matching:
    """The algorithm's scorer, which also counts the pairs that its matching finds."""

    def __init__(self, inner: OutcomeScorer, match: Match):
        self.inner, self.match = inner, match
        self.same = self.matched = self.both = 0

    def score(self, rollouts: RolloutBatch) -> Scores:
        state, found = match_states(rollouts.steps), match_states(rollouts.steps, self.match)
        self.same += _pairs(state)
        self.matched += _pairs(found)
        self.both += _pairs(state * (found.max() + 1) + found)
        return self.inner.score(rollouts)

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        pass


def _pairs(numbers: Any) -> int:
    sizes = np.unique(numbers, return_counts=True)[1]
    return int((sizes * (sizes - 1) // 2).sum())


def cells(seeds: Iterable[int]) -> Iterator[Cell]:
    """Yield the cells of the table; without noise the number of advertisements does not matter."""
    for seed, probability, adverts, match in product(seeds, PROBABILITIES, ADVERTS, MATCHES):
        if probability or adverts == ADVERTS[0]:
            yield Cell(probability, adverts, match, seed)


def warm_start() -> str:
    """Clone the oracle into a tiny model, unless that is done; return the model directory."""
    if not (WARM_START / SUMMARY_FILE).exists():
        make_folder(WARM_START.parent)
        settings = CloningConfig(
            env_id=ENV_ID,
            env_options=CLONING,
            tasks=DEMONSTRATIONS,
            epochs=2,
            learning_rate=3e-3,
            token_budget=4096,
            model=MODEL,
            held_out=0,
            prompting=default_prompting(MODEL, ENV_ID).replaced({"history": 0}),
        )
        clone(settings, WARM_START)
    return str(WARM_START)


def train(cell: Cell, encoder: str) -> CellResult:
    """Train a cell."""
    torch.set_num_threads(1)
    changes = {
        "env_options.noise": cell.probability,
        "env_options.adverts": cell.adverts,
        "algorithm_options.match": cell.match,
        "encoder": encoder if cell.match == "embedding" else "",
    }
    plain = TINY.config("graphgpo", ENV_ID, model=warm_start(), seed=cell.seed)
    config = override(plain, {**SETTINGS, **changes})
    began, curve = time.process_time(), []
    with tempfile.TemporaryDirectory() as folder, closing(TrainingSetup.open(resolve(config))) as setup:
        scorer = _Matching(OutcomeScorer.open(setup), cell.match)
        trainer = Trainer(setup, Path(folder), scorer=scorer)
        curve = [trainer.iterate().success for _ in range(config.iterations)]
        trainer.close()
    return CellResult(
        cell,
        float(np.mean(curve[-LAST:])),
        float(np.mean(curve)),
        scorer.both / max(scorer.same, 1),
        (scorer.matched - scorer.both) / max(scorer.matched, 1),
        time.process_time() - began,
    )


def read(path: Path) -> list[CellResult]:
    """Return the results that are there."""
    if not path.exists():
        return []
    rows = json.loads(path.read_text())["cells"]
    return [CellResult(Cell(**row.pop("cell")), **row) for row in rows]


def write(results: Sequence[CellResult], encoder: str, path: Path, page: Path) -> None:
    """Write results and their page."""
    about = {"settings": SETTINGS, "encoder": encoder, "machine": machine()}
    rows = [asdict(result) for result in results]
    replace_file(path, json.dumps({**about, "cells": rows}, indent=1) + "\n")
    replace_file(page, _page(results, encoder))


def _page(results: Sequence[CellResult], encoder: str) -> str:
    everything = len(list(cells([0])))
    lines = [
        "# GraphGPO under noise",
        "",
        "`python -m benchmarks.noise`: Table 6 of GraphGPO at tiny scale. Of observations, the share p "
        f"carries q advertisements. EZPoints, {SETTINGS['iterations']} iterations of "
        f"{SETTINGS['rollout.tasks']} x {SETTINGS['rollout.group_size']} episodes, `{MODEL}` cloned from "
        f"{DEMONSTRATIONS} noisy demonstrations; success of the last {LAST} iterations; embeddings by "
        f"`{encoder}`.",
        "",
        f"Trained so far: {len(results)} runs; a seed has {everything}.",
        "",
        "| p | q | match | seeds | success | over all iterations | states recognised | mistaken | cpu s |",
        "|---:|---:|---|---:|---:|---:|---:|---:|---:|",
    ]
    kinds = sorted({(r.cell.probability, r.cell.adverts, MATCHES.index(r.cell.match)) for r in results})
    for probability, adverts, place in kinds:
        key = (probability, adverts, MATCHES[place])
        own = [r for r in results if (r.cell.probability, r.cell.adverts, r.cell.match) == key]
        means = [
            float(np.mean([getattr(result, name) for result in own]))
            for name in ("success", "reached", "recognised", "mistaken", "cpu_seconds")
        ]
        numbers = " | ".join([*(f"{100 * mean:.1f} %" for mean in means[:4]), f"{means[4]:.0f}"])
        lines.append(
            f"| {probability:g} | {adverts if probability else '-'} | {key[2]} | {len(own)} | {numbers} |"
        )
    return "\n".join([*lines, "", *READING, ""])


READING = (
    "Exact texts, near texts and embeddings recognise a quarter of the pairs where every second page",
    "carries advertisements, and none where every page carries two; the hash recognises all. In success the",
    "hash is ahead by 3 to 7 points up to p = 0.5, q = 2 and p = 1, q = 1, and behind by 15 to 27 at p = .5,",
    "q = 4 and p = 1, q = 2, each time for a seed or two that collapse. Between seeds a cell varies by 20 to",
    "80 points, so three seeds order nothing: the paper's ordering by matching is not reproduced, the loss",
    "of states is.",
    "",
    "Recognised: of pairs of steps that were taken in one state of a group, those that the matching joins;",
    "mistaken: of the pairs that it joins, those that were not.",
)


def main(words: Sequence[str] | None = None) -> int:
    """Train the cells that are missing; write the page after each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.noise", description=__doc__)
    parser.add_argument("--p", nargs="+", type=float, default=PROBABILITIES, help="probabilities")
    parser.add_argument("--q", nargs="+", type=int, default=ADVERTS, help="numbers of advertisements")
    parser.add_argument("--match", nargs="+", choices=MATCHES, default=MATCHES)
    parser.add_argument("--seeds", nargs="+", type=int, default=(0, 1, 2))
    parser.add_argument("--encoder", default="policy", help="of match=embedding (default: policy)")
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args(words)
    results = read(given.out)
    done = {result.cell for result in results}
    for cell in cells(given.seeds):
        chosen = cell.probability in given.p and cell.match in given.match
        if cell in done or not chosen or (cell.probability and cell.adverts not in given.q):
            continue
        results.append(train(cell, given.encoder))
        write(results, given.encoder, given.out, given.out.with_suffix(".md"))
        print(asdict(results[-1]), flush=True)
    write(results, given.encoder, given.out, given.out.with_suffix(".md"))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
