"""What moves a number: ``python -m benchmarks.choices`` plays the suite `SUITE` and writes ``choices.json``.

It needs the official data (``AGENTGYM_DATA``) and `SMOLLM2`. Rules, random moves and oracles give the same
rows, bit for bit, anywhere: ``agentgym bench`` lets them play everything a second time. Of models, which are
clones that this trains and SmolLM2, it plays every recorded action again. What the seeds and checkpoints of a
training run change is taken from the curves of `SWEEPS`.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from agentgym.evaluation.board.statistics import t_interval
from agentgym.evaluation.log.results import EvalSample
from agentgym.evaluation.log.runfiles import read_episodes, read_run
from benchmarks.choices.learned import (
    DIALECTS,
    PLAYED_AT,
    SMOLLM2,
    SUITE,
    TEMPERATURES,
    UNTAGGED,
    play_models,
    run_agentgym,
)

FOLDER = Path(__file__).parent
RESULTS = Path("runs/choices")
TABLE = FOLDER / "choices.json"
SWEEPS = FOLDER.parent / "algorithms"
WINDOW = 10
"""Iterations that a checkpoint is judged by: 1,280 episodes."""


@dataclass(frozen=True)
class Difference:
    """What a number is with one value of a choice, and what the other adds to it."""

    name: str
    agent: str
    measure: str
    first: float
    second: float
    change: float
    low: float
    """Of the change: 95 %, Student's t over tasks, or over seeds."""
    high: float
    tasks: int
    paired: bool
    """Whether both values were played on the same tasks."""


@dataclass(frozen=True)
class Choice:
    """Two columns of the suite that differ in one choice."""

    name: str
    first: str
    second: str
    agent: str = "rules"
    measure: str = "success"


CHOICES = (
    Choice("alfworld-dialect", "ALFWorld, published seen", "ALFWorld, published seen, game dialect"),
    Choice("alfworld-published", "ALFWorld, published seen", "ALFWorld, built-in seen", measure="won_15"),
    Choice("alfworld-unseen", "ALFWorld, built-in seen", "ALFWorld, built-in unseen", measure="won_15"),
    Choice("alfworld-unseen-steps", "ALFWorld, built-in seen", "ALFWorld, built-in unseen", measure="steps"),
    Choice("webshop-catalogue", "WebShop, 2,000 products", "WebShop, 20,000 products"),
    Choice("webshop-catalogue-score", "WebShop, 2,000 products", "WebShop, 20,000 products", measure="score"),
    Choice("webshop-published", "WebShop, built-in", "WebShop, published"),
    Choice("hotpotqa-k3", "HotpotQA, published", "HotpotQA, k = 3"),
    Choice("hotpotqa-k10", "HotpotQA, published", "HotpotQA, k = 10"),
    Choice("hotpotqa-own", "HotpotQA, published", "HotpotQA, own passages"),
    Choice("hotpotqa-own-support", "HotpotQA, published", "HotpotQA, own passages", measure="support"),
    Choice("hotpotqa-first-search", "HotpotQA, published", "HotpotQA, first search"),
    Choice(
        "hotpotqa-first-search-random",
        "HotpotQA, published",
        "HotpotQA, first search",
        agent="random",
        measure="support",
    ),
    Choice("hotpotqa-form", "HotpotQA, published", "HotpotQA, Search-R1 form"),
    Choice("hotpotqa-untagged", UNTAGGED[0], UNTAGGED[1]),
    Choice("searchqa-aliases", "SearchQA, aliases", "SearchQA, first answer alone"),
    Choice("sokoban-steps", "Sokoban, 120 steps", "Sokoban, 15 steps"),
    Choice("sokoban-steps-random", "Sokoban, 120 steps", "Sokoban, 15 steps", agent="random"),
    Choice("sokoban-boxes", "Sokoban, 15 steps", "Sokoban, two boxes"),
    Choice("sokoban-easy-random", "Sokoban, 15 steps", "Sokoban, four moves at most", agent="random"),
    Choice(
        "sokoban-effective-random",
        "Sokoban, 15 steps",
        "Sokoban, actions that change something",
        agent="random",
    ),
    Choice("sotopia-partner", "SOTOPIA, fair partner", "SOTOPIA, stubborn partner", measure="score"),
    Choice("sotopia-hard", "SOTOPIA, fair partner", "SOTOPIA, hard scenarios", measure="score"),
    Choice("sotopia-turns", "SOTOPIA, fair partner", "SOTOPIA, 8 turns", measure="score"),
    Choice("sotopia-stale", "SOTOPIA, fair partner", "SOTOPIA, idle side counts", measure="score"),
)
METRICS = (
    ("webshop-success", "WebShop, published", "score", "success"),
    ("hotpotqa-f1", "HotpotQA, published", "success", "f1"),
    ("sotopia-overall", "SOTOPIA, fair partner", "goal", "overall"),
    ("alfworld-15", "ALFWorld, built-in unseen", "success", "won_15"),
)
"""Two numbers of the same episodes of `rules`."""


def samples(folder: Path) -> dict[str, list[EvalSample]]:
    """Return the episodes of each agent."""
    runs = sorted(path.parent for path in folder.glob("choices/*/run.json"))
    return {read_run(run).agent.name: read_episodes(run) for run in runs}


def values(episodes: Sequence[EvalSample], column: str, measure: str) -> dict[str, float]:
    """Return each task's value of a column; shares as they are, from 0 to 1."""
    own = [episode for episode in episodes if episode.env == column]
    return {
        episode.task_id: {
            "success": float(episode.won),
            "score": episode.score,
            "steps": float(episode.length),
            "invalid": episode.invalid_count / max(episode.length, 1),
        }.get(measure, episode.measures.get(measure, 0.0))
        for episode in own
    }


