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
    """In the policy: building prompts and sampling."""
    env: float
    """In the environments, resetting and stepping, and in the rollout's own bookkeeping."""
    credit: float
    """Old and reference log-probabilities, values and advantages."""
    update: float
    sync: float
    """Handing the weights to the engine."""
    evaluate: float
    total: float
    """Of the whole iteration; more than the sum by what is in no stage."""
    old_log_probs: float | None = None
    """Part of ``credit``, as the next three: passes of the learner over what was sampled."""
    reference: float | None = None
    grouping: float | None = None
    """Finding equal states, and building graphs of them."""
    advantage: float | None = None
    """The rest of scoring: advantages."""
    critic: float | None = None
    """Values, part of ``credit``, and the critic's update, part of ``update``."""
    actor: float | None = None
    """Part of ``update``: the policy's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """Result of the policy on fixed tasks."""

    episodes: int
    success: float
    """Share won."""
    score: float
    """Mean of the benchmark's own number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitOutcomes(Outcomes):
    """Result on the fixed tasks of one split."""

    types: Mapping[str, Outcomes] = field(default_factory=dict)
    """By the environment's own type of task, where there are several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluated(SplitOutcomes):
    """Result of an evaluation: its numbers are those of the first split."""

    splits: Mapping[str, SplitOutcomes] = field(default_factory=dict)
    """By name, the first one too, where several are played."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationMetrics:
    """One iteration. Means are over its training episodes; None where an algorithm has no such number."""

    iteration: int
    """From 1."""
    version: int
    """Of the weights after it: optimiser updates so far."""
    episodes: int
    """Played for training up to now."""
    env_steps: int
    """Taken for training up to now."""
    success: float
    score: float
    mean_return: float
    steps_per_episode: float
    valid_fraction: float
    """Share of actions that environments accepted."""
    usable_fraction: float
    """Share of the groups trained on whose returns differ."""
    step_groups: Mapping[str, int] = field(default_factory=dict)
    """Number of steps by how many steps of their task were taken in the same state: "1", "2", "3-4", "5-8",
    "9-16", "17+"."""
    tokens_in: int
    """Prompt tokens that the engine read."""
    tokens_out: int
    """Tokens sampled."""
    tokens_per_second: float
    """Sampled, over the time in the policy."""
    learning_rate: float
    loss: float
    kl: float
    """Divergence from the policy that sampled."""
    ref_kl: float | None
    clip_fraction: float
    entropy: float
    grad_norm: float
    logp_diff: float
    """Largest difference between a log-probability of the engine and the learner's of the same weights; what
    older weights have sampled is left out."""
    value_loss: float | None
    explained_variance: float | None
    staleness: float
    """Mean age of the steps trained on, in versions of the weights."""
    dropped: int
    """Groups left out since the iteration before: by dynamic sampling, or since they teach nothing."""
    pending: int
    """Groups begun but not yet trained on."""
    seconds: StageSeconds
    importance: float | None = None
    """Mean weight that stale terms have; None where nothing is weighted."""
    truncated: float | None = None
    """Share of the terms whose weight is the cap."""
    diagnostics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What stages tell of their own, by name: numbers, each with its name, such as ``k/8``."""
    logp_diff_mean: float | None = None
    """Mean of the differences whose largest is ``logp_diff``."""
    policy_drift: float | None = None
    """Mean difference of log-probabilities to those of the older weights that sampled; None without such."""
    critic_grad_norm: float | None = None
    """Before it was clipped."""
    response_length: float | None = None
    """Mean tokens of a response."""
    response_cut: float | None = None
    """Share of the responses that were cut at the limit; None where they are choices."""
    learner_tokens: int | None = None
    """Read by the policy in the update, prompts included, over all epochs."""
    mfu: float | None = None
    """Model FLOPS utilisation of the update: 6 operations a weight and token, over what the devices could
    do at their peak; None where that is not known."""
    peak_memory: int | None = None
    """Most bytes that the fullest rank's device held in the iteration; None on a CPU."""
    evaluation_before: Evaluated | None = None
    """Of the weights that the run began with; in its first iteration only."""
    evaluation: Evaluated | None = None
    """None where the iteration ends without one."""

    def to_json(self) -> dict[str, Any]:
        """Return the record as JSON, nested as it is."""
        return asdict(self)

    def scalars(self) -> dict[str, float]:
        """Return every number by a flat name, such as ``seconds/update``; what is None is left out."""
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
