"""Settings that go together, by dotted name: what a recipe of a paper is, and what suits tiny models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agentgym.training.run import TrainConfig, override

Settings: TypeAlias = Mapping[str, Any]
"""By the dotted names of `agentgym.training.run.override`."""


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings for any environment, and those that an environment's own go before.

    Example:
        >>> preset = Preset({"iterations": 150}, {"agentgym/EZPoints-v0": {"iterations": 50}})
        >>> preset.config("grpo", "agentgym/EZPoints-v0").iterations
        50
    """

    settings: Settings = field(default_factory=dict)
    by_env: Mapping[str, Settings] = field(default_factory=dict)

    def config(self, algorithm: str, env_id: str, **changes: Any) -> TrainConfig:
        """Return the configuration of a run.

        Args:
            algorithm: its name.
            env_id: what is played.
            **changes: fields of the configuration, such as ``model`` and ``seed``.

        Raises:
            UsageError: as `TrainConfig` and `agentgym.training.run.override`.
        """
        plain = TrainConfig(algorithm=algorithm, env_id=env_id, **changes)
        return override(plain, {**self.settings, **self.by_env.get(env_id, {})})


PLAIN = Preset()
"""Nothing but defaults."""

TINY = Preset(
    {
        "iterations": 100,
        "learner.learning_rate": 3e-3,
        "learner.critic_learning_rate": 3e-3,
        "learner.minibatches": 4,
        "objective.kl_coefficient": 0.0,
        "decay": "linear",
        "evaluation.every": 10,
    },
    {
        "agentgym/Sokoban-v0": {"env_options.dim_room": [6, 6], "env_options.num_boxes": 1},
        "agentgym/VisualSokoban-v0": {"env_options.dim_room": [6, 6], "env_options.num_boxes": 1},
        "agentgym/ALFWorld-v0": {"env_options.max_steps": 30, "evaluation.split": "valid_seen"},
    },
)
"""For the models of `agentgym.training.tiny` on a laptop: fast steps, no reference, the smallest boards."""
