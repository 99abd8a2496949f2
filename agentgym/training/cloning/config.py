"""Settings of behaviour cloning."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from agentgym.core.options import (
    Bounds,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    check_choice,
    check_fields,
)
from agentgym.prompts.settings import Prompting
from agentgym.training.config import Device
from agentgym.training.learner.config import Dtype

TEACHERS = ("oracle", "rules")
"""Agents that models learn from: a planner that sees the game, and a rule that sees what a player sees."""


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
    """Options of the environment's constructor, without the split."""
    split: str = "train"
    tasks: PositiveInt = 500
    """Number of demonstrated tasks, the split's first ones; the teacher plays each once."""
    shuffled: bool = False
    """Whether tasks are drawn from the whole split, the same for every seed, instead of its first ones."""
    also: tuple[Mapping[str, Any], ...] = ()
    """Options of further environments with this id, whose first tasks are demonstrated as well."""
    teacher: str = "oracle"
    """Name of the teacher, one of `TEACHERS`."""
    model: str = "tiny"
    """Initial model: ``tiny``, ``tiny:SIZE`` or the path of a model directory."""
    seed: NonNegativeInt = 0
    """Seed of random weights, episodes and the order of steps."""
    epochs: PositiveInt = 5
    batch: PositiveInt = 64
    """Number of steps in an update."""
    learning_rate: PositiveFloat = 1e-3
    """Peak learning rate of AdamW; it falls to 0 along half a cosine."""
    warmup: NonNegativeInt = 0
    """Updates over which the learning rate rises, at the start of the epochs and of each round."""
    beta2: Annotated[float, Bounds(0, 1, open_below=True, open_above=True)] = 0.999
    """Decay of AdamW's average of squared gradients."""
    weight_decay: NonNegativeFloat = 0.0
    max_grad_norm: PositiveFloat = 1.0
    rounds: NonNegativeInt = 0
    """Rounds of DAgger (`agentgym.training.cloning.dagger`) after the epochs, each on tasks not yet
    demonstrated."""
    round_tasks: PositiveInt = 200
    """Tasks of each environment that the model plays in a round, before an epoch over all demonstrations."""
    token_budget: NonNegativeInt = 0
    """Most tokens in one pass of the model; 0 is 1,024 on a CPU, 16,384 on a GPU. It changes speed and
    memory, not the result."""
    device: Device = "auto"
    """Device of the model: ``cpu``, or ``cuda``, one per process; ``auto`` is ``cuda`` where possible."""
    dtype: Dtype = "auto"
    """Number format of computation, as in `agentgym.training.learner.config.LearnerConfig.dtype`."""
    lora_rank: PositiveInt | None = None
    """Rank of a low-rank adapter that is trained instead of the model's own weights; None without."""
    num_envs: PositiveInt = 64
    threads: PositiveInt = 1
    """Threads of the process on a CPU; see `agentgym.training.config.TrainConfig.threads`."""
    held_out_split: str = "valid"
    held_out: NonNegativeInt = 64
    """Number of evaluation tasks, the split's first ones, or all where it has fewer; 0 for no evaluation."""
    prompting: Prompting | None = None
    """Form of prompts; None for the default of model and environment."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        check_fields(self)
        check_choice("teacher", self.teacher, TEACHERS)

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of update ``step`` of ``steps``, counted from 0."""
        rising = min(1.0, (step + 1) / (self.warmup + 1))
        return self.learning_rate * rising * (1.0 + math.cos(math.pi * step / steps)) / 2
