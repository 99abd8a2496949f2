"""Metrics of an iteration, as a record: a line of ``metrics.jsonl``, and the source of curves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class StageSeconds:
    """Wall-clock time of an iteration, by stage."""

    model: float
    """Seconds in the policy, for building prompts and sampling."""
    env: float
    """Seconds in the environments, for resets and steps, and in the rollout's own bookkeeping."""
    credit: float
    """Seconds for old and reference log-probabilities, values and advantages."""
    update: float
    sync: float
    """Seconds for copying the weights to the engine."""
    evaluate: float
    total: float
    """Seconds of the whole iteration, including work that belongs to no stage."""
    old_log_probs: float | None = None
    """Part of ``credit``, as are the next three fields: passes of the learner over the sampled tokens."""
    reference: float | None = None
    grouping: float | None = None
    """Seconds for finding equal states and building graphs of them."""
    advantage: float | None = None
    """Seconds of the rest of scoring, the advantages."""
    critic: float | None = None
    """Seconds for the critic: values, part of ``credit``, and its update, part of ``update``."""
    actor: float | None = None
    """Seconds for the policy's update, part of ``update``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Result of the policy on fixed tasks."""

    episodes: int
    success: float
    """Share of episodes won."""
    score: float
    """Mean score, in the benchmark's own unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOutcomes(Outcomes):
    """Result on the fixed tasks of one split."""

    types: Mapping[str, Outcomes] = field(default_factory=dict)
    """Results by the environment's own type of task; empty for a single type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated(SplitOutcomes):
    """Result of an evaluation: its numbers are those of the first split."""

    splits: Mapping[str, SplitOutcomes] = field(default_factory=dict)
    """Results by split, the first one included; empty for a single split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationMetrics:
    """One iteration. Means are over its training episodes; None where an algorithm has no such number."""

    iteration: int
    """Number of the iteration, from 1."""
    version: int
    """Version of the weights after the iteration: optimiser updates so far."""
    episodes: int
    """Training episodes so far."""
    env_steps: int
    """Environment steps of training so far."""
    success: float
    score: float
    mean_return: float
    steps_per_episode: float
    valid_fraction: float
    """Share of actions that environments accepted."""
    usable_fraction: float
    """Share of the trained groups whose returns differ."""
    step_groups: Mapping[str, int] = field(default_factory=dict)
    """Number of steps by how many steps of their task were taken in the same state: "1", "2", "3-4", "5-8",
    "9-16", "17+"."""
    tokens_in: int
    """Prompt tokens processed by the engine."""
    tokens_out: int
    """Sampled tokens."""
    tokens_per_second: float
    """Sampled tokens per second in the policy."""
    learning_rate: float
    loss: float
    kl: float
    """Divergence from the sampling policy."""
    ref_kl: float | None
    clip_fraction: float
    entropy: float
    grad_norm: float
    logp_diff: float
    """Largest difference between the engine's and the learner's log-probability of a token under the same
    weights; tokens of older weights are left out."""
    value_loss: float | None
    explained_variance: float | None
    staleness: float
    """Mean age of the steps trained on, in versions of the weights."""
    dropped: int
    """Groups left out since the previous iteration, by dynamic sampling or for equal returns."""
    pending: int
    """Groups begun but not yet trained on."""
    seconds: StageSeconds
    importance: float | None = None
    """Mean importance weight of stale terms; None without weighting."""
    truncated: float | None = None
    """Share of the terms whose weight is clipped at the cap."""
    diagnostics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Numbers that a stage reports, by the stage's name and their own, such as ``k/8``."""
    logp_diff_mean: float | None = None
    """Mean of the differences whose maximum is ``logp_diff``."""
    logp_diff_p999: float | None = None
    """99.9th percentile of these differences, rounded up to a tenth of a decade."""
    logp_diff_wide: float | None = None
    """Share of these differences above 0.5 nats."""
    policy_drift: float | None = None
    """Mean difference in log-probability from the older weights that sampled; None without such."""
    critic_grad_norm: float | None = None
    """Norm of the critic's gradient before clipping."""
    response_length: float | None = None
    """Mean tokens of a response."""
    response_cut: float | None = None
    """Share of the responses cut at the length limit; None where they are choices."""
    learner_tokens: int | None = None
    """Tokens that the policy processed in the update, prompts included, over all epochs."""
    mfu: float | None = None
    """Model FLOPS utilisation of the update: 6 operations per weight and token, divided by the devices' peak;
    None where the peak is not known."""
    peak_memory: int | None = None
    """Peak memory in bytes of the fullest rank's device in the iteration; None on a CPU."""
    evaluation_before: Evaluated | None = None
    """Evaluation of the initial weights; in the first iteration only."""
    evaluation: Evaluated | None = None
    """Evaluation at the end of the iteration; None without one."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON, nested as it is."""
        return asdict(self)

    def scalars(self) -> dict[str, float]:
        """Return every number by a flat name, such as ``seconds/update``, without those that are None."""
        return dict(_scalars("", asdict(self)))

    def number(self, name: str) -> float:
        """Return one of the `scalars` by its flat name; NaN where there is no such number."""
        value: Any = self
        for part in name.split("/"):
            value = value.get(part) if isinstance(value, Mapping) else getattr(value, part, None)
        return math.nan if value is None else float(value)


def _scalars(prefix: str, value: Any) -> list[tuple[str, float]]:
    if isinstance(value, Mapping):
        return [
            entry
            for key, inner in value.items()
            for entry in _scalars(f"{prefix}/{key}" if prefix else str(key), inner)
        ]
    return [] if value is None else [(prefix, float(value))]
