"""Trend of a run's success: level, collapse, and advice."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean

from agentgym.history.metrics import IterationMetrics
from agentgym.history.numerics import CHECKS, CLIPPED, WINDOW, Watched, numerics_warning, watched

NOTABLE = 0.2
"""Least success that a run must have had for its loss to be called a collapse."""


@dataclass(slots=True)
class Trend:
    """Trend of a run's iterations.

    Example:
        >>> trend = Trend()
        >>> for iteration, success in enumerate([0.6] * 5 + [0.0] * 3, start=1):
        ...     trend.add(iteration, success)
        >>> trend.best, trend.best_at, trend.fallen_at
        (0.6, 5, 8)
    """

    recent: tuple[float, ...] = ()
    """Success of the last `WINDOW` iterations."""
    most: float = 0.0
    """Greatest success of a single iteration."""
    best: float = 0.0
    """Greatest mean of `WINDOW` iterations; ``best_at`` is the last of them."""
    best_at: int = 0
    fallen_at: int = 0
    """Iteration since which the mean is less than half of the best; 0 where it is not."""
    first: float = 0.0
    """Success of the evaluation before the first iteration."""
    clipped: float = 0.0
    """Greatest share of terms that an update clipped."""
    lost: str = ""
    """Last evaluation in words, where it is less than half of the first and an update was too large."""

    numbers: tuple[Watched, ...] = ()
    """Numerics of the last `WINDOW` iterations."""
    grouped: bool = False
    """Whether the returns of any group have differed."""

    def __post_init__(self) -> None:
        """Drop the numerics of a run that began with an earlier version, which watched other numbers."""
        self.numbers = tuple(each for each in self.numbers if len(each) == len(CHECKS))

    def follow(self, metrics: IterationMetrics) -> str:
        """Take an iteration's metrics; return the collapse or warning that begins with it, "" for none."""
        before, now, warned = self.collapse, metrics.evaluation, self.warning
        self.numbers = (*self.numbers, watched(metrics))[-WINDOW:]
        self.grouped = self.grouped or metrics.usable_fraction > 0
        self.first = self.first if metrics.evaluation_before is None else metrics.evaluation_before.success
        self.clipped = max(self.clipped, metrics.clip_fraction)
        if now is not None:
            fell = now.success < self.first / 2 and self.clipped > CLIPPED
            self.lost = f"{now.success:.1%} after iteration {metrics.iteration}" if fell else ""
        self.add(metrics.iteration, metrics.success)
        return (not before and self.collapse) or (not warned and self.warning) or ""

    def add(self, iteration: int, success: float) -> None:
        """Take an iteration's success; iterations come in order."""
        self.recent = (*self.recent, success)[-WINDOW:]
        self.most = max(self.most, success)
        if len(self.recent) == WINDOW and self.now > self.best:
            self.best, self.best_at = self.now, iteration
        if self.best < NOTABLE or self.now >= self.best / 2:
            self.fallen_at = 0
        elif not self.fallen_at:
            self.fallen_at = iteration

    @property
    def now(self) -> float:
        """Mean success of the last iterations."""
        return fmean(self.recent or (0.0,))

    @property
    def warning(self) -> str:
        """Warning about the numerics of the last `WINDOW` iterations; "" without any."""
        return numerics_warning(self.numbers, grouped=self.grouped)

    @property
    def collapse(self) -> str:
        """The collapsed metric, its iteration, and advice; "" without a collapse."""
        if self.lost:
            return (
                f"evaluation has collapsed: {self.first:.1%} were won at first, {self.lost}, and up to "
                f"{self.clipped:.0%} of an update's terms clipped: lower learner.learning_rate, or raise "
                "warmup"
            )
        if not self.fallen_at:
            return ""
        return (
            f"success has collapsed: {self.best:.0%} were won up to iteration {self.best_at}, less than half "
            f"of that since iteration {self.fallen_at} ({self.now:.0%} lately): lower "
            "learner.learning_rate, or raise learner.entropy_coefficient"
        )

    @property
    def why_alike(self) -> str:
        """Possible causes of equal returns within every group, and advice."""
        if self.collapse:
            return self.collapse
        if self.most == 0:
            return (
                "none was won at any time: begin with a model that succeeds sometimes (agentgym train bc), "
                "play easier tasks, or larger groups (rollout.group_size)"
            )
        if self.now == 0:
            return (
                f"{self.most:.0%} were won at best, none lately, so that exploration ended too early: raise "
                "learner.entropy_coefficient, or begin with a model that succeeds more often "
                "(agentgym train bc)"
            )
        return (
            f"{self.now:.0%} are won, a task's always or never, so that exploration has ended: raise "
            "learner.entropy_coefficient to learn the others, or take the model as it is"
        )
