"""Fitting: a model learns, epoch by epoch, to give the answers that it is shown.

The loss is their negative log-likelihood. Where responses are constrained choices that is their likelihood
among the admissible actions, which is what the policy samples from.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from agentgym.errors import UsageError, nearest
from agentgym.training.demonstrations import TEACHERS
from agentgym.training.learner.learner import DivergenceError
from agentgym.training.learner.logprobs import check_model, response_log_probs
from agentgym.training.learner.packing import Pack, StepRow
from agentgym.training.learner.tree import pack_tree
from agentgym.training.models.models import LanguageModel
from agentgym.training.policy.prompting import Prompting

_COUNTS = ("tasks", "epochs", "batch", "token_budget", "num_envs", "threads")


@dataclass(frozen=True, slots=True, kw_only=True)
class CloningConfig:
    """Everything that decides a run of behaviour cloning.

    Example:
        >>> config = CloningConfig(env_id="agentgym/Sokoban-v0", tasks=1000, learning_rate=3e-3)
        >>> round(config.rate(0, 10), 5), round(config.rate(5, 10), 5)
        (0.003, 0.0015)
    """

    env_id: str
    env_options: Mapping[str, Any] = field(default_factory=dict)
    """Of the environment's constructor, without the split."""
    split: str = "train"
    tasks: int = 500
    """The split's first ones are shown, each played once by the teacher."""
    shuffled: bool = False
    """Whether tasks are drawn from the whole split, the same ones for every seed, instead of its first."""
    also: tuple[Mapping[str, Any], ...] = ()
    """Options of further environments of this id, whose first tasks are shown as well."""
    teacher: str = "oracle"
    """One of `agentgym.training.demonstrations.TEACHERS`."""
    model: str = "tiny"
    """``tiny``, ``tiny:SIZE`` or the path of a model directory."""
    seed: int = 0
    """Decides random weights, episodes and the order of steps."""
    epochs: int = 5
    batch: int = 64
    """Steps that an update is taken on."""
    learning_rate: float = 1e-3
    """AdamW's at most; it falls to 0 along half a cosine."""
    warmup: int = 0
    """Updates over which the learning rate rises, of the epochs and of each round."""
    beta2: float = 0.999
    """How slowly AdamW forgets the squares of gradients."""
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    rounds: int = 0
    """Of DAgger (`agentgym.training.dagger`), after the epochs: each goes on with tasks not shown yet."""
    round_tasks: int = 200
    """Of each environment, played by the model in a round."""
    round_epochs: int = 1
    """Over everything that was shown, in a round."""
    token_budget: int = 1024
    """Most tokens in one pass of the model. Changes speed and memory, not what is learned."""
    num_envs: int = 64
    threads: int = 1
    """Of the process, on a CPU; see `agentgym.training.config.TrainConfig.threads`."""
    held_out_split: str = "valid"
    held_out: int = 64
    """The split's first tasks are for evaluation; all where it has fewer. 0: none."""
    prompting: Prompting | None = None
    """None for what suits the model and the environment."""

    def __post_init__(self) -> None:
        """Check the numbers.

        Raises:
            UsageError: names the setting.
        """
        for name in (*_COUNTS, "round_tasks", "round_epochs"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("seed", "held_out", "weight_decay", "rounds", "warmup"):
            if not 0 <= getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be at least 0, got {getattr(self, name)}")
        for name in ("learning_rate", "max_grad_norm"):
            if not 0 < getattr(self, name) < math.inf:
                raise UsageError(f"{name} must be positive, got {getattr(self, name)}")
        if not 0 < self.beta2 < 1:
            raise UsageError(f"beta2 must be between 0 and 1, got {self.beta2}")
        if self.teacher not in TEACHERS:
            hint = nearest(self.teacher, TEACHERS)
            raise UsageError(f"unknown teacher {self.teacher!r}{hint}; choose one of {', '.join(TEACHERS)}")

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of update ``step`` of ``steps``, counted from 0."""
        rising = min(1.0, (step + 1) / (self.warmup + 1))
        return self.learning_rate * rising * (1.0 + math.cos(math.pi * step / steps)) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochMetrics:
    """One epoch; means are over its updates."""

    epoch: int
    """From 1."""
    updates: int
    """Taken up to now."""
    loss: float
    """Negative log-likelihood of an answer, in nats."""
    grad_norm: float
    """Before it was clipped."""
    learning_rate: float
    """Of its last update."""


class Fit:
    """A model, what it is shown, and where it stands between two epochs."""

    def __init__(
        self,
        language_model: LanguageModel,
        rows: Sequence[StepRow],
        config: CloningConfig,
        *,
        epochs: int | None = None,
        round: int = 0,
    ):
        """Begin.

        Args:
            language_model: what learns, in place.
            rows: prompts and answers.
            config: how.
            epochs: how many (default: the configuration's).
            round: of DAgger; its order of rows is another one.

        Raises:
            UsageError: the model cannot be packed.
        """
        self._language_model, self._rows, self._config = language_model, rows, config
        self._epochs = config.epochs if epochs is None else epochs
        self._round = round
        check_model(language_model.model)
        self._optimizer = torch.optim.AdamW(
            [weight for weight in language_model.model.parameters() if weight.requires_grad],
            lr=config.learning_rate,
            weight_decay=config.weight_decay,
            betas=(0.9, config.beta2),
        )
        self.epoch = 0
        """Epochs done."""

    @property
    def done(self) -> bool:
        """Whether all epochs are over."""
        return self.epoch == self._epochs

    def step(self) -> EpochMetrics:
        """Train one epoch.

        Raises:
            DivergenceError: a loss or a gradient is not a number.
        """
        config, model = self._config, self._language_model.model
        per_epoch = math.ceil(len(self._rows) / config.batch)
        done = self.epoch * per_epoch
        self.epoch += 1
        stream = [config.seed, self.epoch, *([self._round] if self._round else [])]
        draws = np.random.default_rng(np.random.SeedSequence(stream))
        losses, norms = [], []
        for chosen in np.array_split(draws.permutation(len(self._rows)), per_epoch):
            rate = config.rate(done, self._epochs * per_epoch)
            for group in self._optimizer.param_groups:
                group["lr"] = rate
            rows = [self._rows[row] for row in chosen.tolist()]
            packs = pack_tree(rows, token_budget=config.token_budget, device=model.device)
            loss, norm = _gradient(self._language_model, packs, len(chosen), config.max_grad_norm)
            self._optimizer.step()
            self._optimizer.zero_grad()
            losses.append(loss)
            norms.append(norm)
            done += 1
        return EpochMetrics(
            epoch=self.epoch,
            updates=done,
            loss=float(np.mean(losses)),
            grad_norm=float(np.mean(norms)),
            learning_rate=rate,
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the weights, the optimiser's state and the number of epochs done."""
        return {
            "model": self._language_model.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "epoch": self.epoch,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state_dict` was taken."""
        self._language_model.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.epoch = state["epoch"]


def shown_tasks(config: CloningConfig, tasks: Sequence[str], number: int = 0) -> list[str]:
    """Return the tasks that are demonstrated, or those that the model plays in a round.

    Args:
        config: how many, and in what order.
        tasks: ids of all of a split.
        number: of the round; 0 for the demonstrations.
    """
    order = range(len(tasks))
    if config.shuffled:
        order = np.random.default_rng(0).permutation(len(tasks)).tolist()
    first = config.tasks + (number - 1) * config.round_tasks
    chosen = order[first : first + config.round_tasks] if number else order[: config.tasks]
    return [tasks[place] for place in chosen]


def fit(
    language_model: LanguageModel, rows: Sequence[StepRow], config: CloningConfig
) -> Iterator[EpochMetrics]:
    """Train a model, in place, on answers; yield each epoch when it is over.

    Args:
        language_model: what learns.
        rows: prompts and answers.
        config: how.

    Raises:
        UsageError: the model cannot be packed.
        DivergenceError: a loss or a gradient is not a number.
    """
    fitting = Fit(language_model, rows, config)
    while not fitting.done:
        yield fitting.step()


def _gradient(
    language_model: LanguageModel, packs: Sequence[Pack], steps: int, bound: float
) -> tuple[float, float]:
    """Add up an update's gradient; return its loss, and the gradient's norm before it was clipped."""
    total = 0.0
    for pack in packs:
        log_probs, _ = response_log_probs(language_model.model, pack)
        loss = -log_probs.sum() / steps
        loss.backward()  # type: ignore[no-untyped-call]
        total += loss.item()
    norm = float(torch.nn.utils.clip_grad_norm_(language_model.model.parameters(), bound))
    if not (math.isfinite(total) and math.isfinite(norm)):
        raise DivergenceError(f"the loss is {total}, its gradient {norm}: lower the learning rate")
    return total, norm
