"""A process reward model: a language model trained beside the policy, whose log-ratios reward steps.

Losses of reward models are of whole answers or of pairs of them, whose tokens lie in several packs. So a step
takes two passes, and is exact however the tokens are packed and dealt out::

    h      = beta times summed log-ratios of each answer      without a gradient, pack by pack
    dL/dl  = dL/dh dh/dl                                      (T,) numbers, of all tokens at once
    grad   = sum over packs of d(l . dL/dl)                   pack by pack

with l the log-probabilities of the response tokens under the model.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from agentgym.algos.loss import TokenLayout
from agentgym.algos.objective import Objective
from agentgym.algos.process import implicit_rewards, pool
from agentgym.core.arrays import Floats, Ints
from agentgym.inference.models.language_model import LanguageModel, save_model
from agentgym.inference.models.lora import merged_weights, without_adapter
from agentgym.inference.models.reward_model_file import (
    REFERENCE,
    ComparedWith,
    RewardModelFile,
    write_reward_model,
)
from agentgym.inference.models.weights import WeightFiles
from agentgym.training.learner.config import LearnerConfig, RewardModelConfig
from agentgym.training.learner.distributed import Ranks
from agentgym.training.learner.packing import StepRow, on_device
from agentgym.training.learner.update import DivergenceError, Learner

AnswerLoss: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, dict[str, float]]]
"""Loss of answers: from (m,) scores h, outcomes and groups to a scalar and numbers for the log. "count" is
the number of terms; at 0 there is no update."""


@dataclass(frozen=True, slots=True)
class Answers:
    """Training data of a reward model: steps of answers, with the log-probabilities of the comparison."""

    rows: Sequence[StepRow]
    """Tokens of each of the n steps."""
    compared: Floats
    """Log-probabilities (T,) of the response tokens under the model of the comparison."""
    answer: Ints
    """Answer (n,) of each step, any numbers."""
    outcome: Floats
    """Outcome (n,) of the answer, on each of its steps."""
    group: Ints
    """Task (n,) of the answer."""

    def __len__(self) -> int:
        """Number of steps, n."""
        return len(self.rows)

    @property
    def lengths(self) -> Ints:
        """(n,) number of response tokens of each step."""
        return np.array([len(row.response_ids) for row in self.rows], dtype=np.int64)

    def select(self, rows: Ints) -> Self:
        """Return some of the steps, (k,), in ascending order."""
        tokens = np.zeros(len(self), dtype=np.bool_)
        tokens[rows] = True
        return type(self)(
            rows=[self.rows[row] for row in rows.tolist()],
            compared=self.compared[np.repeat(tokens, self.lengths)],
            answer=self.answer[rows],
            outcome=self.outcome[rows],
            group=self.group[rows],
        )


class RewardModel(Learner):
    """Trains a process reward model: a learner like the policy's, but for the loss.

    Shards, adapter, arithmetic, bound of gradients and checkpoints are the policy's settings and code. The
    reference, where there is one, is the model as it was made.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        settings: RewardModelConfig,
        config: LearnerConfig,
        *,
        reference: bool = False,
        ranks: Ranks | None = None,
        weights: WeightFiles | None = None,
    ):
        """Bind the reward model, trained in place, and used by nothing else.

        ``config``: the policy's, for all that is alike; ``reference``: whether log-ratios are to the model as
        it is now, which then stays as it is; ``weights``: of a model on the meta device.
        """
        own = replace(config, learning_rate=settings.learning_rate, lora_rank=settings.lora_rank)
        fixed = copy.deepcopy(model) if reference and own.lora_rank is None else None
        super().__init__(model, Objective(), own, reference=fixed, ranks=ranks, weights=weights)
        self.settings = settings
        self.compared_with: ComparedWith = "reference" if reference else "policy"

    def fit(
        self,
        answers: Answers,
        loss: AnswerLoss,
        *,
        seed: int,
        rate: float = 1.0,
        log_probs: Floats | None = None,
    ) -> dict[str, float]:
        """Take the optimiser steps of one batch.

        ``seed`` decides how mini-batches are drawn; ``rate`` multiplies the learning rate; ``log_probs``:
        (T,) under the model as it is now, if known. Returns averages over the steps taken of the loss, its
        diagnostics, and ``grad_norm``; ``count`` is summed over one epoch. A mini-batch without terms takes
        no step. `DivergenceError` where a loss or a gradient is not a number; its step is not taken.
        """
        self._set_rate(rate)
        taken: list[dict[str, float]] = []
        count = 0.0
        for rows in self._parts_of(answers, seed):
            part = answers.select(rows)
            whole = log_probs is not None and not taken and len(part) == len(answers)
            known = log_probs if whole else self.log_probs(part.rows)
            assert known is not None
            numbers = self._fit_step(part, known, loss)
            count += numbers.pop("count")
            if numbers:
                taken.append(numbers)
        means = {name: float(np.mean([each[name] for each in taken])) for name in (taken or [{}])[0]}
        return {"count": count / self.settings.epochs, **means}

    def _parts_of(self, answers: Answers, seed: int) -> Iterator[Ints]:
        """Yield the rows of each mini-batch: whole groups, in their order."""
        names = np.unique(answers.group)
        parts = max(1, min(self.settings.minibatches, len(names)))
        for epoch in range(self.settings.epochs):
            draws = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
            for chosen in np.array_split(draws.permutation(names), parts):
                yield np.flatnonzero(np.isin(answers.group, chosen))

    def _fit_step(self, part: Answers, log_probs: Floats, loss: AnswerLoss) -> dict[str, float]:
        """Take one optimiser step, if the loss has terms; return the numbers for the log."""
        gradient, numbers = self.token_gradient(part, log_probs, loss)
        if numbers["count"] == 0:
            return {"count": 0.0}
        self._optimizer.zero_grad()
        self.accumulate(part.rows, gradient)
        numbers["grad_norm"] = self._clip(self._optimizer)
        wrong = [name for name, value in numbers.items() if not np.isfinite(value)]
        if wrong:
            self._optimizer.zero_grad()
            raise DivergenceError(
                f"the reward model's {wrong[0]} is {numbers[wrong[0]]}, so no step was taken: lower "
                "reward_model.learning_rate"
            )
        self._optimizer.step()
        return numbers

    def token_gradient(
        self, part: Answers, log_probs: Floats, loss: AnswerLoss
    ) -> tuple[Floats, dict[str, float]]:
        """Return (T,) the derivative of a loss by each present log-probability, and diagnostics."""
        settings = self.settings
        tokens = torch.tensor(log_probs, dtype=torch.float64, requires_grad=True)
        layout = TokenLayout.packed(torch.from_numpy(part.lengths))
        steps = implicit_rewards(tokens, torch.from_numpy(part.compared), layout, beta=settings.beta)
        scores = pool(steps, torch.from_numpy(part.answer), settings.pooling)
        first = np.unique(part.answer, return_index=True)[1]
        outcome, group = (torch.from_numpy(column[first]) for column in (part.outcome, part.group))
        value, numbers = loss(scores, outcome, group)
        (gradient,) = torch.autograd.grad(value, tokens)
        return gradient.numpy(), {"loss": value.item(), **numbers}

    def accumulate(self, rows: Sequence[StepRow], gradient: Floats) -> None:
        """Backpropagate the loss's derivative by each response token's log-probability, (T,)."""
        lengths = np.array([len(row.response_ids) for row in rows], dtype=np.int64)
        matters = np.bincount(np.repeat(np.arange(len(rows)), lengths), gradient != 0, len(rows)) > 0
        weights = gradient[np.repeat(matters, lengths)]
        packs = self._packs([row for row, counts in zip(rows, matters, strict=True) if counts])
        dtype = torch.promote_types(self.model.dtype, torch.float32)
        shares = [
            on_device(torch.from_numpy(weights[pack.tokens]).to(dtype), self._device) for pack, _ in packs
        ]
        self._actor.train(self.config.gradient_checkpointing is True)
        for (pack, counts), share in zip(packs, shares, strict=True):
            log_probs, _ = self._actor(pack, entropies=False)
            ((log_probs * share).sum() * counts).backward()
        self._actor.train(False)

    # ---- what others take over ------------------------------------------------------------------

    def save(self, directory: Path, tokenizer: PreTrainedTokenizerBase) -> None:
        """Save the model as an ordinary directory with its reward settings; the first rank writes.

        A frozen reference goes into a folder of it.
        """
        self.save_model(directory, tokenizer)
        if self.compared_with == "reference":
            weights = {name: tensor.to("cpu", self._dtype) for name, tensor in self._reference_weights()}
            if self.ranks.is_first:
                save_model(directory / REFERENCE, LanguageModel(self.model, tokenizer), weights)
        if self.ranks.is_first:
            record = RewardModelFile(
                compared_with=self.compared_with,
                beta=self.settings.beta,
                temperature=self.config.temperature,
            )
            write_reward_model(directory, record)

    def _reference_weights(self) -> Iterator[tuple[str, Tensor]]:
        if self.reference is not None:
            yield from merged_weights(self.reference)
            return
        with without_adapter(self.model):
            yield from merged_weights(self.model)
