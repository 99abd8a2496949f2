"""Stages of algorithms with a process reward model: score, train the reward model, train the policy.

An iteration of iStar or PRIME is `RewardModelScorer.score`, and then the update of the policy as everywhere::

    rollout     groups of episodes; PRIME keeps those of middling accuracy
    score       each step by the reward model: before or after the reward model's own update
    fit         the reward model, on pairs of episodes (iStar) or on outcomes (PRIME)
    minimise    the policy's objective

`agentgym.algos.istar` and `agentgym.algos.prime` have the equations, `agentgym.training.learner.reward_model`
the reward model's update.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from agentgym.algos import istar
from agentgym.algos.filters import select, within_accuracy
from agentgym.algos.process import outcome_loss, preference_loss
from agentgym.algos.tokens import Unit, token_counts
from agentgym.arrays import Bools, Floats
from agentgym.errors import UsageError
from agentgym.training.config import TrainConfig
from agentgym.training.learner.config import RewardModelConfig
from agentgym.training.learner.learner import Learner
from agentgym.training.learner.reward_model import Answers, RewardModel
from agentgym.training.pool import RolloutPool
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages import RolloutBatch, Scorer, Scores, Stages, Stateless, open_pool

_FIT = 3
"""What a seed's stream is for, beside those of `agentgym.training.loop`."""

SPARSE = 10.0
"""What a success pays under the environments' option ``reward="sparse10"``."""


