"""Order of estimators: means with intervals over repetitions, and which differ significantly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations

import numpy as np

from agentgym.core.arrays import Bools, Floats
from agentgym.credit.board import CreditRow
from agentgym.credit.measures import CreditAgreement
from agentgym.errors import UsageError
from agentgym.evaluation.board.statistics import (
    CONFIDENCE,
    Estimate,
    holm,
    ranks,
    standard_error,
    t_cdf,
    t_interval,
)

MEASURES = tuple(field.name for field in fields(CreditAgreement))
"""Names of the measures."""

Contestant = tuple[str, int]
"""Algorithm, and the draws that its critic or reward model learned from."""


@dataclass(frozen=True, slots=True)
class Standing:
    """One estimator over all seeds of a cell."""

    algorithm: str
    iterations: int
    """Draws that its critic or reward model learned from; 0 where it has none."""
    rank: int
    """1 + the number of estimators that correlate significantly better."""
    measures: Mapping[str, Estimate]
    """Mean of each measure over seeds, with Student's interval."""


def standings(rows: Sequence[CreditRow]) -> list[Standing]:
    """Return the estimators of one cell, the best correlated first.

    Args:
        rows: of one cell, all seeds.

    Raises:
        UsageError: two seeds have different estimators.
    """
    values = by_contestant(rows, "correlation")
    names = sorted(values, key=lambda name: -values[name].mean())
    better = significantly_better([values[name] for name in names])
    measured = {measure: by_contestant(rows, measure) for measure in MEASURES}
    return [
        Standing(*name, rank, {measure: t_interval(measured[measure][name]) for measure in MEASURES})
        for name, rank in zip(names, ranks(better), strict=True)
    ]


def figure(value: float, digits: int = 2) -> str:
    """Return a measure as text, "" where it is nan."""
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def by_contestant(rows: Iterable[CreditRow], measure: str) -> dict[Contestant, Floats]:
    """Return float64[seeds] of a measure for each estimator, in the order of the seeds."""
    found: dict[Contestant, dict[int, float]] = {}
    for row in rows:
        found.setdefault((row.algorithm, row.iterations), {})[row.seed] = getattr(row.agreement, measure)
    seeds = {tuple(sorted(values)) for values in found.values()}
    if len(seeds) > 1:
        raise UsageError("some seeds lack an estimator: measure all estimators on the same seeds")
    return {name: np.array([values[seed] for seed in sorted(values)]) for name, values in found.items()}


def significantly_better(values: Sequence[Floats]) -> Bools:
    """Return bool[R, R]: row i is better than row j by Student's paired test over seeds, after Holm.

    Args:
        values: float64[seeds] of each row.
    """
    pairs = list(combinations(range(len(values)), 2))
    better = np.zeros((len(values), len(values)), dtype=np.bool_)
    if not pairs or len(values[0]) < 2:
        return better
    differences = [values[i] - values[j] for i, j in pairs]
    p_values = holm(np.array([_paired_p(difference) for difference in differences]))
    for (i, j), difference, p in zip(pairs, differences, p_values, strict=True):
        if p <= 1.0 - CONFIDENCE:
            better[(i, j) if difference.mean() > 0 else (j, i)] = True
    return better


def _paired_p(difference: Floats) -> float:
    """Return the two-sided p value of Student's test that the mean is 0; 1 where all differences are 0."""
    error = standard_error(difference)
    if error <= 1e-12 * max(1.0, float(np.abs(difference).max())):
        return 0.0 if abs(difference.mean()) > 1e-9 else 1.0
    return 2.0 * (1.0 - t_cdf(abs(float(difference.mean())) / error, len(difference) - 1))
