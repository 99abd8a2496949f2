"""Objective of the policy: its options, as a record that needs no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from agentgym.core.options import Bounds, NonNegativeFloat, check_fields

Ratio: TypeAlias = Literal["token", "step_product", "step_geomean", "sequence", "likelihood"]
"""Unit of a probability ratio: a token; a step, as the product of its tokens' ratios (the ratio of the whole
action) or as their geometric mean (StepPO); a response's geometric mean on each of its tokens (GSPO); or
none, where terms are log-likelihoods of tokens (behaviour cloning)."""

Aggregation: TypeAlias = Literal[
    "token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "step-mean", "trajectory-mean"
]
"""Average of the terms. Ratios of tokens: over all tokens; or each response's mean, or its sum, then over
responses that have tokens. Ratios of steps: over all steps; or each trajectory's mean, then over
trajectories."""

KL: TypeAlias = Literal["k1", "k2", "k3"]
"""Estimators of the divergence from a reference: ``-d``, ``d^2 / 2``, ``exp(d) - d - 1``."""

STEP_RATIOS = ("step_product", "step_geomean")
STEP_AGGREGATIONS = ("step-mean", "trajectory-mean")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """A clipped surrogate and its divergence penalty.

    Example:
        >>> Objective(clip_high=0.28).clip_low
        0.2
    """

    ratio: Ratio = "token"
    aggregation: Aggregation = "token-mean"
    clip_low: NonNegativeFloat = 0.2
    """The ratio is clipped at 1 - clip_low."""
    clip_high: NonNegativeFloat = 0.2
    """The ratio is clipped at 1 + clip_high."""
    dual_clip: Annotated[float | None, Bounds(1, open_below=True)] = None
    """Factor of the loss's bound ``-A dual_clip`` where the advantage A is negative; None for no bound."""
    loss: str = ""
    """Function of one's own, ``module:function`` (`agentgym.algos.own_loss`); "" for clipping as below."""
    loss_sha256: str = ""
    """SHA-256 of that function's source, which a run records and compares when it is resumed."""
    kl: KL = "k3"
    kl_coefficient: NonNegativeFloat = 0.0
    """Weight of the divergence from the reference; 0 for no reference."""

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ValueError: names the option and its choices.
        """
        check_fields(self)
        if (self.ratio in STEP_RATIOS) != (self.aggregation in STEP_AGGREGATIONS):
            unit = "step" if self.ratio in STEP_RATIOS else "token"
            wanted = "step-mean or trajectory-mean" if unit == "step" else "token-mean or seq-mean-*"
            raise ValueError(
                f'ratio="{self.ratio}" has one term per {unit}: set aggregation to {wanted}, '
                f'not "{self.aggregation}"'
            )
