"""The stages that most algorithms take: groups of whole episodes, scored by outcomes or with a critic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np

from agentgym.algos import ppo
from agentgym.algos.batch import StepBatch
from agentgym.algos.objective import STEP_RATIOS
from agentgym.algos.options import bind_options
from agentgym.algos.table import trainable
from agentgym.algos.tokens import Batch, Unit, token_counts
from agentgym.core.arrays import Floats
from agentgym.errors import UsageError
from agentgym.io.optional import load_reference
from agentgym.training.collect.curriculum import Curriculum
from agentgym.training.collect.pool import RolloutPool
from agentgym.training.collect.pooled import PooledCollector
from agentgym.training.collect.task_order import TaskOrder
from agentgym.training.learner.update import Learner, UpdateMetrics
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages.protocols import (
    Collector,
    Minimiser,
    RolloutBatch,
    Scorer,
    Scores,
    Stateless,
)


@dataclass(frozen=True, slots=True)
class OutcomeScorer(Stateless):
    """Advantages that follow from the episodes alone."""

    advantage: Callable[..., Floats]
    unit: Unit

    @classmethod
    def open(cls, setup: TrainingSetup) -> Self:
        """Take the algorithm's advantage, with the run's options."""
        return cls(setup.config.advantage, setup.config.spec.unit)

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Return the algorithm's advantage; `UsageError` where it has another shape."""
        steps = rollouts.steps
        found = np.asarray(self.advantage(steps))
        wanted = len(steps) if self.unit == "step" else int(token_counts(steps).sum())
        if found.shape != (wanted,):
            raise UsageError(
                f"the algorithm's advantage has shape {found.shape}, not ({wanted},): return one number for "
                f"each {self.unit}"
            )
        return Scores(found, self.unit)


@dataclass(frozen=True, slots=True)
class CriticScorer(Stateless):
    """Advantages by GAE over a critic's values, which then regresses to ``A + V``; base of both units.

    The critic values a step at its last prompt token. An episode that was truncated reports no admissible
    actions of its last state, so V is bootstrapped from the last prompted state.
    """

    advantage: Callable[..., Floats]
    whiten: bool
    """Whether the policy's advantages are whitened; the critic's targets never are."""
    learner: Learner

    @classmethod
    def open(cls, setup: TrainingSetup) -> Self:
        """Take the algorithm's advantage, with the run's options, and the learner's critic."""
        config = setup.config
        whiten = {**config.spec.defaults, **config.algorithm_options}["whiten"]
        return cls(config.advantage, bool(whiten), setup.learner)


@dataclass(frozen=True, slots=True)
class StepCriticScorer(CriticScorer):
    """Advantages of steps, from a critic that values steps (StepPO)."""

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Return advantages, and ``A + V`` as the critic's targets."""
        values = self.learner.values(rollouts.rows, "step")
        steps = rollouts.steps.with_columns(values=values, next_values=values)
        raw = self.advantage(steps, whiten=False)
        shown = self.advantage(steps, whiten=True) if self.whiten else raw
        return Scores(shown, "step", values, raw + values)


def _with_next_values(learner: Learner, rollouts: RolloutBatch) -> tuple[StepBatch, Floats]:
    """Return the steps, with values of the states after them where episodes were cut, and tokens' values."""
    values, steps = learner.values(rollouts.rows, "token"), rollouts.steps
    if steps.truncated.any():
        steps = steps.with_columns(next_values=learner.values(rollouts.rows, "step"))
    return steps, values


@dataclass(frozen=True, slots=True)
class TokenCriticScorer(CriticScorer):
    """Advantages of response tokens, from a critic that values them (PPO)."""

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Return advantages, and ``A + V`` as the critic's targets."""
        steps, values = _with_next_values(self.learner, rollouts)
        raw = self.advantage(steps, values=values, whiten=False)
        shown = self.advantage(steps, values=values, whiten=True) if self.whiten else raw
        return Scores(shown, "token", values, raw + values)


@dataclass(frozen=True, slots=True)
class SharedTokenScorer(Stateless):
    """Advantages of steps that are the means of their tokens' (StepPO's ablation), by a critic of tokens."""

    advantage: Callable[..., Floats]
    of_tokens: Callable[..., Floats]
    """Advantage of tokens, `agentgym.algos.ppo.advantage` with the run's options, not whitened."""
    learner: Learner

    @classmethod
    def open(cls, setup: TrainingSetup) -> Self:
        """Take the algorithm's advantage, with the run's options, and the learner's critic."""
        config = setup.config
        options = {**config.spec.defaults, **config.algorithm_options, "whiten": False}
        return cls(config.advantage, bind_options(ppo.advantage, options), setup.learner)

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Return advantages of steps, and ``A + V`` of tokens as the critic's targets."""
        steps, values = _with_next_values(self.learner, rollouts)
        raw = self.of_tokens(steps, values=values)
        return Scores(self.advantage(steps, values), "step", values, raw + values)


