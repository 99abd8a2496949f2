"""Settings of a run's further environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agentgym.algos.table import trainable
from agentgym.core.options import PositiveInt, check_fields, check_options
from agentgym.errors import UsageError

_WHOLE_EPISODES = "agentgym.training.stages.outcome:OUTCOME"
"""Stages of algorithms that need only whole episodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedEnvironment:
    """A further environment of a run, whose groups are part of every batch."""

    env_id: str
    tasks: PositiveInt
    """Groups in an iteration, beside the ``rollout.tasks`` of the run's own environment."""
    algorithm: str = ""
    """Algorithm of its advantages; empty for the run's, with the run's options."""
    algorithm_options: Mapping[str, Any] = field(default_factory=dict)
    """Options of the algorithm named here."""
    env_options: Mapping[str, Any] = field(default_factory=dict)
    split: str = "train"
    evaluation_split: str = "valid"
    """Split evaluated beside the run's own; empty for none."""
    wording: str = ""
    """Wording of its prompts; empty for the suite's own."""

    def __post_init__(self) -> None:
        """Check names and numbers."""
        check_fields(self)
        if self.algorithm_options and not self.algorithm:
            raise UsageError(f"mix: algorithm_options of {self.env_id} are of no algorithm: name it, too")
        if "split" in self.env_options:
            raise UsageError(f"mix: env_options of {self.env_id} have a split: set split instead")


def short_name(env_id: str) -> str:
    """Return an environment's name in logs, which has no slash."""
    return env_id.rpartition("/")[2]


def check_mix(mix: Sequence[MixedEnvironment], env_id: str, algorithm: str) -> None:
    """Refuse what cannot be joined in one batch; the latter two are the run's own."""
    names = [short_name(each) for each in (env_id, *(other.env_id for other in mix))]
    if len(set(names)) < len(names):
        raise UsageError(f"mix: every environment once, by a name of its own, got {', '.join(names)}")
    for name in [algorithm, *(each.algorithm for each in mix if each.algorithm)]:
        spec = trainable(name)
        if spec.stages != _WHOLE_EPISODES or spec.unit != "step":
            raise UsageError(
                f"mix: {name} needs more than the outcomes of whole episodes, such as a critic, a reward "
                "model or earlier states: choose algorithms such as grpo, gigpo or rloo for all environments"
            )
    for each in mix:
        options = trainable(each.algorithm).options if each.algorithm else {}
        check_options(each.algorithm_options, options, f"mix: algorithm_options of {each.algorithm}: ")
        if each.algorithm_options.get("match") == "embedding":
            raise UsageError("mix: states are matched by hash or text: leave out algorithm_options.match")
