"""Record of an algorithm: its advantage, objective and stages of an iteration. Imports no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from agentgym.algos.objective import Objective
from agentgym.algos.options import advantage_options, record_options
from agentgym.algos.tokens import Unit
from agentgym.core.arrays import Floats
from agentgym.core.options import Option

CreditLevel: TypeAlias = Literal["episode", "step", "token"]
"""Unit that has an advantage of its own; its tokens share it."""

Baseline: TypeAlias = Literal["group", "batch"]
"""Comparison of an outcome: with the group's other episodes, or with the whole batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One algorithm, as `agentgym.algos.table.ALGORITHMS` and entry points name it.

    Example:
        >>> from agentgym.algos.table import ALGORITHMS
        >>> ALGORITHMS["gigpo"].credit, ALGORITHMS["gigpo"].defaults["gamma"]
        ('step', 0.95)
    """

    title: str
    paper: str
    advantage: Callable[..., Floats]
    """Advantages, (n,) of steps or (T,) of tokens, from an `agentgym.algos.batch.StepBatch` and options."""
    objective: Objective
    """Loss of the policy."""
    credit: CreditLevel
    unit: Unit = "step"
    """Whether advantages are (n,) of steps or (T,) of tokens."""
    baseline: Baseline = "group"
    """Comparison of outcomes: where they do not differ, there is nothing to learn."""
    stages: str | None = "agentgym.training.stages.outcome:OUTCOME"
    """``module:attribute`` of an `agentgym.training.stages.Stages`: how episodes are collected and scored,
    and the loss. None where the trainer lacks a stage that the algorithm needs."""
    stage_options: Any = None
    """Options that the stages read and the advantage does not: a frozen dataclass with its defaults. None for
    none."""
    critic: Unit | None = None
    """Unit whose values a critic learns beside the policy; None for no critic."""
    reward_model: bool = False
    """Whether a process reward model is trained beside the policy."""
    states: bool = False
    """Whether steps are compared by the state they were taken in."""
    snapshot: bool = False
    """Whether rollouts return to earlier states."""
    binary: bool = False
    """Whether outcomes have to be 0 or 1."""
    scored_by_reference: bool = False
    """Whether advantages need log-probabilities under a frozen reference."""
    follows: Mapping[str, str] = field(default_factory=dict)
    """Options that are what another setting of a run is, unless they are stated: option -> dotted name of the
    setting."""
    equation: str = ""
    """Equation of the advantage in the paper."""
    page: str = ""
    """Name of its page under ``docs/algorithms``; "" for none."""

    @property
    def reference(self) -> bool:
        """Whether log-probabilities under a frozen reference are needed."""
        return self.objective.kl_coefficient > 0 or self.scored_by_reference

    @property
    def trainable(self) -> bool:
        """Whether the trainer has everything that the algorithm needs."""
        return self.stages is not None

    @property
    def options(self) -> dict[str, Option]:
        """Options of advantage and stages: ``algorithm_options`` of a training run."""
        return advantage_options(self.advantage) | record_options(self.stage_options)

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Defaults of `options`."""
        return MappingProxyType({name: option.default for name, option in self.options.items()})
