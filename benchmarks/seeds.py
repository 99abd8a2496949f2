"""Coverage of intervals over training runs, and false positives of the test that ranks by them, simulated.

``python -m benchmarks.seeds`` writes ``benchmarks/seeds.json`` and ``benchmarks/seeds.md``. Runs differ by a
normal effect on the logit scale, tasks by another, and a run meets a task with a third; the truth is the mean
over all runs and tasks there might be.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from agentgym.core.arrays import Floats
from agentgym.evaluation.board.statistics import CONFIDENCE, Estimate, over_runs, permuted_p
from benchmarks.harness.report import parser, publish, table_text

OUT = Path(__file__).with_suffix(".json")

Scale: TypeAlias = Literal["logit", "points"]
"""Scale on which runs deviate alike at every success: by the logits that make so many points at 50 %, or by
points themselves."""

RUNS = (2, 3, 5, 10)
DEVIATIONS = (0.0, 0.07, 0.15)
SIZES = ((30, 1), (30, 4), (100, 1), (400, 1))
"""Numbers of tasks and of attempts at each."""
SUCCESS = (0.02, 0.1, 0.5, 0.9, 0.98)
REPEATS = 2_000
PAIR_REPEATS = 1_000
SEED = 43

DIFFICULTY, MEETING = 1.5, 0.5
"""Deviations of tasks, and of runs at a task, in logits."""

LEAST, MOST, MOST_FALSE = 93.0, 97.0, 6.0
"""Bounds of coverage, the upper one from five runs and for success of 10 to 90 %, and of false positives."""


@dataclass(frozen=True, slots=True)
class World:
    """What the runs of an algorithm are drawn from."""

    runs: int
    deviation: float
    """Standard deviation of a run's success."""
    tasks: int
    success: float
    attempts: int
    scale: Scale = "logit"

    def draw(self, rng: np.random.Generator, rows: int = 1) -> Floats:
        """Draw float64[rows, S, T] task means of algorithms that are alike and meet the same tasks."""
        centre, run = effects(self.success, self.deviation, self.scale)
        shape = rows, self.runs, self.tasks
        logits = centre + run * rng.standard_normal((rows, self.runs, 1))
        logits = logits + DIFFICULTY * rng.standard_normal((1, 1, self.tasks))
        logits = logits + MEETING * rng.standard_normal(shape)
        return np.asarray(rng.binomial(self.attempts, _success(logits)) / self.attempts)

    @property
    def capped(self) -> bool:
        """Whether coverage has an upper bound here."""
        return self.runs >= 5 and 0.1 <= self.success <= 0.9


def _success(logits: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-logits)))


