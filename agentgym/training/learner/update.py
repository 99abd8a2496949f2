"""The learner: from step rows and their advantages to updated weights.

A mini-batch is what one optimiser step is taken on. It is cut into packs that fit in memory; each pack
gets its share of the whole mini-batch's weights, so the gradients add up to the same update however it
was cut.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from agentgym.algos.objective import Objective
from agentgym.algos.tokens import Batch, Unit
from agentgym.core.arrays import Floats, Ints
from agentgym.core.stopwatch import stage
from agentgym.errors import UsageError
from agentgym.inference.models.language_model import LanguageModel, save_model
from agentgym.inference.models.linear import use_onednn
from agentgym.inference.models.lora import (
    FOLDER,
    MARK,
    has_adapter,
    merged_weights,
    own_weights,
    without_adapter,
)
from agentgym.inference.models.pictures import PictureReader
from agentgym.inference.models.weights import NamedTensors, WeightFiles, whole
from agentgym.training.learner.attention import attend_in_packs
from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.critic import Critic, explained_variance
from agentgym.training.learner.distributed import Ranks, gathered, load_moments, load_weights, reshard
from agentgym.training.learner.gradients import Actor, Gap, policy_gradient, recompute_layers, value_gradient
from agentgym.training.learner.logprobs import check_model
from agentgym.training.learner.packing import Pack, StepRow
from agentgym.training.learner.shards import (
    begin_moments,
    load_shards,
    moments,
    save_shards,
    saved_names,
    unique_tensors,
)
from agentgym.training.learner.tree import own_packs


class DivergenceError(UsageError):
    """A loss or a gradient is not a number; the weights are as before the step that was not taken."""


@dataclass(frozen=True, slots=True)
class UpdateMetrics:
    """Metrics of an update, averaged over its mini-batches."""

    loss: float
    """Loss of the policy: surrogate, divergence from the reference and entropy, weighted."""
    kl: float
    """Divergence from the sampling policy, k3."""
    ref_kl: float | None
    """Divergence from the reference, by the objective's estimator; None without one."""
    clip_fraction: float
    entropy: float
    """Entropy in nats per response token, of the sampling distributions."""
    grad_norm: float
    """Norm of the gradient before clipping."""
    logp_diff: float
    """Largest difference between a token's log-probability in the first step and at sampling time; stale
    tokens are left out."""
    value_loss: float | None
    """Loss of the critic; None without one."""
    critic_grad_norm: float | None
    explained_variance: float | None
    """Share of the returns' variance explained by values at sampling time; None without a variance."""
    tokens: int
    """Tokens that the policy processed, prompts included, over all epochs."""
    logp_diff_mean: float | None = None
    """Mean of the differences whose maximum is ``logp_diff``."""
    logp_diff_p999: float | None = None
    """99.9th percentile of these differences, rounded up to a tenth of a decade."""
    logp_diff_wide: float | None = None
    """Share of these differences above `agentgym.training.learner.gradients.WIDE`."""
    policy_drift: float | None = None
    """Mean difference in log-probability of stale tokens; None without any."""
    importance: float | None = None
    """Mean importance weight of the terms; None without a cap."""
    truncated: float | None = None
    """Share of the terms whose importance weight is clipped at the cap."""


