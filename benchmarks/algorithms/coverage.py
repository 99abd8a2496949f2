"""Coverage of 95 % intervals over ten seeds: ``python -m benchmarks.algorithms.coverage``.

Three algorithms are trained with forty seeds each. Samples of ten, drawn with replacement, have an interval
each; the share of intervals that hold the mean of all forty is what "95 %" should mean.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.evaluation.board.statistics import percentile_interval, t_interval
from agentgym.io.files import replace_file
from benchmarks.algorithms.plan import ENVIRONMENTS, MAIN_SEEDS
from benchmarks.algorithms.runs import finished, keys_of
from benchmarks.algorithms.studies import STUDIES
from benchmarks.speed.report import machine

FOLDER = Path(__file__).parent
ALGORITHMS = ("grpo", "gigpo", "graphgpo")
SEEDS = tuple(range(MAIN_SEEDS[0], MAIN_SEEDS[0] + 40))
SAMPLES = 4_000
RESAMPLES = 500


def main() -> int:
    """Write the page of the environments in which all forty runs of each algorithm are there."""
    means: dict[str, dict[str, list[float]]] = {}
    for key, run in finished(keys_of(STUDIES["main"], only=ALGORITHMS, seeds=SEEDS)):
        means.setdefault(key.environment, {}).setdefault(key.arm.label, []).append(run.held_out_success)
    whole = [len(ALGORITHMS) * len(SEEDS) == sum(map(len, rows.values())) for rows in means.values()]
    means = {name: rows for (name, rows), complete in zip(means.items(), whole, strict=True) if complete}
    processor = machine()["cpu"]
    record = {"processor": processor, "seeds": SEEDS, "means": means}
    replace_file(FOLDER / "coverage.json", json.dumps(record) + "\n")
    replace_file(FOLDER / "coverage.md", "\n".join(_page(processor, means)) + "\n")
    return 0


def _page(processor: str, means: Mapping[str, Mapping[str, list[float]]]) -> Iterator[str]:
    rng = np.random.default_rng(0)
    yield "# Do intervals over ten seeds hold?"
    yield ""
    yield (
        f"`python -m benchmarks.algorithms.coverage`, of {len(SEEDS)} seeds ({SEEDS[0]} to {SEEDS[-1]}) an "
        f"algorithm, on {processor}: success on held-out tasks in %, the deviation between seeds, and the "
        f"share of {SAMPLES:,} samples of ten seeds (with replacement) whose 95 % interval holds the mean of "
        "all. The bootstrap resamples the ten; Student's t is what the tables print."
    )
    yield ""
    yield (
        "| environment | algorithm | seeds | mean | least to greatest | deviation | "
        "Student's t holds | bootstrap holds |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|"
    for name, algorithms in means.items():
        for label, values in algorithms.items():
            array = np.array(values)
            t, bootstrap = coverage(array, rng)
            yield (
                f"| {ENVIRONMENTS[name].title} | {label} | {len(array)} | {100 * array.mean():.1f} | "
                f"{100 * array.min():.0f} to {100 * array.max():.0f} | {100 * array.std(ddof=1):.1f} | "
                f"{t:.1%} | {bootstrap:.1%} |"
            )
    yield ""
    yield "What forty seeds say of differences, in points:"
    yield ""
    yield "| environment | difference | 95 % interval |"
    yield "|---|---|---:|"
    for name, algorithms in means.items():
        for worse, better in combinations(algorithms, 2):
            found = t_interval(100 * (np.array(algorithms[better]) - np.array(algorithms[worse])))
            interval = f"{found.value:+.1f} [{found.low:+.1f}, {found.high:+.1f}]"
            yield f"| {ENVIRONMENTS[name].title} | {better} - {worse} | {interval} |"


def coverage(means: Floats, rng: np.random.Generator, size: int = len(MAIN_SEEDS)) -> tuple[float, float]:
    """Return how often Student's t and a bootstrap of ``size`` seeds hold the mean of all.

    Args:
        means: (seeds,), success of each seed.
        rng: draws samples and resamples.
        size: seeds of a sample.
    """
    held = np.zeros(2)
    for sample in rng.choice(means, size=(SAMPLES, size)):
        resampled = sample[rng.integers(size, size=(RESAMPLES, size))].mean(axis=1)
        for place, estimate in enumerate(
            (t_interval(sample), percentile_interval(float(sample.mean()), resampled))
        ):
            held[place] += estimate.low - 1e-12 <= means.mean() <= estimate.high + 1e-12
    return float(held[0] / SAMPLES), float(held[1] / SAMPLES)


if __name__ == "__main__":
    raise SystemExit(main())
