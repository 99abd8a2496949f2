"""Supervised fine-tuning: a model is fitted, epoch by epoch, to given answers.

The loss is their negative log-likelihood, an objective of the learner that every algorithm trains with. Where
responses are constrained choices that is their likelihood among the admissible actions, which is what the
policy samples from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentgym.algos.objective import Objective
from agentgym.algos.tokens import Batch
from agentgym.core.options import (
    PositiveFloat,
)
from agentgym.inference.models.language_model import LanguageModel
from agentgym.training.cloning.config import CloningConfig
from agentgym.training.learner.config import GPU_TOKENS, LearnerConfig
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.packing import StepRow
from agentgym.training.learner.update import Learner

LIKELIHOOD = Objective(ratio="likelihood", aggregation="seq-mean-token-sum")
"""Objective of cloning: the log-likelihood of whole answers, every advantage 1."""

CPU_TOKENS = 1024
"""Default of ``token_budget`` on a CPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochMetrics:
    """One epoch; means are over its updates."""

    epoch: int
    """Number of the epoch, from 1."""
    updates: int
    """Number of updates so far."""
    loss: float
    """Negative log-likelihood of an answer, in nats."""
    grad_norm: float
    """Norm of the gradient before clipping."""
    learning_rate: PositiveFloat
    """Learning rate of its last update."""


class Fit:
    """A learner and its data, between two epochs."""

    def __init__(
        self,
        learner: Learner,
        rows: Sequence[StepRow],
        config: CloningConfig,
        *,
        epochs: int | None = None,
        round: int = 0,
    ):
        """Begin; every rank's ``learner`` gets the same rows, in another order each ``round`` of DAgger."""
        self._learner, self._rows, self._config = learner, rows, config
        self._epochs = config.epochs if epochs is None else epochs
        self._round = round
        learner.forget_moments()
        self.epoch = 0
        """Epochs done."""

    @property
    def done(self) -> bool:
        """Whether all epochs are over."""
        return self.epoch == self._epochs

    def step(self) -> EpochMetrics:
        """Train one epoch; `DivergenceError` where a loss or a gradient is not a number."""
        config = self._config
        per_epoch = math.ceil(len(self._rows) / config.batch)
        done = self.epoch * per_epoch
        self.epoch += 1
        stream = [config.seed, self.epoch, *([self._round] if self._round else [])]
        draws = np.random.default_rng(np.random.SeedSequence(stream))
        updates = []
        for chosen in np.array_split(draws.permutation(len(self._rows)), per_epoch):
            rate = config.rate(done, self._epochs * per_epoch)
            rows = [self._rows[row] for row in chosen.tolist()]
            updates.append(self._learner.update(rows, _shown(rows), seed=config.seed, rate=rate))
            done += 1
        return EpochMetrics(
            epoch=self.epoch,
            updates=done,
            loss=float(np.mean([update.loss for update in updates])),
            grad_norm=float(np.mean([update.grad_norm for update in updates])),
            learning_rate=rate,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the learner's state, whole on the first rank, and the number of epochs done."""
        return {**self._learner.state_dict(), "epoch": self.epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the first rank's `state_dict` was taken."""
        self.epoch = state["epoch"]
        self._learner.load_state_dict({name: part for name, part in state.items() if name != "epoch"})


def shown_tasks(config: CloningConfig, tasks: Sequence[str], number: int = 0) -> list[str]:
    """Return the tasks to demonstrate, or those of DAgger's round ``number``, from a split's ids."""
    order = range(len(tasks))
    if config.shuffled:
        order = np.random.default_rng(0).permutation(len(tasks)).tolist()
    first = config.tasks + (number - 1) * config.round_tasks
    chosen = order[first : first + config.round_tasks] if number else order[: config.tasks]
    return [tasks[place] for place in chosen]


def open_learner(language_model: LanguageModel, config: CloningConfig, ranks: Ranks) -> Learner:
    """Return a learner of the likelihood of answers, in place; an update's rate is its learning rate."""
    settings = LearnerConfig(
        learning_rate=1.0,
        betas=(0.9, config.beta2),
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        token_budget=config.token_budget or (CPU_TOKENS if ranks.device.type == "cpu" else GPU_TOKENS),
        dtype=config.dtype,
        lora_rank=config.lora_rank,
        old_log_probs="recompute",  # demonstrations have none, so an update computes its own
    )
    return Learner(language_model.model, LIKELIHOOD, settings, ranks=ranks, weights=language_model.weights)


def _shown(rows: Sequence[StepRow]) -> Batch:
    """Return the columns of answers that are all as good."""
    lengths = np.array([len(row.response_ids) for row in rows])
    return Batch(
        lengths=lengths,
        trajectory=np.arange(len(rows)),
        credit="step",
        advantages=np.ones(len(rows)),
        old_log_probs=np.zeros(lengths.sum()),
    )
