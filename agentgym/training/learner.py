"""The learner: from step rows and their advantages to updated weights.

A mini-batch is what one optimiser step is taken on. It is cut into packs that fit in memory; each pack
gets its share of the whole mini-batch's weights, so the gradients add up to the same update however it
was cut.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.algos.batch import Floats, Ints
from agentgym.algos.loss import Layout, kl_loss, kl_terms, policy_loss, value_loss
from agentgym.algos.objective import STEP_RATIOS, Objective
from agentgym.algos.tokens import Batch
from agentgym.training.config import LearnerConfig
from agentgym.training.critic import Critic
from agentgym.training.logprobs import all_log_probs, check_model, response_log_probs
from agentgym.training.packing import Pack, StepRow, pack_rows
from agentgym.types import UsageError


class DivergenceError(UsageError):
    """A loss or a gradient is not a number; the weights are as before the step that was not taken."""


@dataclass(frozen=True, slots=True)
class UpdateMetrics:
    """What an update did, averaged over its mini-batches."""

    loss: float
    """Of the policy: surrogate, divergence from the reference and entropy, weighted."""
    kl: float
    """Divergence from the policy that sampled, k3."""
    ref_kl: float | None
    """Divergence from the reference, by the objective's estimator; None without one."""
    clip_fraction: float
    entropy: float
    """In nats per response token, of the distributions that tokens were drawn from."""
    grad_norm: float
    """Before it was clipped."""
    logp_diff: float
    """Largest difference of log-probabilities to those at sampling time, before the first step."""
    value_loss: float | None
    """None without a critic."""
    critic_grad_norm: float | None
    explained_variance: float | None
    """Share of the returns' variance that values at sampling time explain; None where there is none."""
    tokens: int
    """Read by the policy, prompts included, over all epochs."""


@dataclass(frozen=True, slots=True)
class _Share:
    """A pack, and what it has of its mini-batch."""

    pack: Pack
    batch: Batch
    layout: Layout
    term_weights: Tensor
    """Of the surrogate's terms."""
    token_weights: Tensor
    """(c,) of averages over counted tokens."""


