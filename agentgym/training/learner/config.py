"""Settings of the learner, as a record that a run is reproduced from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from agentgym.core.options import (
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_fields,
)
from agentgym.errors import UsageError
from agentgym.training.learner.logprobs import CHUNK_LOGITS
from agentgym.training.learner.packing import Packing
from agentgym.training.models.lora import Adapter

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16"]

Attention: TypeAlias = Literal["auto", "flash"]

OldLogProbs: TypeAlias = Literal["auto", "engine", "recompute", "bypass"]
"""Where the log-probabilities come from that ratios are taken to: as the engine reported them, or computed by
the learner before the update. "bypass": there are none, and each term is weighted by its truncated ratio to
the engine's, which clips nothing (`agentgym.algos.loss.importance_weights`)."""

IMPORTANCE_CAP = 2.0
"""Default cap of importance weights where the learner recomputes what an engine that rounds has sampled."""

CPU_TOKENS, GPU_TOKENS = 2048, 16_384
"""Default token budgets."""

GPU_CHUNK_LOGITS = 1 << 26
"""Default of logits computed at once on a GPU: 256 MiB in float32, several times over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerConfig:
    """Settings of a learner's updates; the loss is the algorithm's objective.

    Example:
        >>> LearnerConfig(learning_rate=1e-3, minibatches=4).max_grad_norm
        1.0
    """

    learning_rate: PositiveFloat = 1e-6
    critic_learning_rate: PositiveFloat = 1e-5
    betas: tuple[float, float] = (0.9, 0.999)
    """AdamW's."""
    epsilon: PositiveFloat = 1e-8
    """AdamW's."""
    fused: bool | None = None
    """Whether AdamW is its fused form: exact square roots on every CPU, where the others take MKL's, which
    differ by vendor; but last bits that depend on sharding. None: but for whole weights on a
    CPU, since sharded ones take ten times as long one by one."""
    weight_decay: NonNegativeFloat = 0.0
    """AdamW's."""
    max_grad_norm: PositiveFloat | None = 1.0
    """Longer gradients are shortened to this; None for no bound."""
    epochs: PositiveInt = 1
    """How often an update goes through its batch."""
    minibatches: PositiveInt = 1
    """Parts of equally many steps that an epoch cuts the batch into: optimiser steps per epoch."""
    minibatch_steps: PositiveInt | None = None
    """Steps of a mini-batch, about, where their number is not to be fixed; None for ``minibatches`` parts."""
    token_budget: NonNegativeInt = 0
    """Most tokens in one pass of the model; 0 chooses what fits (2,048 on a CPU). Changes speed and memory,
    never the update."""
    packing: Packing = "tree"
    """Whether what rows begin with is read once. Changes speed, never the update."""
    attention: Attention = "auto"
    """"flash" is PyTorch's FlashAttention, of bfloat16 on a GPU and of ``packing`` "rows" alone: it knows no
    tree. "auto" is FlexAttention on a GPU, SDPA block by block on a CPU."""
    chunk_logits: NonNegativeInt = 0
    """Most logits that are computed at once; 0 chooses what suits the device."""
    temperature: PositiveFloat = 1.0
    """That responses were sampled at; above 0, since greedy responses are no sample to learn from."""
    entropy_coefficient: NonNegativeFloat = 0.0
    """Weight of the entropy that is added to the objective."""
    value_clip: PositiveFloat | None = None
    """How far values may move from those at sampling time; None for no bound."""
    gradient_checkpointing: bool | None = None
    """Whether layers are computed again for the gradient, to save memory; None chooses (not on a CPU)."""
    dtype: Dtype = "auto"
    """That models compute in; "auto" is float32 on a CPU and bfloat16 on a GPU. Trained weights and AdamW's
    moments are float32 all the same."""
    tf32: bool = False
    """Whether a GPU computes products of float32 as TensorFloat-32, with 10 bits after the point."""
    old_log_probs: OldLogProbs = "auto"
    """Where ratios' denominators come from. "auto" takes the engine's where it samples from the learner's own
    numbers, `transformers` in float32, and otherwise recomputes them: rounding alone would be clipped.
    "bypass" saves that pass, as verl's ``rollout_correction.bypass_mode`` with ``loss_type=reinforce``;
    verl's default there, ``ppo_clip``, is "engine"."""
    offload: bool = False
    """Whether trained weights, gradients and moments wait in main memory, and updates happen there."""
    lora_rank: PositiveInt | None = None
    """Of the low-rank adapter that is trained instead of the policy's own weights; None for none."""
    lora_alpha: PositiveFloat = 32.0
    """The adapter is scaled by ``lora_alpha / lora_rank``."""
    lora_targets: tuple[str, ...] | None = None
    """Names of the layers that are adapted, such as "q_proj"; None for all linear layers but the head."""
    importance_cap: PositiveFloat | None = None
    """Terms are weighted by what the policy at the update's start makes of their tokens, over what the one
    that sampled them did, up to this; None for no weights. With ``old_log_probs`` "auto", None chooses: 2
    where they are recomputed, since what sampled was then not quite the policy. With "bypass" it is 2."""

    def __post_init__(self) -> None:
        """Refuse settings that nothing can be trained with."""
        check_fields(self)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UsageError(f"betas must be at least 0 and below 1, got {self.betas}")
        if self.attention == "flash" and (self.packing != "rows" or self.dtype == "float32"):
            raise UsageError("attention=flash needs packing=rows and bfloat16: set them, or attention=auto")

    @property
    def adapter(self) -> Adapter | None:
        """What is trained instead of the policy's own weights, if anything."""
        return None if self.lora_rank is None else Adapter(self.lora_rank, self.lora_alpha, self.lora_targets)

    @property
    def recomputes(self) -> bool:
        """Whether the learner computes old log-probabilities itself."""
        return self.old_log_probs == "recompute" or (self.importance_cap is not None and not self.bypasses)

    @property
    def bypasses(self) -> bool:
        """Whether there are no old log-probabilities, and ratios to the engine's weight the terms."""
        return self.old_log_probs == "bypass"

    def settled(
        self, device: str = "cpu", *, exact_engine: bool = True, weighted: bool = False
    ) -> LearnerConfig:
        """Return the settings with nothing left to choose.

        Token budget and checkpointing are those of a model of unknown size. ``exact_engine``: whether
        responses are sampled by `transformers`, in the learner's type; ``weighted``: whether the gap to an
        engine that rounds is corrected by importance weights.
        """
        gpu = device != "cpu"
        dtype = ("bfloat16" if gpu else "float32") if self.dtype == "auto" else self.dtype
        old, cap = self.old_log_probs, self.importance_cap
        if old == "auto":
            old = "engine" if exact_engine and dtype == "float32" else "recompute"
            weighted = weighted and old == "recompute"
        if cap is None and (old == "bypass" or (weighted and self.old_log_probs == "auto")):
            cap = IMPORTANCE_CAP
        checkpointing = gpu if self.gradient_checkpointing is None else self.gradient_checkpointing
        return replace(
            self,
            dtype=dtype,
            old_log_probs=old,
            importance_cap=cap,
            token_budget=self.token_budget or (GPU_TOKENS if gpu else CPU_TOKENS),
            chunk_logits=self.chunk_logits or (GPU_CHUNK_LOGITS if gpu else CHUNK_LOGITS),
            gradient_checkpointing=checkpointing,
        )


