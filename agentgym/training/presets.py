"""Settings that go together, by dotted name: what a recipe of a paper is, and what suits tiny models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agentgym.registration import suite_spec
from agentgym.training.config import TrainConfig, override

Settings: TypeAlias = Mapping[str, Any]
"""By the dotted names of `agentgym.training.config.override`."""


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
    tiny: bool = False
    """Whether the suite's own settings for tiny models are added, `agentgym.suites.SuiteSpec.tiny`."""

    def config(self, algorithm: str, env_id: str, **changes: Any) -> TrainConfig:
        """Return the configuration of a run.

        Args:
            algorithm: its name.
            env_id: what is played.
            **changes: fields of the configuration, such as ``model`` and ``seed``.

        Raises:
            UsageError: as `TrainConfig` and `agentgym.training.config.override`.
        """
        plain = TrainConfig(algorithm=algorithm, env_id=env_id, **changes)
        own = {**self.by_env.get(env_id, {}), **(suite_spec(env_id).tiny if self.tiny else {})}
        return override(plain, {**self.settings, **own})


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
    tiny=True,
)
"""For `agentgym.training.models.tiny` models on a laptop: fast steps, no reference, the smallest boards."""
