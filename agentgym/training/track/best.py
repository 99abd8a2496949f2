"""The best evaluation of a run so far: whose checkpoint is kept, and when training stops early."""

from __future__ import annotations

from dataclasses import dataclass

from agentgym.training.track.checkpoint import checkpoint_name


@dataclass(slots=True)
class BestEvaluation:
    """The best evaluation by one measure; of equal ones the earliest. That before training does not count.

    Example:
        >>> best = BestEvaluation()
        >>> [best.add(iteration, value) for iteration, value in ((10, 0.2), (20, 0.5), (30, 0.5))]
        [True, True, False]
        >>> best.checkpoint, best.since
        ('000020', 1)
    """

    value: float = 0.0
    iteration: int = 0
    """Iteration of the best evaluation; 0 before any."""
    since: int = 0
    """Number of evaluations after it."""

    def add(self, iteration: int, value: float) -> bool:
        """Take an evaluation; return whether it is better than all before."""
        better = not self.iteration or value > self.value
        if better:
            self.value, self.iteration, self.since = value, iteration, 0
        else:
            self.since += 1
        return better

    @property
    def checkpoint(self) -> str:
        """Name of its checkpoint; empty before the first evaluation."""
        return checkpoint_name(self.iteration) if self.iteration else ""

    def rule(self, measure: str, iteration: int) -> str:
        """Return the rule that chose the weights after an iteration, as `Training.checkpoint` has it."""
        return f"best by evaluation/{measure}" if iteration and iteration == self.iteration else "last"
