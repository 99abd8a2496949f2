"""Settings of the learner, as a record that a run is reproduced from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agentgym.core.options import (
    FiniteFloat,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_fields,
)
from agentgym.errors import UsageError

if TYPE_CHECKING:  # torch, for which settings do not wait
    from agentgym.inference.models.lora import Adapter

Dtype: TypeAlias = Literal["auto", "float32", "bfloat16"]

Attention: TypeAlias = Literal["auto", "flash"]

Packing: TypeAlias = Literal["tree", "rows"]
"""Form of a pack: whether its rows share the tokens that they begin with."""

OldLogProbs: TypeAlias = Literal["auto", "engine", "recompute", "bypass"]
"""Source of the log-probabilities in the ratios' denominators: the engine's own, or the learner's before the
update. "bypass": no ratio, and each term has its truncated ratio to the engine's as weight, which clips
nothing (`agentgym.algos.loss.importance_weights`)."""

IMPORTANCE_CAP = 2.0
"""Default cap of importance weights where the learner recomputes the numbers of an engine that rounds."""

CPU_TOKENS, GPU_TOKENS = 2048, 16_384
"""Default token budgets."""

CHUNK_LOGITS = 1 << 22
"""Most logits computed at once: 16 MiB in float32, several times over while differentiating. A larger number
pays on accelerators only."""

GPU_CHUNK_LOGITS = 1 << 26
"""Default number of logits computed at once on a GPU: 256 MiB in float32, several times over."""


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
    """Decay rates of AdamW's averages."""
    epsilon: PositiveFloat = 1e-8
    """Constant in AdamW's denominator."""
    fused: bool | None = None
    """Whether AdamW is its fused form: exact square roots on every CPU, where the others take MKL's, which
    differ by vendor; but last bits that depend on sharding. None: but for whole weights on a
    CPU, since sharded ones take ten times as long one by one."""
    weight_decay: NonNegativeFloat = 0.0
    """Weight decay of AdamW."""
    max_grad_norm: PositiveFloat | None = 1.0
    """Largest norm of a gradient; longer ones are scaled to it. None for no bound."""
    epochs: PositiveInt = 1
    """Passes of an update over its batch."""
    minibatches: PositiveInt = 1
    """Mini-batches of an epoch, each one optimiser step, with equal numbers of steps."""
    minibatch_steps: PositiveInt | None = None
    """Approximate number of steps in a mini-batch; None for ``minibatches`` of them, whatever their size."""
    token_budget: NonNegativeInt = 0
    """Most tokens in one pass of the model; 0 chooses by memory (2,048 on a CPU). It changes speed, never the
    update."""
    packing: Packing = "tree"
    """Form of packs: "tree" reads a shared beginning of rows once. It changes speed, never the update."""
    attention: Attention = "auto"
    """Attention of the learner: "flash" is PyTorch's FlashAttention, for bfloat16 on a GPU and ``packing``
    "rows" only, since it has no trees; "auto" is FlexAttention on a GPU, SDPA block by block on a CPU."""
    compile: bool = False
    """Whether `torch.compile` fuses what a layer computes around its attention, and the head's softmax. Needs
    a C++ compiler on a CPU, a C compiler on a GPU. Changes results by rounding; not measured on a GPU."""
    chunk_logits: NonNegativeInt = 0
    """Most logits computed at once; 0 chooses by device."""
    temperature: PositiveFloat = 1.0
    """Temperature of sampling; above 0, since a greedy response is no sample of the policy."""
    entropy_coefficient: NonNegativeFloat = 0.0
    """Weight of the entropy bonus in the objective."""
    value_clip: PositiveFloat | None = None
    """Largest change of a value from its sampling-time value; None for no bound."""
    gradient_checkpointing: bool | None = None
    """Whether layers are recomputed for the gradient, to save memory; None chooses (not on a CPU)."""
    dtype: Dtype = "auto"
    """Number format of the models' computation; "auto" is float32 on a CPU and bfloat16 on a GPU. Trained
    weights and AdamW's moments are always float32."""
    tf32: bool = False
    """Whether a GPU multiplies float32 as TensorFloat-32, with 10 bits after the point."""
    old_log_probs: OldLogProbs = "auto"
    """Source of the ratios' denominators. "auto" takes the engine's where it samples from the learner's own
    numbers, `transformers` in float32, and otherwise recomputes them, since rounding alone would be clipped.
    "bypass" saves that pass, as verl's ``rollout_correction.bypass_mode`` with ``loss_type=reinforce``;
    verl's default there, ``ppo_clip``, is "engine"."""
    offload: bool = False
    """Whether trained weights, gradients and moments stay in main memory, where updates happen."""
    lora_rank: PositiveInt | None = None
    """Rank of a low-rank adapter that is trained instead of the policy's own weights; None without."""
    lora_alpha: PositiveFloat = 32.0
    """Numerator of the adapter's scale, ``lora_alpha / lora_rank``."""
    lora_targets: tuple[str, ...] | None = None
    """Names of the adapted layers, such as "q_proj"; None for all linear layers but the head."""
    importance_cap: PositiveFloat | None = None
    """Cap of importance weights: the probability of a term's tokens under the policy at the update's start,
    divided by that under the sampling policy. None for no weights; with ``old_log_probs`` "auto", None is 2
    where they are recomputed, since the sampling policy then differs slightly. With "bypass" it is 2."""

    def __post_init__(self) -> None:
        """Refuse settings that nothing can be trained with."""
        check_fields(self)
        if not all(0 <= beta < 1 for beta in self.betas):
            raise UsageError(f"betas must be at least 0 and below 1, got {self.betas}")
        if self.attention == "flash" and (self.packing != "rows" or self.dtype == "float32"):
            raise UsageError("attention=flash needs packing=rows and bfloat16: set them, or attention=auto")

    @property
    def adapter(self) -> Adapter | None:
        """Adapter that is trained instead of the policy's own weights; None without."""
        from agentgym.inference.models.lora import Adapter

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
        self,
        device: str = "cpu",
        *,
        exact_engine: bool = True,
        weighted: bool = False,
        temperature: float | None = None,
    ) -> LearnerConfig:
        """Return the settings with nothing left to choose.

        Token budget and checkpointing are those of a model of unknown size. ``exact_engine``: whether
        responses are sampled by `transformers`, in the learner's type; ``weighted``: whether the gap to an
        engine that rounds is corrected by importance weights; ``temperature``: of sampling, where it differs.
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
        chosen: dict[str, Any] = {
            "dtype": dtype,
            "old_log_probs": old,
            "importance_cap": cap,
            "token_budget": self.token_budget or (GPU_TOKENS if gpu else CPU_TOKENS),
            "chunk_logits": self.chunk_logits or (GPU_CHUNK_LOGITS if gpu else CHUNK_LOGITS),
            "gradient_checkpointing": checkpointing,
            "temperature": self.temperature if temperature is None else temperature,
        }
        settled = all(getattr(self, name) == value for name, value in chosen.items())
        return self if settled else replace(self, **chosen)


RewardPooling: TypeAlias = Literal["sum", "mean"]
"""Pooling of the rewards of an episode's steps: `agentgym.algos.process.Pooling`."""

