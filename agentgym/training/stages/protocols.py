"""Protocols of the stages of a training iteration, and the batches that they pass on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from agentgym.algos.batch import StepBatch
from agentgym.algos.tokens import Batch, Unit
from agentgym.core.arrays import Bools, Floats
from agentgym.training.collect.rollout_batch import Collected, Diagnostics
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.update import UpdateMetrics


@dataclass(frozen=True, slots=True)
class RolloutBatch:
    """The steps that an iteration trains on, in one order."""

    steps: StepBatch
    rows: list[StepRow]
    """Tokens of each of the n steps."""
    log_probs: Floats
    """Log-probabilities (T,) of response tokens under the sampling policy."""
    stale: Bools | None = None
    """Flags (T,) of the tokens that older weights have sampled; None for none."""
    iteration: int = 1
    """Iteration of the run, from 1."""
    parts: tuple[int, ...] = ()
    """Number of groups of each environment, in order, where there are several."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Advantages of a rollout batch, and the targets of a critic."""

    advantages: Floats
    """Advantages (n,) of steps or (T,) of tokens."""
    unit: Unit
    """Unit of the advantages, steps or tokens."""
    values: Floats | None = None
    """Values (n,) or (T,) of the critic before the update, in the unit of `Learner.critic`."""
    returns: Floats | None = None
    """Returns (n,) or (T,), the critic's targets."""
    process_rewards: Floats | None = None
    """Rewards (n,) or (T,) of a reward model, before any comparison; stored with the rollouts only."""
    diagnostics: Diagnostics = field(default_factory=dict)
    """Numbers for the log."""


class Stateful(Protocol):
    """Anything whose state is part of a checkpoint."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as plain values and tensors; alike on every rank."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""


class Collector(Stateful, Protocol):
    """Plays the episodes that an update is trained on."""

    @property
    def episodes(self) -> int:
        """Episodes played to their ends by this process."""

    def collect(self, version: int) -> Collected:
        """Return the rollouts of one update, alike on every rank.

        Args:
            version: of the weights that are about to be updated.
        """

    def over_ranks(self) -> tuple[int, int]:
        """Return the numbers of untrained and of pending groups of all ranks, which all have to call."""

    def close(self) -> None:
        """End the rollouts that are being played ahead, if any."""


class Scorer(Stateful, Protocol):
    """Scores a rollout batch."""

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Return the advantage of every step or token."""


class Minimiser(Stateful, Protocol):
    """Trains on a scored rollout batch."""

    def prepare(self, rollouts: RolloutBatch, scores: Scores) -> Batch:
        """Return the columns of the loss; what stays fixed during the update is computed here."""

    def minimise(self, rollouts: RolloutBatch, batch: Batch, *, seed: int, rate: float) -> UpdateMetrics:
        """Take the optimiser steps of one batch.

        Args:
            rollouts: the tokens.
            batch: what `prepare` returned.
            seed: decides how mini-batches are drawn.
            rate: multiplies the learning rates.

        Raises:
            DivergenceError: a loss or a gradient is not a number; the step that it was for is not taken.
        """


class Stateless:
    """Base of stages that have nothing to save."""

    def state_dict(self) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over nothing."""