class Learner:
    """Trains a policy, and a critic where there is one, by an algorithm's objective.

    The model may be the one that an engine samples from: it is updated in place.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        objective: Objective,
        config: LearnerConfig,
        *,
        reference: PreTrainedModel | None = None,
        critic: Critic | None = None,
    ):
        """Bind what is trained.

        Args:
            model: the policy.
            objective: the algorithm's.
            config: how it is minimised.
            reference: what the policy stays near to, never updated; by default a copy of the policy as it
                is now, where the objective asks for one.
            critic: trained beside the policy.

        Raises:
            UsageError: the model cannot be packed, or drops units out where layers are computed again.
        """
        check_model(model)
        if config.gradient_checkpointing:
            for trained in (model,) if critic is None else (model, critic.body):
                _checkpoint(trained)
        self.model = model.train(False)
        self.objective = objective
        self.config = config
        if reference is None and objective.kl_coefficient > 0:
            reference = copy.deepcopy(model)
        self.reference = reference if reference is None else reference.train(False).requires_grad_(False)
        self.critic = critic
        self._optimizer = self._adamw(model.parameters(), config.learning_rate)
        self._critic_optimizer: torch.optim.AdamW | None = None
        if critic is not None:
            self._critic_optimizer = self._adamw(critic.parameters(), config.critic_learning_rate)

    def _adamw(self, parameters: Iterable[torch.nn.Parameter], learning_rate: float) -> torch.optim.AdamW:
        config = self.config
        return torch.optim.AdamW(
            [weight for weight in parameters if weight.requires_grad],
            lr=learning_rate,
            betas=config.betas,
            eps=config.epsilon,
            weight_decay=config.weight_decay,
        )

    # ---- before an update -------------------------------------------------------------------

    def log_probs(self, rows: Sequence[StepRow]) -> Floats:
        """Return (T,) what the policy makes of the response tokens now."""
        return self._log_probs(self.model, rows)

    def ref_log_probs(self, rows: Sequence[StepRow]) -> Floats:
        """Return (T,) what the reference makes of the response tokens.

        Raises:
            UsageError: there is none.
        """
        if self.reference is None:
            raise UsageError("there is no reference: give the learner one, or a positive kl_coefficient")
        return self._log_probs(self.reference, rows)

    def _log_probs(self, model: PreTrainedModel, rows: Sequence[StepRow]) -> Floats:
        budget, temperature = self.config.token_budget, self.config.temperature
        return all_log_probs(model, rows, token_budget=budget, temperature=temperature)

    # ---- the update ---------------------------------------------------------------------------

    def update(self, rows: Sequence[StepRow], batch: Batch, *, seed: int, rate: float = 1.0) -> UpdateMetrics:
        """Take the optimiser steps of one batch.

        Args:
            rows: n, the tokens of each step.
            batch: advantages and log-probabilities of the same steps; with ``ref_log_probs`` where the
                objective has a divergence, with ``values`` and ``returns`` where there is a critic.
            seed: decides how mini-batches are drawn.
            rate: multiplies the learning rates.

        Raises:
            UsageError: rows and batch do not fit, or a column is missing.
            DivergenceError: a loss or a gradient is not a number. The step that it was for is not taken.
        """
        self._check(rows, batch)
        self._set_rate(rate)
        config = self.config
        totals: dict[str, float] = {}
        logp_diff, tokens = 0.0, 0
        for step, chosen in enumerate(self._minibatches(len(rows), seed)):
            own = [rows[row] for row in chosen.tolist()]
            packs = pack_rows(own, token_budget=config.token_budget, device=self.model.device)
            part = batch.select(chosen)
            sums, difference = self._step(packs, part)
            if step == 0:
                logp_diff = difference
            tokens += sum(len(pack.input_ids) for pack in packs)
            for name, value in sums.items():
                totals[name] = totals.get(name, 0.0) + value
        means = {name: value / (config.epochs * config.minibatches) for name, value in totals.items()}
        return UpdateMetrics(
            loss=means["loss"],
            kl=means["kl"],
            ref_kl=means.get("ref_kl"),
            clip_fraction=means["clip_fraction"],
            entropy=means["entropy"],
            grad_norm=means["grad_norm"],
            value_loss=means.get("value_loss"),
            critic_grad_norm=means.get("critic_grad_norm"),
            logp_diff=logp_diff,
            explained_variance=_explained_variance(batch),
            tokens=tokens,
        )

    def _check(self, rows: Sequence[StepRow], batch: Batch) -> None:
        lengths = [len(row.response_ids) for row in rows]
        if lengths != batch.lengths.tolist():
            raise UsageError("rows and batch differ in their numbers of response tokens: give the same steps")
        if len(rows) < self.config.minibatches:
            raise UsageError(
                f"{len(rows)} steps cannot be cut into {self.config.minibatches} mini-batches: "
                "lower minibatches"
            )
        if self.objective.kl_coefficient > 0 and batch.ref_log_probs is None:
            raise UsageError("ref_log_probs is missing from the batch: fill it from Learner.ref_log_probs")
        if self.critic is not None:
            for name in ("values", "returns"):
                missing = getattr(batch, name) is None
                if missing or batch.valued != self.critic.valued:
                    raise UsageError(
                        f"{name} must hold one number per {self.critic.valued} for the critic, but "
                        + ("is missing" if missing else f"has one per {batch.valued}")
                    )

    def _set_rate(self, rate: float) -> None:
        for group in self._optimizer.param_groups:
            group["lr"] = self.config.learning_rate * rate
        if self._critic_optimizer is not None:
            for group in self._critic_optimizer.param_groups:
                group["lr"] = self.config.critic_learning_rate * rate

    def _minibatches(self, count: int, seed: int) -> Iterator[Ints]:
        for epoch in range(self.config.epochs):
            draws = np.random.default_rng(np.random.SeedSequence([seed, epoch]))
            yield from np.array_split(draws.permutation(count), self.config.minibatches)

    def _step(self, packs: list[Pack], batch: Batch) -> tuple[dict[str, float], float]:
        """Take one optimiser step; return what is logged, and the largest change of a log-probability."""
        self._optimizer.zero_grad()
        sums, difference = self._policy_gradient(packs, batch)
        if self.critic is not None and self._critic_optimizer is not None:
            self._critic_optimizer.zero_grad()
            sums["value_loss"] = self._value_gradient(self.critic, packs, batch)
            sums["critic_grad_norm"] = self._clip(self._critic_optimizer)
        sums["grad_norm"] = self._clip(self._optimizer)
        wrong = [name for name, value in sums.items() if not np.isfinite(value)]
        if wrong:
            self._optimizer.zero_grad()
            if self._critic_optimizer is not None:
                self._critic_optimizer.zero_grad()
            raise DivergenceError(
                f"{wrong[0]} is {sums[wrong[0]]}, so no step was taken: lower the learning rate, or look for "
                "advantages or log-probabilities that are not finite"
            )
        self._optimizer.step()
        if self._critic_optimizer is not None:
            self._critic_optimizer.step()
        return sums, difference

    def _policy_gradient(self, packs: list[Pack], batch: Batch) -> tuple[dict[str, float], float]:
        objective, config = self.objective, self.config
        sums = dict.fromkeys(("loss", "kl", "clip_fraction", "entropy"), 0.0)
        terms, tokens, difference = 0.0, 0.0, 0.0
        self.model.train(config.gradient_checkpointing)
        for share in self._shares(packs, batch):
            layout = share.layout
            log_probs, entropies = response_log_probs(
                self.model, share.pack, temperature=config.temperature, chunk_logits=config.chunk_logits
            )
            old = _tensor(share.batch.old_log_probs, log_probs)
            surrogate = policy_loss(
                log_probs,
                old,
                _tensor(share.batch.advantages, log_probs),
                layout,
                objective,
                credit=share.batch.credit,
                weights=share.term_weights,
            )
            entropy = (layout.pick(entropies) * share.token_weights).sum()
            loss = surrogate.loss
            if config.entropy_coefficient > 0:
                loss = loss - config.entropy_coefficient * entropy
            if objective.kl_coefficient > 0 and share.batch.ref_log_probs is not None:
                reference = _tensor(share.batch.ref_log_probs, log_probs)
                divergence = kl_loss(log_probs, reference, layout, objective, weights=share.token_weights)
                sums["ref_kl"] = sums.get("ref_kl", 0.0) + divergence.item()
                loss = loss + objective.kl_coefficient * divergence
            if loss.requires_grad:
                loss.backward()  # type: ignore[no-untyped-call]
            moved = layout.pick(log_probs.detach()), layout.pick(old)
            sums["loss"] += loss.item()
            sums["entropy"] += entropy.item()
            terms += (weight := share.term_weights.sum().item())
            tokens += share.token_weights.sum().item()
            sums["clip_fraction"] += surrogate.clip_fraction.item() * weight
            sums["kl"] += float((kl_terms(*moved, "k3") * share.token_weights).sum())
            difference = max([difference, *(moved[0] - moved[1]).abs().tolist()])
        self.model.train(False)
        for name, total in (("clip_fraction", terms), ("kl", tokens), ("entropy", tokens)):
            sums[name] /= total or 1.0  # sums over responses have weights of more than 1 altogether
        return sums, difference

    def _shares(self, packs: list[Pack], batch: Batch) -> Iterator[_Share]:
        """Give each pack its part of a mini-batch's columns and weights."""
        whole = _layout(batch, self.model.device)
        dtype = torch.promote_types(self.model.dtype, torch.float32)
        steps = self.objective.ratio in STEP_RATIOS
        averaging = "seq-mean-token-mean" if steps else self.objective.aggregation
        spread = torch.zeros(whole.shape, dtype=dtype, device=self.model.device)
        spread[whole.index] = whole.weights(averaging, dtype)
        term = whole.weights(self.objective.aggregation, dtype) if steps else None
        for pack in packs:
            part = batch.select(pack.rows)
            layout = _layout(part, self.model.device)
            tokens = layout.pick(spread[torch.from_numpy(pack.tokens)])
            yield _Share(
                pack,
                part,
                layout,
                term_weights=tokens if term is None else term[torch.from_numpy(pack.rows)],
                token_weights=tokens,
            )

    def _value_gradient(self, critic: Critic, packs: list[Pack], batch: Batch) -> float:
        steps = critic.valued == "step"
        mask = None if steps or batch.mask is None else torch.from_numpy(batch.mask)
        counts = []
        for pack in packs:
            mine = torch.from_numpy(pack.rows if steps else pack.tokens)
            counts.append(len(mine) if mask is None else int(mask[mine].sum()))
        total = 0.0
        critic.train(self.config.gradient_checkpointing)
        for pack, count in zip(packs, counts, strict=True):
            part = batch.select(pack.rows)
            values = critic(pack)
            assert part.values is not None  # `_check` sees to both
            assert part.returns is not None
            chosen = None if steps or part.mask is None else torch.from_numpy(part.mask).to(values.device)
            loss = value_loss(
                values,
                _tensor(part.values, values),
                _tensor(part.returns, values),
                chosen,
                clip=self.config.value_clip,
            )
            loss = loss * count / max(sum(counts), 1)
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        critic.train(False)
        return total

    def _clip(self, optimizer: torch.optim.AdamW) -> float:
        """Shorten the gradient to its bound; return how long it was."""
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        bound = float("inf") if self.config.max_grad_norm is None else self.config.max_grad_norm
        return float(torch.nn.utils.clip_grad_norm_(weights, bound))

    # ---- checkpoints --------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return what a run is continued from: weights and optimisers, of tensors that updates change."""
        state = {"model": self.model.state_dict(), "optimizer": self._optimizer.state_dict()}
        if self.critic is not None and self._critic_optimizer is not None:
            state["critic"] = self.critic.state_dict()
            state["critic_optimizer"] = self._critic_optimizer.state_dict()
        if self.reference is not None:
            state["reference"] = self.reference.state_dict()
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from what `state_dict` returned.

        Raises:
            UsageError: it is of a learner with other parts.
        """
        expected = self.state_dict().keys()
        if state.keys() != expected:
            raise UsageError(
                f"the state has {', '.join(sorted(state))}, this learner {', '.join(sorted(expected))}: "
                "continue with the algorithm it was saved with"
            )
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        if self.critic is not None and self._critic_optimizer is not None:
            self.critic.load_state_dict(state["critic"])
            self._critic_optimizer.load_state_dict(state["critic_optimizer"])
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])


def _checkpoint(model: PreTrainedModel) -> None:
    """Have a model compute its layers again for the gradient, which it does in training mode only."""
    settings = model.config.get_text_config().to_dict()
    for name, value in settings.items():
        if "drop" in name and isinstance(value, float) and value > 0:
            raise UsageError(
                f"the model's {name} is {value}, which gradient_checkpointing would turn on: set it to 0 in "
                "the model's config.json, or turn gradient_checkpointing off"
            )
    # the older name is deprecated where there is the newer one
    enable = getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable
    enable({"use_reentrant": False})


def _layout(batch: Batch, device: torch.device) -> Layout:
    mask = None if batch.mask is None else torch.from_numpy(batch.mask).to(device)
    lengths, trajectory = (torch.from_numpy(x).to(device) for x in (batch.lengths, batch.trajectory))
    return Layout.packed(lengths, mask, trajectory)


def _tensor(column: Floats, like: Tensor) -> Tensor:
    return torch.from_numpy(column).to(like)


def _explained_variance(batch: Batch) -> float | None:
    """Return ``1 - Var(returns - values) / Var(returns)``; None where returns are missing or do not vary."""
    if batch.values is None or batch.returns is None or len(batch.returns) == 0:
        return None
    spread = float(batch.returns.var())
    return None if spread == 0 else 1.0 - float((batch.returns - batch.values).var()) / spread