def _solve(rising: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if rising(middle) < 0.0 else (low, middle)
    return (low + high) / 2.0


@lru_cache(maxsize=64)
def effects(success: float, deviation: float, scale: Scale = "points") -> tuple[float, float]:
    """Return centre and deviation in logits of runs with a mean success and a deviation of it.

    Raises:
        ValueError: no distribution on the logit scale with a deviation of up to 12 has these two.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(101)
    weights = weights / weights.sum()
    within = math.hypot(DIFFICULTY, MEETING)

    def runs(centre: float, run: float) -> Floats:
        return np.asarray(_success((centre + run * nodes)[:, None] + within * nodes) @ weights)

    def centre_of(run: float, mean: float) -> float:
        return _solve(lambda centre: float(runs(centre, run) @ weights) - mean, -60.0, 60.0)

    def deviation_of(run: float, mean: float) -> float:
        values = runs(centre_of(run, mean), run)
        return math.sqrt(max(0.0, float(values**2 @ weights) - mean**2))

    at = success if scale == "points" else 0.5
    if deviation == 0.0:
        return centre_of(0.0, success), 0.0
    if deviation_of(12.0, at) < deviation:
        raise ValueError(f"no runs of mean {success} deviate by {deviation}")
    run = _solve(lambda run: deviation_of(run, at) - deviation, 0.0, 12.0)
    return centre_of(run, success), run


def _rng(world: World, repeats: int) -> np.random.Generator:
    numbers = (
        world.runs,
        world.tasks,
        world.attempts,
        round(100 * world.deviation),
        round(100 * world.success),
    )
    return np.random.default_rng(np.random.SeedSequence([SEED, repeats, *numbers]))


def project_interval(values: Floats) -> Estimate:
    """Return the interval of boards: float64[S, T] task means of one row."""
    return over_runs([values], (0.0, 1.0))


def project_p(first: Floats, second: Floats, rng: np.random.Generator) -> float:
    """Return the p value of boards for float64[S, T] task means of two rows."""
    return permuted_p(first.mean(axis=1), second.mean(axis=1), rng)


def coverage(
    world: World, repeats: int = REPEATS, interval: Callable[[Floats], Estimate] = project_interval
) -> float:
    """Return the share of intervals, in percent, that hold the mean over all runs and tasks."""
    rng, held = _rng(world, repeats), 0
    for _ in range(repeats):
        estimate = interval(world.draw(rng)[0])
        held += estimate.low <= world.success <= estimate.high
    return 100.0 * held / repeats


def false_positives(
    world: World,
    repeats: int = PAIR_REPEATS,
    p_value: Callable[[Floats, Floats, np.random.Generator], float] = project_p,
) -> float:
    """Return the share of pairs of equal algorithms, in percent, that come out different."""
    rng, found = _rng(world, repeats), 0
    for _ in range(repeats):
        first, second = world.draw(rng, rows=2)
        found += p_value(first, second, rng) <= 1.0 - CONFIDENCE
    return 100.0 * found / repeats


def worlds(runs: int, scale: Scale = "logit") -> Iterator[World]:
    """Yield the worlds of so many runs; by points, those that deviate and can."""
    for deviation in DEVIATIONS:
        for success in SUCCESS:
            if scale == "points" and (deviation == 0.0 or not _possible(success, deviation)):
                continue
            for tasks, attempts in SIZES:
                yield World(runs, deviation, tasks, success, attempts, scale)


def _possible(success: float, deviation: float) -> bool:
    try:
        effects(success, deviation, "points")
    except ValueError:
        return False
    return True


def pair_worlds(runs: int) -> Iterator[World]:
    """Yield the worlds in which equal algorithms are compared: the lower half of success, one attempt."""
    for world in worlds(runs):
        if world.success <= 0.5 and (world.tasks, world.attempts) in (SIZES[0], SIZES[-1]):
            yield world


def misses(cells: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cells whose coverage lies outside its bounds."""
    return [
        cell
        for cell in cells
        if cell["coverage"] < LEAST or (cell["coverage"] > MOST and World(**cell["world"]).capped)
    ]


def _grid(cells: Sequence[dict[str, Any]], number: str) -> str:
    """Return a table with a line for each number of runs and deviation and a column for each success."""
    shares = sorted({cell["world"]["success"] for cell in cells})
    keys = dict.fromkeys((cell["world"]["runs"], cell["world"]["deviation"]) for cell in cells)
    lines = []
    for runs, deviation in keys:
        line = [str(runs), f"{100 * deviation:.0f}"]
        for share in shares:
            world = {"runs": runs, "deviation": deviation, "success": share}
            found = [cell[number] for cell in cells if world.items() <= cell["world"].items()]
            line.append(f"{min(found):.1f} to {max(found):.1f}" if found else "impossible")
        lines.append(line)
    head = ["runs", "deviation", *(f"{100 * share:.0f} %" for share in shares)]
    return table_text(head, lines, len(head))


PAGE = """\
# Training seeds: what intervals hold, and how often equal algorithms differ

`python -m benchmarks.seeds`, {repeats:,} draws a cell, {pair_repeats:,} of pairs. A run's success, a task's
difficulty and how the two meet are normal on the logit scale; the truth is the mean over all runs and tasks.
A cell of the tables is the least and greatest over {sizes} tasks x attempts.
By chance alone a coverage of 95 % comes out between 94 and 96.

Wanted: at least {least:.0f} % everywhere, at most {most:.0f} % from five runs on and for success of 10
to 90 %, and at most {most_false:.0f} % of equal pairs told apart.

## Coverage in %, deviation alike in logits

Runs deviate by the logits that make {sides} points of success at 50 %, so by fewer near the ends.

{logit}
## Coverage in %, deviation alike in points

Fifteen points at 2 or 98 % are impossible: the greatest deviation there is 14. With seven points at 2 % most
runs win next to nothing and a few win much: a few runs seldom hold such a one.

{points}
## Equal algorithms told apart, in %

Two rows of so many runs each, on the same tasks, at the 5 % level. With 2 and 3 runs no result can reach it,
and boards print that these cannot be told.

{equal}
## Cells outside the bounds

{outside}
"""


def page(record: dict[str, Any]) -> str:
    """Return the page of a record."""
    outside = [
        f"- by {scale}: {world.runs} runs, deviation {100 * world.deviation:.0f} points, success "
        f"{100 * world.success:.0f} %, {world.tasks} tasks x {world.attempts}: {cell['coverage']:.1f} %"
        for scale in get_args(Scale)
        for cell in misses(record[scale])
        for world in [World(**cell["world"])]
    ]
    return PAGE.format(
        repeats=record["repeats"],
        pair_repeats=record["pair_repeats"],
        sizes=", ".join(f"{tasks} x {attempts}" for tasks, attempts in SIZES),
        least=LEAST,
        most=MOST,
        most_false=MOST_FALSE,
        sides=" and ".join(f"{100 * deviation:.0f}" for deviation in DEVIATIONS[1:]),
        logit=_grid(record["logit"], "coverage"),
        points=_grid(record["points"], "coverage"),
        equal=_grid(record["equal"], "false_positives"),
        outside="\n".join(outside) or "None.",
    )


def simulate() -> dict[str, Any]:
    """Simulate every cell."""
    record: dict[str, Any] = {"repeats": REPEATS, "pair_repeats": PAIR_REPEATS}
    for scale in get_args(Scale):
        record[scale] = [
            {"world": asdict(world), "coverage": coverage(world)}
            for runs in RUNS
            for world in worlds(runs, scale)
        ]
    record["equal"] = [
        {"world": asdict(world), "false_positives": false_positives(world)}
        for runs in RUNS
        for world in pair_worlds(runs)
    ]
    return record


def main() -> None:
    """Simulate and write the report."""
    arguments = parser("benchmarks.seeds", __doc__, OUT).parse_args()
    record = simulate()
    publish(arguments.out, record, page(record))


if __name__ == "__main__":
    main()