SuccessOf: TypeAlias = Literal["return", "won"]
"""Target of a reward model: the episode's return, or whether it was won."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewardModelConfig:
    """Settings of a process reward model that is trained beside the policy (iStar, PRIME).

    What is not here, such as token budget, type and bound of gradients, is as for the policy.

    Example:
        >>> RewardModelConfig(model="tiny:0.1m").beta
        0.05
    """

    model: str = ""
    """Initial model: "" for the policy's own base; or as ``model`` of a run, of any size with the policy's
    tokenizer."""
    learning_rate: PositiveFloat = 1e-6
    beta: PositiveFloat = 0.05
    """Factor of a step's reward, beta times the sum of its tokens' log-ratios."""
    pooling: RewardPooling = "sum"
    """Pooling of an episode's steps for preferences: iStar's equation sums, its public code averages."""
    outcome: SuccessOf = "return"
    """Outcome that decides whether an episode succeeded."""
    threshold: FiniteFloat = 0.0
    """Return above which an episode is a success: 0; 6 for SOTOPIA's goal score (iStar)."""
    epochs: PositiveInt = 1
    """Passes of an update over its batch."""
    minibatches: PositiveInt = 1
    """Mini-batches of an epoch, with equal numbers of groups, since pairs lie within groups."""
    lora_rank: PositiveInt | None = None
    """Rank of the low-rank adapter that is trained instead of its own weights; None for no adapter."""
    patience: PositiveInt = 10
    """Iterations in a row without a preference pair after which a warning is given."""

    def __post_init__(self) -> None:
        """Refuse settings that nothing can be trained with."""
        check_fields(self, "reward_model: ")