RewardPooling: TypeAlias = Literal["sum", "mean"]
"""How the rewards of an episode's steps are pooled: `agentgym.algos.process.Pooling`."""

SuccessOf: TypeAlias = Literal["return", "won"]
"""What a reward model is trained to predict: the episode's return, or whether it was won."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModelConfig:
    """Settings of a process reward model that is trained beside the policy (iStar, PRIME).

    What is not here, such as token budget, type and bound of gradients, is as for the policy.

    Example:
        >>> RewardModelConfig(model="tiny:0.1m").beta
        0.05
    """

    model: str = ""
    """What it begins as: "" for the policy's own base; or as ``model`` of a run, of any size with the
    policy's tokenizer."""
    learning_rate: PositiveFloat = 1e-6
    beta: PositiveFloat = 0.05
    """A step's reward is this times the sum of its tokens' log-ratios."""
    pooling: RewardPooling = "sum"
    """How an episode's steps are pooled for preferences: iStar's equation sums, its public code averages."""
    outcome: SuccessOf = "return"
    """What says whether an episode succeeded."""
    threshold: FiniteFloat = 0.0
    """A return above it is a success: 0; 6 for SOTOPIA's goal score (iStar)."""
    epochs: PositiveInt = 1
    """How often an update goes through its batch."""
    minibatches: PositiveInt = 1
    """Parts of equally many groups that an epoch cuts the batch into: pairs lie within groups."""
    lora_rank: PositiveInt | None = None
    """Of a low-rank adapter that is trained instead of its own weights; None for none."""
    patience: PositiveInt = 10
    """Iterations in a row without a pair to prefer after which a warning is given."""

    def __post_init__(self) -> None:
        """Refuse settings that nothing can be trained with."""
        check_fields(self, "reward_model: ")
