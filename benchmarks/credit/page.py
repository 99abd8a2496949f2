"""Page of the board of credit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from agentgym.credit.board import CONTINUED, DRAWS, SUITES, TASKS, TRUE, CreditCell, CreditRow
from agentgym.credit.standings import (
    MEASURES,
    Contestant,
    by_contestant,
    figure,
    significantly_better,
    standings,
)
from benchmarks.harness.report import table_text

HEAD = (
    "rank",
    "algorithm",
    "correlation",
    "of ranks",
    "wrong signs",
    "no signal",
    "bias",
    "variance",
    "cosine",
)


ALIKE = ("dapo", "gspo", "dr_grpo", "sampo")
"""Algorithms whose advantages are those of GRPO, RLOO or GiGPO but for a scale; losses and filters differ."""


def page(rows: Sequence[CreditRow], held: Sequence[CreditRow]) -> str:
    """Return the page of all cells.

    Args:
        rows: of the table's seeds.
        held: of the seeds held back.
    """
    cells = list(dict.fromkeys(row.cell for row in rows))
    parts = [INTRODUCTION, "\n## Correlation with the truth, suite by suite\n\n", overview(rows)]
    seeds = len({row.seed for row in rows})
    for cell in cells:
        own, again = ([row for row in each if row.cell == cell] for each in (rows, held))
        found = len({row.seed for row in own})
        fewer = (
            f"{found} of {seeds} seeds; on the others no policy wins so often.\n\n" if found < seeds else ""
        )
        parts += [f"\n## {title(cell)}\n\n", fewer, conditions(cell.suite), cell_table(own), "\n"]
        parts += [held_back(own, again)] if again else []
    return "".join(parts)


def overview(rows: Sequence[CreditRow]) -> str:
    """Return the correlations in the first cell of each suite, sorted by their mean over listed suites."""
    first = {row.cell.suite: row.cell for row in reversed(rows)}
    suites = list(dict.fromkeys(row.cell.suite for row in rows))
    columns = [
        by_contestant([row for row in rows if row.cell == first[suite]], "correlation") for suite in suites
    ]
    listed = [c for suite, c in zip(suites, columns, strict=True) if not SUITES[suite].continuations]
    names = sorted(listed[0], key=lambda name: -sum(column[name].mean() for column in listed))
    lines = [
        (name_of(name), *(f"{column[name].mean():.2f}" if name in column else "" for column in columns))
        for name in names
    ]
    heads = [f"{suite} *" if SUITES[suite].continuations else suite for suite in suites]
    return table_text(("algorithm", *heads), lines, numbers=len(suites))


def title(cell: CreditCell) -> str:
    """Return the heading of a cell."""
    extra = (", rejected actions punished" if cell.penalty else "") + (
        ", states by text" if cell.match == "text" else ""
    )
    return f"{cell.suite}: {cell.success:.0%} won, groups of {cell.group_size}{extra}"


def conditions(suite: str) -> str:
    """Return how the truth of a suite is estimated; "" where it is exact."""
    found = SUITES[suite]
    if not found.continuations:
        return ""
    return (
        f"Advantages are estimated from {found.continuations} continuations of each state with as many steps "
        f"left, in two halves; tasks of a seed: {found.tasks}, draws of groups: {found.draws}. The row "
        f"`{CONTINUED}` says how near these estimates themselves come to the truth; the correlations of all "
        "other rows are corrected for it.\n\n"
    )


def name_of(contestant: Contestant) -> str:
    """Return the name of a row: an estimator that learns is followed by its iterations."""
    algorithm, iterations = contestant
    return f"{algorithm} ({iterations})" if iterations else algorithm


def cell_table(rows: Sequence[CreditRow]) -> str:
    """Return the table of one cell: means over seeds, and half-widths of the correlations."""
    lines = []
    for standing in standings(rows):
        first, *others = (standing.measures[name] for name in MEASURES)
        half = (first.high - first.low) / 2
        lines.append(
            (
                standing.rank,
                name_of((standing.algorithm, standing.iterations)),
                f"{first.value:.3f} ± {half:.3f}",
                *(figure(each.value, 3) for each in others),
            )
        )
    return table_text(HEAD, lines, numbers=7)


def held_back(rows: Sequence[CreditRow], held: Sequence[CreditRow]) -> str:
    """Return what the seeds held back say of the pairs that the table tells apart."""
    first, second = by_contestant(rows, "correlation"), by_contestant(held, "correlation")
    names = [name for name in first if name[0] not in (TRUE, CONTINUED)]
    better = significantly_better([first[name] for name in names])
    told = [(i, j) for i, j in combinations(range(len(names)), 2) if better[i, j] or better[j, i]]
    ordered = [(i, j) if better[i, j] else (j, i) for i, j in told]
    same = sum(second[names[i]].mean() > second[names[j]].mean() for i, j in ordered)
    pairs = len(names) * (len(names) - 1) // 2
    text = (
        f"Told apart: {len(told)} of {pairs} pairs. On seeds held back {same} of them have the same order.\n"
    )
    turned = [
        f"{name_of(names[i])} above {name_of(names[j])}"
        for i, j in ordered
        if second[names[i]].mean() <= second[names[j]].mean()
    ]
    return text + (f"Turned: {'; '.join(turned)}.\n" if turned else "")


INTRODUCTION = f"""# Estimators of credit against the truth

`make credit` measures the first cell of each suite and writes this page; `make credit-all` measures the grid.
[How to read it](../../docs/credit.md). Unless a table says otherwise, means over ten seeds of {TASKS} tasks
each, no task in two seeds; each seed draws {DRAWS} times a group of episodes of each task, and critics and
reward models learn from the number of further draws in brackets. Behind the correlation stands half of
Student's 95 % interval over seeds. Rank: 1 + the number of rows that correlate better by Student's paired
test over seeds, after Holm over all pairs of the table. `{TRUE}` is the true advantage itself, so its other
figures show what is left of the method's own error, and its "no signal" the share of steps that are worth
nothing. In suites marked * the states are too
many to be listed: their truth is estimated from continuations, and measures that it does not give are empty.
"""