@dataclass(slots=True)
class RewardModelScorer(ABC):
    """Scores steps by a reward model, and trains it on the same rollouts; base of iStar's and PRIME's."""

    advantage: Callable[..., Floats]
    """With the run's options."""
    policy: Learner
    model: RewardModel
    config: TrainConfig
    updates_first: bool
    """Whether the reward model is updated before it scores."""
    iterations: int = 0
    """Done."""
    without_pairs: int = 0
    """Iterations in a row that had nothing to fit the reward model on."""

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Score a rollout batch, and train the reward model before or after that.

        Raises:
            DivergenceError: the reward model's loss is not a number.
            UsageError: outcomes are not of the kind that the algorithm takes.
        """
        self.iterations += 1
        answers = self.answers(rollouts)
        now = self.model.log_probs(rollouts.rows)
        if self.updates_first:
            measured = self._fit(answers, rollouts, now)
            now = self.model.log_probs(rollouts.rows)
            scores = self.credit(rollouts, answers, now)
        else:
            scores = self.credit(rollouts, answers, now)
            measured = self._fit(answers, rollouts, now)
        return replace(scores, reward_model={**measured, **scores.reward_model})

    @abstractmethod
    def answers(self, rollouts: RolloutBatch) -> Answers:
        """Return all steps with what the reward model is compared with, and the outcomes it learns from."""

    @abstractmethod
    def kept(self, rollouts: RolloutBatch, answers: Answers) -> Bools:
        """Return (n,) the steps that the reward model and the policy learn from."""

    @abstractmethod
    def loss(self, scores: Tensor, outcome: Tensor, group: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Return the reward model's loss of (m,) answers, and what is logged of it."""

    @abstractmethod
    def credit(self, rollouts: RolloutBatch, answers: Answers, now: Floats) -> Scores:
        """Return advantages, by (T,) what the reward model makes of the response tokens."""

    @property
    def settings(self) -> RewardModelConfig:
        """The reward model's."""
        return self.model.settings

    def _fit(self, answers: Answers, rollouts: RolloutBatch, now: Floats) -> dict[str, float]:
        kept = self.kept(rollouts, answers)
        stream = np.random.SeedSequence([self.config.seed, _FIT, self.iterations])
        measured = self.model.fit(
            answers.select(np.flatnonzero(kept)),
            self.loss,
            seed=int(stream.generate_state(1)[0]),
            rate=self.config.rate(self.iterations),
            log_probs=now if kept.all() else None,
        )
        self._notice(measured["count"])
        return measured

    def _notice(self, count: float) -> None:
        """Warn when there has been nothing to fit the reward model on for a while."""
        self.without_pairs = 0 if count else self.without_pairs + 1
        if self.without_pairs == self.settings.patience and self.model.ranks.is_first:
            warnings.warn(
                f"the reward model has learned nothing for {self.without_pairs} iterations: {self.missing}; "
                "begin with a model that succeeds sometimes, or play easier tasks or larger groups",
                RuntimeWarning,
                stacklevel=2,
            )

    @property
    @abstractmethod
    def missing(self) -> str:
        """What was missing where there was nothing to fit the reward model on."""

    def state_dict(self) -> dict[str, Any]:
        """Return the reward model's state, and the counters."""
        return {
            "reward_model": self.model.state_dict(),
            "iterations": self.iterations,
            "without_pairs": self.without_pairs,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.model.load_state_dict(state["reward_model"])
        self.iterations, self.without_pairs = state["iterations"], state["without_pairs"]


class PreferenceScorer(RewardModelScorer):
    """iStar: a reward model that prefers successes to failures of the same task, against the old policy."""

    def answers(self, rollouts: RolloutBatch) -> Answers:
        """Return episodes, compared with the policy that sampled them."""
        steps, settings = rollouts.steps, self.settings
        success = steps.won if settings.outcome == "won" else steps.outcome > settings.threshold
        return Answers(
            rollouts.rows,
            old_log_probs(self.policy, rollouts),
            steps.trajectory,
            success.astype(np.float64),
            steps.group,
        )

    def kept(self, rollouts: RolloutBatch, answers: Answers) -> Bools:
        """Return all steps."""
        return np.ones(len(answers), dtype=np.bool_)

    def loss(self, scores: Tensor, outcome: Tensor, group: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Return the loss over pairs (Eq. 2); ``accuracy`` is the share of pairs in the right order."""
        result = preference_loss(scores, outcome, group)
        return result.loss, {"count": float(result.pairs), "accuracy": result.accuracy.item()}

    @property
    def missing(self) -> str:
        """What was missing."""
        return "no group had a success beside a failure"

    def credit(self, rollouts: RolloutBatch, answers: Answers, now: Floats) -> Scores:
        """Return ``A^E + alpha A^S`` of steps, or of tokens (an ablation)."""
        steps, beta = rollouts.steps, self.settings.beta
        if self.unit == "token":
            process = beta * (now - answers.compared)
            return Scores(self.advantage(steps, process), "token", process_rewards=process)
        process = istar.step_rewards(now, answers.compared, steps, beta=beta)
        return Scores(self.advantage(steps, process), "step", process_rewards=process)

    @property
    def unit(self) -> Unit:
        """What gets an advantage of its own."""
        return "token" if self.config.switches.get("credit") == "token" else "step"


class OutcomeModelScorer(RewardModelScorer):
    """PRIME: a reward model that tells right answers from wrong ones, against its own frozen beginning."""

    def answers(self, rollouts: RolloutBatch) -> Answers:
        """Return episodes, or steps where each answers for itself, compared with the reference."""
        steps = rollouts.steps
        rows = self.config.switches.get("sequence") == "row"
        return Answers(
            rollouts.rows,
            self.model.ref_log_probs(rollouts.rows),
            np.arange(len(steps)) if rows else steps.trajectory,
            self._outcome(rollouts),
            steps.group,
        )

    def _outcome(self, rollouts: RolloutBatch) -> Floats:
        """Return (n,) 0 or 1.

        Raises:
            UsageError: an outcome is graded.
        """
        steps = rollouts.steps
        if self.settings.outcome == "won":
            return steps.won.astype(np.float64)
        sparse = self.config.env_options.get("reward") == "sparse10"
        outcome = steps.outcome / (SPARSE if sparse else 1.0)
        graded = np.flatnonzero((outcome != 0) & (outcome != 1))
        if len(graded):
            raise UsageError(
                f"PRIME learns from outcomes of 0 or 1, but an episode earned {steps.outcome[graded[0]]:g}: "
                "set reward_model.outcome=won, or env_options.reward=sparse10"
            )
        return outcome

    def kept(self, rollouts: RolloutBatch, answers: Answers) -> Bools:
        """Return the steps of tasks that are neither too hard nor too easy."""
        return within_accuracy(rollouts.steps, answers.outcome, self.config.rollout.accuracy)

    def loss(self, scores: Tensor, outcome: Tensor, group: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Return the cross-entropy; ``accuracy`` is the share of answers on the right side of 0."""
        right = ((scores.detach() > 0) == (outcome > 0)).double().mean()
        return outcome_loss(scores, outcome), {"count": float(len(scores)), "accuracy": right.item()}

    @property
    def missing(self) -> str:
        """What was missing."""
        low, high = self.config.rollout.accuracy
        return f"no group's share of successes was within rollout.accuracy, {low:g} to {high:g}"

    def credit(self, rollouts: RolloutBatch, answers: Answers, now: Floats) -> Scores:
        """Return advantages of tokens; those of tasks that are left out are not trained on."""
        q, counts = now - answers.compared, token_counts(rollouts.steps)
        kept = self.kept(rollouts, answers)
        tokens = np.repeat(kept, counts)
        advantages = np.zeros(len(q))
        if kept.any():
            steps = select(rollouts.steps.with_columns(outcome=answers.outcome), kept)
            advantages[tokens] = self.advantage(steps, q[tokens], beta=self.settings.beta)
        groups, left = (len(np.unique(rollouts.steps.group[rows])) for rows in (slice(None), ~kept))
        return Scores(
            advantages,
            "token",
            process_rewards=self.settings.beta * q,
            mask=None if kept.all() else tokens,
            reward_model={"prompts_left_out": float(left), "prompts": float(groups)},
        )


@dataclass(frozen=True, slots=True)
class GroundTruthScorer(Stateless):
    """iStar's ablation: the environment's own step rewards or progress in the place of a model's."""

    advantage: Callable[..., Floats]
    source: str

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Return ``A^E + alpha A^S``."""
        steps = rollouts.steps
        process = steps.reward if self.source == "reward" else steps.progress
        if process is None:
            raise UsageError(f"rollouts have no {self.source}: choose switches.process model or reward")
        return Scores(self.advantage(steps, process), "step", process_rewards=process)


def old_log_probs(policy: Learner, rollouts: RolloutBatch) -> Floats:
    """Return (T,) of the old policy: as sampled, or recomputed where the engine's numbers are others.

    Args:
        policy: as it is before the update.
        rollouts: sampled by it, or by what it was a few updates ago.
    """
    exact = policy.config.dtype == "float32" and policy.config.importance_cap is None
    return rollouts.log_probs if exact else policy.log_probs(rollouts.rows)


def open_istar(config: TrainConfig, setup: TrainingSetup) -> Scorer:
    """Return what scores and fits iStar's reward model, or what takes its place.

    Raises:
        UsageError: tokens are to be credited by rewards of steps.
    """
    if setup.reward_model is not None:
        order = config.stage_options.prm_reward == "after"
        return PreferenceScorer(config.advantage, setup.learner, setup.reward_model, config, order)
    source = config.stage_options.process
    if config.switches.get("credit") == "token":
        raise UsageError(f"switches.process {source} rewards steps: set switches.credit to step or merged")
    return GroundTruthScorer(config.advantage, source)


def open_prime(config: TrainConfig, setup: TrainingSetup) -> Scorer:
    """Return what scores and fits PRIME's reward model, which is updated before it scores.

    Raises:
        UsageError: a scale is set twice.
    """
    if "beta" in config.switches:
        raise UsageError("the reward model's scale is reward_model.beta: leave out switches.beta")
    assert setup.reward_model is not None
    return OutcomeModelScorer(config.advantage, setup.learner, setup.reward_model, config, True)


def open_accuracy_pool(config: TrainConfig, setup: TrainingSetup) -> RolloutPool:
    """Return the pool of PRIME: where there are several attempts, tasks of middling accuracy are wanted."""
    return open_pool(replace(config, rollout=replace(config.rollout, filter_on="accuracy")), setup)


ISTAR = Stages(scorer=open_istar)
"""Groups of episodes, scored by outcomes and by a reward model that learns from pairs of them."""

PRIME = Stages(collector=open_accuracy_pool, scorer=open_prime)
"""Groups of middling accuracy, scored token by token by a reward model that learns from outcomes."""
