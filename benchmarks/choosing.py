"""Coverage of the intervals of ``agentgym audit``, and what choosing the best of equal checkpoints gives.

``python -m benchmarks.choosing`` writes ``benchmarks/choosing.json`` and its page. Coverage of a success is
exact, that of differences simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.evaluation.board.audit import paired_difference, unpaired_difference
from agentgym.evaluation.board.choosing import Choice, Interval
from benchmarks.harness.report import parser, publish, table_text
from benchmarks.seeds import DIFFICULTY, MEETING, effects

OUT = Path(__file__).with_suffix(".json")

TASKS = (100, 128, 134, 140, 500)
CHOICES = ((1, 1), (1, 3), (5, 1), (30, 1), (30, 3))
"""Numbers of readings and of seeds."""
SUCCESS = (0.5, 0.65, 0.8, 0.9, 0.95)
WITHIN = 0.02
"""Coverage is the mean over success up to so much lower and higher: a count is lumpy."""
PAIRS = ((0.5, 0.5), (0.8, 0.8), (0.8, 0.86), (0.65, 0.9))
REPEATS = 3_000
SEED = 47
LEAST, MOST = 93.0, 97.0


@cache
def interval(choice: Choice, wins: int) -> Interval:
    """Return the interval of a number of wins."""
    return choice.true_success(wins / (choice.tasks * choice.seeds))


def coverage(choice: Choice, success: float) -> float:
    """Return the share of intervals, in percent, that hold the success: exact, a mean over `WITHIN`."""
    shares = []
    for chance in np.linspace(success - WITHIN, success + WITHIN, 21):
        outcomes = choice.outcomes(float(chance))
        held = [
            outcomes[wins]
            for wins in np.flatnonzero(outcomes > 1e-7).tolist()
            if interval(choice, wins).low <= chance <= interval(choice, wins).high
        ]
        shares.append(100.0 * sum(held))
    return float(np.mean(shares))


def unpaired(tasks: int, readings: int, pair: tuple[float, float], repeats: int = REPEATS) -> float:
    """Return the coverage of the difference between one reading and the best of some, on other tasks."""
    rng = np.random.default_rng([SEED, tasks, readings, *(round(100 * chance) for chance in pair)])
    first = rng.binomial(tasks, pair[0], repeats).tolist()
    second = rng.binomial(tasks, pair[1], (repeats, readings)).max(axis=1).tolist()
    choices = Choice(tasks), Choice(tasks, readings)
    found = [
        unpaired_difference(interval(choices[0], wins), interval(choices[1], best))
        for wins, best in zip(first, second, strict=True)
    ]
    return _held(found, pair)


def paired(tasks: int, pair: tuple[float, float], repeats: int = REPEATS) -> float:
    """Return the coverage of the difference between two agents on the same tasks, which differ."""
    rng = np.random.default_rng([SEED, tasks, *(round(100 * chance) for chance in pair)])
    logits = np.array([effects(chance, 0.0)[0] for chance in pair])[:, None, None]
    logits = logits + DIFFICULTY * rng.standard_normal((repeats, tasks))
    logits += MEETING * rng.standard_normal(logits.shape)
    one, other = (rng.random(logits.shape) < 1.0 / (1.0 + np.exp(-logits))).astype(np.float64)
    return _held([paired_difference(differences) for differences in other - one], pair)


def _held(found: Sequence[Interval | None], pair: tuple[float, float]) -> float:
    held = (each is not None and each.low <= pair[1] - pair[0] <= each.high for each in found)
    return 100.0 * sum(held) / len(found)


def simulate() -> Iterator[dict[str, Any]]:
    """Yield the coverage of every cell."""
    for tasks, (readings, seeds), success in product(TASKS, CHOICES, SUCCESS):
        found = coverage(Choice(tasks, readings, seeds), success)
        yield {
            "of": "success",
            "tasks": tasks,
            "readings": readings,
            "seeds": seeds,
            "at": success,
            "coverage": found,
        }
    for tasks, readings, pair in product(TASKS, (1, 5, 30), PAIRS):
        found = unpaired(tasks, readings, pair)
        yield {"of": "other tasks", "tasks": tasks, "readings": readings, "at": list(pair), "coverage": found}
    for tasks, pair in product(TASKS, PAIRS):
        yield {
            "of": "same tasks",
            "tasks": tasks,
            "readings": 1,
            "at": list(pair),
            "coverage": paired(tasks, pair),
        }


PAGE = """\
# Choosing: what the best of equal checkpoints gives, and what intervals of audits hold

`python -m benchmarks.choosing`. Wanted: {least:.0f} to {most:.0f} %. Coverage of a success is exact: the
mean over {within:.0f} points below to above, as a count is lumpy. That of differences is simulated,
{repeats:,} draws a cell. Where two agents play the same tasks, these differ by {difficulty} logits, and an
agent at one by {meeting}.

## Expected result of the best of 30 equal checkpoints, in %

{gains}
## Coverage of a success, in %

Least and greatest over {tasks} tasks.

{success}
## Coverage of a difference, in %

Least and greatest over the same numbers of tasks; the second result is the best of so many readings.

{differences}
## Cells outside the bounds

{outside}
"""


def page(cells: Sequence[dict[str, Any]]) -> str:
    """Return the page of the cells."""

    def span(**wanted: Any) -> str:
        found = [cell["coverage"] for cell in cells if wanted.items() <= cell.items()]
        return f"{min(found):.1f} to {max(found):.1f}"

    gains = [[n, *(f"{100 * Choice(n, 30).expected(p):.1f}" for p in SUCCESS)] for n in TASKS]
    success = [
        [
            f"best of {k}, {_seeds(s)}" if k > 1 else _seeds(s),
            *(span(of="success", readings=k, seeds=s, at=p) for p in SUCCESS),
        ]
        for k, s in CHOICES
    ]
    rows = [("other tasks", k) for k in (1, 5, 30)] + [("same tasks", 1)]
    differences = [[of, k, *(span(of=of, readings=k, at=list(pair)) for pair in PAIRS)] for of, k in rows]
    outside = [
        f"- {cell['of']}, {cell['tasks']} tasks, best of {cell['readings']}, {_seeds(cell.get('seeds', 1))}, "
        f"at {cell['at']}: {cell['coverage']:.1f} %"
        for cell in cells
        if not LEAST <= cell["coverage"] <= MOST
    ]
    percents = [f"{100 * p:.0f} %" for p in SUCCESS]
    return PAGE.format(
        least=LEAST,
        most=MOST,
        within=100 * WITHIN,
        repeats=REPEATS,
        difficulty=DIFFICULTY,
        meeting=MEETING,
        gains=table_text(["tasks", *percents], gains, len(percents) + 1),
        tasks=", ".join(map(str, TASKS)),
        success=table_text(["result", *percents], success, len(percents)),
        differences=table_text(
            ["on", "best of", *(f"{100 * a:.0f} and {100 * b:.0f} %" for a, b in PAIRS)],
            differences,
            len(PAIRS) + 1,
        ),
        outside="\n".join(outside) or "None.",
    )


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count > 1)}"


def main() -> None:
    """Compute every cell and write the report."""
    arguments = parser("benchmarks.choosing", __doc__, OUT).parse_args()
    cells = list(simulate())
    publish(arguments.out, cells, page(cells))


if __name__ == "__main__":
    main()
