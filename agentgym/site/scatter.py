"""Score against cost: points, and the Pareto front."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from agentgym.evaluation.board.boards import Board, Row
from agentgym.evaluation.board.statistics import Estimate
from agentgym.evaluation.board.tables import unit

LOGARITHMIC_FROM = 20.0
"""Ratio of the highest to the lowest cost above which the axis is logarithmic."""

Spent: TypeAlias = Callable[[Row], float | None]


@dataclass(frozen=True, slots=True)
class SpendingPoint:
    """A row on a chart."""

    name: str
    x: float
    y: float
    low: float
    high: float
    """Upper end of the interval of y, and ``low`` the lower one."""
    best: bool
    """Whether no other row has more for as little, or as much for less."""


@dataclass(frozen=True, slots=True)
class SpendingPanel:
    """A chart of score over spending."""

    x_label: str
    y_label: str
    points: tuple[SpendingPoint, ...]

    @property
    def about(self) -> str:
        """Its caption."""
        return f"{self.y_label} over {self.x_label}"

    @property
    def as_json(self) -> dict[str, Any]:
        """Its data for the page's script."""
        spent = [point.x for point in self.points]
        wide = min(spent) > 0.0 and max(spent) > LOGARITHMIC_FROM * min(spent)
        return {**asdict(self), "about": self.about, "log": wide}


_TRAINING: tuple[tuple[str, Spent], ...] = (
    ("training episodes", lambda row: row.agent.model.training_episodes or None),
    ("tokens sampled in training", lambda row: row.agent.model.training_tokens or None),
    ("GPU-seconds of training", lambda row: row.agent.model.training_gpu_seconds or None),
)


def spending_panels(board: Board) -> list[SpendingPanel]:
    """Return a chart for each kind of spending that any row states, and each score."""
    found = []
    for x_label, y_label, spent, score in _axes(board):
        points = []
        for row in board.rows:
            x, y = spent(row), score(row)
            if x is not None and y is not None and math.isfinite(x):
                points.append((row.name, x, y))
        if points:
            found.append(SpendingPanel(x_label, y_label, _with_front(points)))
    return found


def _axes(board: Board) -> Iterator[tuple[str, str, Spent, Callable[[Row], Estimate | None]]]:
    """Yield the axes: their names, and functions from a row to its value."""

    def mean(row: Row) -> Estimate | None:
        return None if row.aggregate is None else row.aggregate.mean

    for name, spent in _TRAINING:
        yield name, "Normalised mean", spent, mean
    for env in board.envs:
        label, y_label = env.env.label, f"{env.env.label} ({unit(env)})"
        factor = 100.0 if "%" in unit(env) else 1.0

        def score(row: Row, label: str = label, factor: float = factor) -> Estimate | None:
            result = row.envs.get(label)
            return None if result is None else result.score.scaled(factor)

        def dollars(row: Row, label: str = label) -> float | None:
            result = row.envs.get(label)
            return (
                None if result is None or result.cost_per_success is None else result.cost_per_success.value
            )

        def tokens(row: Row, label: str = label) -> float | None:
            result = row.envs.get(label)
            if result is None or result.tokens_per_success is None:
                return None
            return result.tokens_per_success.value

        yield "US$ per success", y_label, dollars, score
        yield "tokens per success", y_label, tokens, score
        for name, spent in _TRAINING:
            yield name, y_label, spent, score


def _with_front(points: Sequence[tuple[str, float, Estimate]]) -> tuple[SpendingPoint, ...]:
    """Mark the points of the Pareto front, and sort all by spending."""
    ordered = sorted(points, key=lambda point: (point[1], -point[2].value, point[0]))
    found, most = [], -math.inf
    for name, x, y in ordered:
        found.append(SpendingPoint(name, x, y.value, y.low, y.high, best=y.value > most))
        most = max(most, y.value)
    return tuple(found)