def by_pair(name: str, agent: str, measure: str, first: Any, second: Any) -> Difference:
    """Compare float64[n] values of the same tasks or seeds."""
    mean, interval = float((second - first).mean()), t_interval(second - first)
    means = float(first.mean()), float(second.mean())
    return Difference(
        name, agent, measure, *means, mean, interval.low, interval.high, len(first), paired=True
    )


def difference(
    name: str, agent: str, measure: str, one: dict[str, float], other: dict[str, float]
) -> Difference:
    """Compare two columns by task, or as two samples where they have different tasks."""
    paired = one.keys() == other.keys()
    first, second = (
        np.array(list(one.values())),
        np.array([other[task] for task in one] if paired else list(other.values())),
    )
    change = float(second.mean() - first.mean())
    if paired:
        interval = t_interval(second - first)
        low, high = interval.low, interval.high
    else:
        half = 1.96 * float(np.sqrt(first.var(ddof=1) / len(first) + second.var(ddof=1) / len(second)))
        low, high = change - half, change + half
    return Difference(
        name, agent, measure, float(first.mean()), float(second.mean()), change, low, high, len(first), paired
    )


def from_runs(folder: Path) -> Iterator[Difference]:
    """Yield what the choices of a protocol change."""
    played = samples(folder)
    for choice in CHOICES:
        one, other = (
            values(played[choice.agent], column, choice.measure) for column in (choice.first, choice.second)
        )
        yield difference(choice.name, choice.agent, choice.measure, one, other)
    for name, column, first, second in METRICS:
        yield difference(
            name,
            "rules",
            f"{first}, {second}",
            values(played["rules"], column, first),
            values(played["rules"], column, second),
        )


def from_sweep(path: Path) -> Iterator[Difference]:
    """Yield what it changes to report the best of three seeds, or each run at its best, of a study's arms."""
    study: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    arms: dict[str, list[dict[str, Any]]] = {}
    for run in study["runs"]:
        arms.setdefault(run["arm"], []).append(run)
    for arm, runs in arms.items():
        held_out = np.array([fmean(fmean(task) for task in run["won"]) for run in runs])
        triples = np.array([max(triple) for triple in itertools.combinations(held_out, 3)])
        low, high = np.quantile(triples - held_out.mean(), (0.025, 0.975))
        name = f"{study['study']}-{arm}"
        yield Difference(
            f"{name}-best-of-3",
            arm,
            "success",
            float(held_out.mean()),
            float(triples.mean()),
            float(triples.mean() - held_out.mean()),
            float(low),
            float(high),
            len(runs),
            paired=False,
        )
        smooth = [np.convolve(run["success"], np.ones(WINDOW) / WINDOW, "valid") for run in runs]
        last, best = (np.array([take(curve) for curve in smooth]) for take in (lambda c: c[-1], np.max))
        yield by_pair(f"{name}-best-checkpoint", arm, "success in training", last, best)


def by_seed(folder: Path, column: str, measure: str = "success") -> Any:
    """Return float64[seeds], the mean of a column for each clone that was played below a folder."""
    runs = sorted(path.parent for path in folder.glob("*/*-seed*/run.json"))
    return np.array([fmean(values(read_episodes(run), column, measure).values()) for run in runs])


def from_models(folder: Path) -> Iterator[Difference]:
    """Yield what temperatures change, against 1, and a dialect, over the seeds of clones; and `UNTAGGED`."""
    won = {temperature: by_seed(folder / f"at-{temperature}", PLAYED_AT) for temperature in TEMPERATURES}
    for temperature in TEMPERATURES[:-1]:
        first, second = won[TEMPERATURES[-1]], won[temperature]
        yield by_pair(f"sokoban-temperature-{temperature}", "clone of the oracle", "success", first, second)
    for name, measure in (("alfworld-dialect-clone", "success"), ("alfworld-dialect-clone-steps", "steps")):
        first, second = (by_seed(folder / "dialects", column, measure) for column in DIALECTS)
        yield by_pair(name, "clone of the explorer", measure, first, second)
    (played,) = (read_episodes(path.parent) for path in (folder / "untagged").glob("*/*/run.json"))
    for measure, (place, meaning) in itertools.product(
        ("success", "f1", "invalid", "steps"), ((1, "answer"), (2, "rejected"))
    ):
        one, other = (values(played, column, measure) for column in (UNTAGGED[0], UNTAGGED[place]))
        yield difference(f"smollm2-untagged-{meaning}-{measure}", "SmolLM2", measure, one, other)


def table(folder: Path) -> str:
    """Return the report of the runs in a folder, and of the committed sweeps."""
    found = [*from_runs(folder), *from_models(folder), *from_sweep(SWEEPS / "sweep-sokoban.json")]
    return json.dumps({each.name: asdict(each) for each in found}, indent=1) + "\n"


def main() -> None:
    """Play, verify, and write the report."""
    parser = argparse.ArgumentParser(description="Measure what choices of a protocol change.")
    parser.add_argument("--out", type=Path, default=RESULTS, help=f"folder of the runs (default: {RESULTS})")
    folder = parser.parse_args().out
    if not (SMOLLM2 / "config.json").is_file():
        raise SystemExit(f"{SMOLLM2} holds no model: make {SMOLLM2}/config.json")
    run_agentgym(["bench", str(SUITE), "--out", str(folder)])
    play_models(folder)
    TABLE.write_text(table(folder), encoding="utf-8")


if __name__ == "__main__":
    main()