@dataclass(frozen=True, slots=True)
class PolicyMinimiser(Stateless):
    """The algorithm's objective, minimised by the learner; with its critic's loss where there is a critic."""

    learner: Learner

    @classmethod
    def open(cls, setup: TrainingSetup) -> Self:
        """Take the learner."""
        return cls(setup.learner)

    def prepare(self, rollouts: RolloutBatch, scores: Scores) -> Batch:
        """Return advantages and targets with the log-probabilities that the objective compares."""
        learner = self.learner
        if scores.unit == "token" and learner.objective.ratio in STEP_RATIOS:
            raise UsageError(
                f'advantages are of tokens and objective.ratio="{learner.objective.ratio}" is of steps: '
                "set objective.ratio=token and objective.aggregation=token-mean"
            )
        recomputes = learner.config.recomputes
        passes = recomputes and not learner.steps_once(len(rollouts.rows))
        needs_reference = learner.objective.kl_coefficient > 0
        return Batch.of(
            rollouts.steps,
            scores.advantages,
            credit=scores.unit,
            valued=None if learner.critic is None else learner.critic.unit,
            old_log_probs=learner.log_probs(rollouts.rows) if passes else rollouts.log_probs,
            rollout_log_probs=rollouts.log_probs if recomputes else None,
            stale=rollouts.stale,
            ref_log_probs=learner.ref_log_probs(rollouts.rows) if needs_reference else None,
            values=scores.values,
            returns=scores.returns,
        )

    def minimise(self, rollouts: RolloutBatch, batch: Batch, *, seed: int, rate: float) -> UpdateMetrics:
        """Update the policy, and the critic where there is one."""
        return self.learner.update(rollouts.rows, batch, seed=seed, rate=rate)


def open_pool(setup: TrainingSetup) -> RolloutPool | PooledCollector:
    """Return the pool that plays groups of whole episodes, one task a group, or leases those of others."""
    if setup.pooled is not None:
        setup.pooled.settings = setup.config.rollout
        return setup.pooled
    config, tasks = setup.config, setup.worker.envs.tasks
    curriculum = Curriculum(config.curriculum, tasks) if config.curriculum else None
    order = TaskOrder(tasks, config.seed, curriculum)
    return RolloutPool(setup.worker, order, config.rollout, setup.ranks)


@dataclass(frozen=True, slots=True)
class WrappedPool:
    """A pool whose rollouts a collector changes before they are trained on; base of such collectors."""

    pool: RolloutPool | PooledCollector

    @property
    def episodes(self) -> int:
        """Episodes played to their ends by this process."""
        return self.pool.episodes

    def over_ranks(self) -> tuple[int, int]:
        """Return the numbers of untrained and of pending groups of all ranks, which all have to call."""
        return self.pool.over_ranks()

    def close(self) -> None:
        """End the rollouts that are being played ahead."""
        self.pool.close()

    def state_dict(self) -> dict[str, Any]:
        """Return the pool's state."""
        return self.pool.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.pool.load_state_dict(state)


StageT = TypeVar("StageT", covariant=True)

Opener: TypeAlias = Callable[[TrainingSetup], StageT]
"""Function that opens a stage for a run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """Constructors of an algorithm's stages.

    Example:
        >>> stages_of("gigpo") is OUTCOME, stages_of("steppo").scorer == StepCriticScorer.open
        (True, True)
    """

    collector: Opener[Collector] = open_pool
    scorer: Opener[Scorer] = OutcomeScorer.open
    minimiser: Opener[Minimiser] = PolicyMinimiser.open


OUTCOME = Stages()
"""Stages of whole episodes, scored by their outcomes."""

STEP_CRITIC = Stages(scorer=StepCriticScorer.open)
"""Stages of whole episodes, with a critic of steps."""

TOKEN_CRITIC = Stages(scorer=TokenCriticScorer.open)
"""Stages of whole episodes, with a critic of response tokens."""

SHARED_TOKENS = Stages(scorer=SharedTokenScorer.open)
"""Stages of whole episodes, where a step has the mean of its tokens' advantages."""


def stages_of(name: str) -> Stages:
    """Return the stages of an algorithm, as `find_algorithm` takes its name."""
    reference = trainable(name).stages
    found = None if reference is None else load_reference(reference, trusted=True)
    if not isinstance(found, Stages):
        raise UsageError(
            f"{reference}, the stages of {name}, is a {type(found).__name__}: name an "
            "agentgym.training.stages.Stages"
        )
    return found