class Learner:
    """Trains a policy, and a critic where there is one, by an algorithm's objective.

    Every rank has a learner of its own and calls it with the same arguments, those of the whole batch: the
    work is divided here, and so are the weights.

    Trained weights and their moments are float32 at least, whatever computes: in bfloat16, an update of a
    thousandth of a weight's size is lost.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        objective: Objective,
        config: LearnerConfig,
        *,
        reference: PreTrainedModel | None = None,
        critic: Critic | None = None,
        ranks: Ranks | None = None,
        weights: WeightFiles | None = None,
    ):
        """Bind policy, objective and settings; the policy is trained in place.

        With one rank and in float32 an engine may sample from ``model``; otherwise give the engine a copy
        made before, with an adapter of the same settings. ``reference``: never updated; by default the policy
        as it is now, where the objective needs one: without its adapter, or else a copy. ``weights``: of
        models on the meta device; each rank reads its own part.
        """
        self.ranks = ranks or Ranks()
        # the device of offloaded weights computes nothing
        self._device = device = self.ranks.device_of(model)
        with nullcontext() if weights is None else weights.lent(model, device):
            check_model(model, device)
        self.objective = objective
        self.config = config = config.settled(device.type)
        if config.tf32 and device.type == "cuda":
            torch.set_float32_matmul_precision("high")
        if config.gradient_checkpointing:
            for trained in (model,) if critic is None else (model, critic.body):
                recompute_layers(trained)
        if config.adapter is not None:
            config.adapter.add_to(model)
        elif reference is None and objective.kl_coefficient > 0:
            reference = copy.deepcopy(model)
        self.model = model.train(False)
        self.reference = reference if reference is None else reference.train(False).requires_grad_(False)
        self.critic = critic
        exact = torch.promote_types(model.dtype, torch.float32)
        self._dtype = exact if config.dtype == "float32" else torch.bfloat16
        self._actor = Actor(model, config)
        self._reference = None if self.reference is None else Actor(self.reference, config)
        if config.attention == "flash":
            if device.type != "cuda":
                raise UsageError("learner.attention=flash needs a GPU: set it to auto")
            for body in filter(None, (model, self.reference, critic and critic.body)):
                attend_in_packs(body, flash=True)
        for part in (self._actor, self._reference):
            if part is not None:
                self._distribute(part, part.model, weights)
        if critic is not None:
            of_body = None if weights is None else weights.of_body(model)
            self._distribute(critic, critic.body, of_body, exact=(critic.head,))
        self._optimizer = self._adamw(model.parameters(), config.learning_rate)
        self._critic_optimizer: torch.optim.AdamW | None = None
        if critic is not None:
            self._critic_optimizer = self._adamw(critic.parameters(), config.critic_learning_rate)

    def _distribute(
        self,
        module: torch.nn.Module,
        model: PreTrainedModel,
        weights: WeightFiles | None,
        exact: Sequence[torch.nn.Module] = (),
    ) -> None:
        """Convert weights to their stored type; give each rank its part; those of ``model`` may be read."""
        use_onednn(module)
        for weight in module.parameters():
            dtype = torch.promote_types(weight.dtype, torch.float32) if weight.requires_grad else self._dtype
            weight.data = weight.data.to(dtype)
        trains = any(weight.requires_grad for weight in module.parameters())
        offload = self.config.offload and trains

        def fill(device: torch.device) -> None:
            if weights is not None:
                weights.fill(model, device)

        self.ranks.shard(module, self._dtype, exact, offload=offload, fill=fill)

    def _adamw(self, parameters: Iterable[torch.nn.Parameter], learning_rate: float) -> torch.optim.AdamW:
        config, weights = self.config, [weight for weight in parameters if weight.requires_grad]
        fused = config.fused
        if fused is None:
            fused = any(isinstance(weight, DTensor) or weight.is_cuda for weight in weights)
        return torch.optim.AdamW(
            weights,
            lr=learning_rate,
            betas=config.betas,
            eps=config.epsilon,
            weight_decay=config.weight_decay,
            fused=fused or None,
        )

    @property
    def parameters(self) -> int:
        """Number of the policy's weights, those of all ranks and without an adapter's."""
        own = (weight.numel() for name, weight in self.model.named_parameters() if MARK not in name)
        return sum(own)

    def forget_moments(self) -> None:
        """Reset the optimisers' moments, since the training data changes."""
        for optimizer in self._optimizers().values():
            optimizer.state.clear()

    # ---- before an update -------------------------------------------------------------------

    @stage("old_log_probs")
    def log_probs(self, rows: Sequence[StepRow]) -> Floats:
        """Return (T,) log-probabilities of the response tokens under the present policy."""
        return self._log_probs(self._actor, rows)

    @stage("reference")
    def ref_log_probs(self, rows: Sequence[StepRow]) -> Floats:
        """Return (T,) log-probabilities of the response tokens under the reference, which there must be."""
        if self._reference is not None:
            return self._log_probs(self._reference, rows)
        if not has_adapter(self.model):
            raise UsageError("there is no reference: give the learner one, or a positive kl_coefficient")
        with without_adapter(self.model):
            return self._log_probs(self._actor, rows)

    @stage("critic")
    def values(self, rows: Sequence[StepRow], unit: Unit | None = None) -> Floats:
        """Return (n,) values of steps or (T,) of their response tokens, as `Critic.values` does."""
        if self.critic is None:
            raise UsageError("there is no critic: give the learner one")
        budget, packing, device = self.config.token_budget, self.config.packing, self._device
        return self.critic.values(
            rows, token_budget=budget, unit=unit, ranks=self.ranks, packing=packing, device=device
        )

    def embeddings(self, rows: Sequence[StepRow]) -> Floats:
        """Return (n, d) the policy's last hidden states at the last prompt token of each row."""
        size = self.model.config.get_text_config().hidden_size
        result = np.zeros((len(rows), size))
        with torch.no_grad():
            found = [(pack, self._actor(pack, embeds=True)[0], counts) for pack, counts in self._packs(rows)]
        for pack, states, counts in found:
            if counts:
                result[pack.rows] = states.double().cpu().numpy()
        reshard(self._actor)
        return self.ranks.total(result)

    def _log_probs(self, actor: Actor, rows: Sequence[StepRow]) -> Floats:
        result = np.zeros(sum(len(row.response_ids) for row in rows))
        with torch.no_grad():
            found = [(pack, actor(pack)[0], counts) for pack, counts in self._packs(rows)]
        for pack, log_probs, counts in found:  # copies wait for the device, so they follow all passes
            if counts:
                result[pack.tokens] = log_probs.double().cpu().numpy()
        reshard(actor)
        return self.ranks.total(result)

    def _packs(self, rows: Sequence[StepRow]) -> list[tuple[Pack, bool]]:
        budget, packing = self.config.token_budget, self.config.packing
        return own_packs(rows, token_budget=budget, ranks=self.ranks, packing=packing, device=self._device)

    # ---- the update ---------------------------------------------------------------------------

    def update(self, rows: Sequence[StepRow], batch: Batch, *, seed: int, rate: float = 1.0) -> UpdateMetrics:
        """Take the optimiser steps of one batch.

        ``batch``: of the same n steps; old log-probabilities are not read under `steps_once`, and are the
        engine's where ``old_log_probs`` is "bypass". It has
        ``ref_log_probs`` where the objective has a divergence, ``values`` and ``returns`` where there is a
        critic. ``seed`` decides how mini-batches are drawn; ``rate`` multiplies the learning rates.
        `DivergenceError` where a loss or a gradient is not a number; its step is not taken.
        """
        self._check(rows, batch)
        self._set_rate(rate)
        totals = dict.fromkeys(("loss", "kl", "clip_fraction", "entropy", "grad_norm"), 0.0)
        gap, tokens, steps = Gap(), 0, 0
        for chosen in self._minibatches(len(rows), seed):
            packs = self._packs([rows[row] for row in chosen.tolist()])
            if not packs:  # no step has tokens, on every rank alike
                continue
            own = self.config.bypasses or self.steps_once(len(rows))
            sums, found = self._step(packs, batch.select(chosen), own_ratios=own)
            if steps == 0:
                gap = found
            steps += 1
            tokens += sum(len(pack.input_ids) for pack, counts in packs if counts)
            for name, value in sums.items():
                totals[name] = totals.get(name, 0.0) + value
        means = {name: value / max(steps, 1) for name, value in totals.items()}
        absent: dict[str, Any] = dict.fromkeys(("ref_kl", "value_loss", "critic_grad_norm"))
        return UpdateMetrics(
            **absent | means,
            logp_diff=gap.largest,
            logp_diff_mean=gap.mean,
            logp_diff_p999=gap.tail,
            logp_diff_wide=gap.wide,
            policy_drift=gap.drift,
            explained_variance=explained_variance(batch),
            tokens=int(self.ranks.sum({"tokens": tokens})["tokens"]),
        )

    def _check(self, rows: Sequence[StepRow], batch: Batch) -> None:
        lengths = [len(row.response_ids) for row in rows]
        if lengths != batch.lengths.tolist():
            raise UsageError("rows and batch differ in their numbers of response tokens: give the same steps")
        if self.objective.kl_coefficient > 0 and batch.ref_log_probs is None:
            raise UsageError("ref_log_probs is missing from the batch: fill it from Learner.ref_log_probs")
        weighted = self.config.importance_cap is not None and self.config.recomputes
        if weighted and batch.rollout_log_probs is None:
            raise UsageError(
                "rollout_log_probs is missing from the batch, which importance_cap needs: give those of the "
                "rollouts, and Learner.log_probs as old_log_probs"
            )
        if self.critic is not None:
            for name in ("values", "returns"):
                missing = getattr(batch, name) is None
                if missing or batch.valued != self.critic.unit:
                    raise UsageError(
                        f"{name} must hold one number per {self.critic.unit} for the critic, but "
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
            yield from np.array_split(draws.permutation(count), self._parts(count))

    def steps_once(self, count: int) -> bool:
        """Return whether a batch of ``count`` steps has ratios of exactly 1, without a pass.

        So it is where the learner recomputes old log-probabilities, and takes a single step.
        """
        recomputes = self.config.old_log_probs == "recompute"
        return recomputes and self.config.epochs * self._parts(count) == 1

    def _parts(self, count: int) -> int:
        """Return the number of mini-batches of a batch: none is empty, however few steps a filter leaves."""
        steps = self.config.minibatch_steps
        return max(1, min(count, self.config.minibatches) if steps is None else round(count / steps))

    def _step(
        self, packs: list[tuple[Pack, bool]], batch: Batch, *, own_ratios: bool
    ) -> tuple[dict[str, float], Gap]:
        """Take one optimiser step; return its metrics, and the change of log-probabilities."""
        self._optimizer.zero_grad()
        sums, gap = policy_gradient(
            self._actor, packs, batch, self.objective, self.ranks, own_ratios=own_ratios
        )
        if self.critic is not None and self._critic_optimizer is not None:
            self._critic_optimizer.zero_grad()
            with stage("critic"):
                sums["value_loss"] = value_gradient(self.critic, packs, batch, self.config, self.ranks)
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
            with stage("critic"):
                self._critic_optimizer.step()
        return sums, gap

    def _clip(self, optimizer: torch.optim.AdamW) -> float:
        """Shorten the gradient to its bound; return how long it was."""
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        bound = float("inf") if self.config.max_grad_norm is None else self.config.max_grad_norm
        return float(whole(torch.nn.utils.clip_grad_norm_(weights, bound)))

    # ---- what others take over ------------------------------------------------------------------

    def weights(self) -> NamedTensors:
        """Return the policy's tensors by their names in the model, those of an adapter beside its base's.

        Every rank has to take all of them.
        """
        return own_weights(self.model)

    def save_model(
        self,
        directory: str | Path,
        tokenizer: PreTrainedTokenizerBase,
        pictures: PictureReader | None = None,
    ) -> None:
        """Save the policy as an ordinary model directory in float32, as it is trained; the first rank writes.

        An adapter is added to its base, and saved beside it, since of the sum in half precision little is
        left.
        """
        weights, adapter = {}, dict(own_weights(self.model, MARK))
        for name, tensor in merged_weights(self.model):
            if self.ranks.is_first:
                weights[name] = tensor.to("cpu", torch.promote_types(tensor.dtype, torch.float32))
        if self.ranks.is_first:
            save_model(directory, LanguageModel(self.model, tokenizer, pictures), weights)
            if self.config.adapter is not None:
                self.config.adapter.save(Path(directory) / FOLDER, adapter, self.model.name_or_path)

    # ---- checkpoints --------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return weights and optimisers, from which any number of ranks can continue a run.

        A single rank's tensors are its own, which updates change; of several ranks only the first has them,
        whole, as copies.
        """
        parts: dict[str, Any] = {name: module.state_dict() for name, module in self._modules().items()}
        parts |= {name: optimizer.state_dict() for name, optimizer in self._optimizers().items()}
        result: dict[str, Any] = gathered(parts, self.ranks)
        return result

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from the `state_dict` of the first rank, which every rank has to be given."""
        modules, optimizers = self._modules(), self._optimizers()
        expected = {*modules, *optimizers}
        if state.keys() != expected:
            raise UsageError(
                f"the state has {', '.join(sorted(state))}, this learner {', '.join(sorted(expected))}: "
                "continue with the algorithm it was saved with"
            )
        for name, module in modules.items():
            load_weights(module, state[name])
        for name, optimizer in optimizers.items():
            load_moments(optimizer, state[name])

    def save_state(self, folder: Path) -> None:
        """Write weights and optimisers, every rank its part; all have to call.

        A reference is left out: it is the policy that the run began with.
        """
        save_shards(self._tensors(), folder)

    def load_state(self, folder: Path) -> None:
        """Continue from what any number of ranks wrote by `save_state`; all have to call."""
        modules, optimizers = self._trained(), self._optimizers()
        names = saved_names(folder)
        parts, expected = {name.partition("/")[0] for name in names}, {*modules, *optimizers}
        if not modules.keys() <= parts <= expected:
            raise UsageError(
                f"the state has {', '.join(sorted(parts))}, this learner {', '.join(sorted(expected))}: "
                "continue with the algorithm it was saved with"
            )
        begin_moments(optimizers, names)
        load_shards(self._tensors(), folder)

    def _tensors(self) -> dict[str, Tensor]:
        return unique_tensors(self._trained()) | moments(self._optimizers())

    def _trained(self) -> dict[str, torch.nn.Module]:
        return {name: part for name, part in self._modules().items() if name != "reference"}

    def _modules(self) -> dict[str, torch.nn.Module]:
        parts = {"model": self.model, "critic": self.critic, "reference": self.reference}
        return {name: part for name, part in parts.items() if part is not None}

    def _optimizers(self) -> dict[str, torch.optim.AdamW]:
        parts = {"optimizer": self._optimizer, "critic_optimizer": self._critic_optimizer}
        return {name: part for name, part in parts.items() if part is not None}
