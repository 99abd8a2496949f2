"""Stages of algorithms with a process reward model: score, train the reward model, train the policy.

An iteration of iStar or PRIME is `RewardModelScorer.score`, and then the update of the policy as everywhere::

    collect     groups of episodes; PRIME keeps those of middling accuracy
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
from typing import Any, Self

import numpy as np
from torch import Tensor

from agentgym.algos import istar
from agentgym.algos.process import outcome_loss, preference_loss
from agentgym.algos.tokens import Unit
from agentgym.core.arrays import Floats
from agentgym.core.types import Group
from agentgym.errors import UsageError
from agentgym.training.collect.rollout_batch import Collected
from agentgym.training.config import TrainConfig
from agentgym.training.learner.config import RewardModelConfig
from agentgym.training.learner.reward_model import Answers, RewardModel
from agentgym.training.learner.update import Learner
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages.outcome import Stages, WrappedPool, open_pool
from agentgym.training.stages.protocols import RolloutBatch, Scorer, Scores, Stateless

_FIT = 3
"""Purpose of a random stream derived from the seed, beside those of `agentgym.training.loop`."""

SPARSE = 10.0
"""Reward of a success under the environments' option ``reward="sparse10"``."""


@dataclass(slots=True)
class RewardModelScorer(ABC):
    """Scores steps by a reward model, and trains it on the same rollouts; base of iStar's and PRIME's."""

    advantage: Callable[..., Floats]
    """Advantage with the run's options."""
    policy: Learner
    model: RewardModel
    config: TrainConfig
    updates_first: bool
    """Whether the reward model is updated before it scores."""
    idle: int = 0
    """Iterations in a row without data for the reward model."""

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Score a rollout batch, and fit the reward model before or after that.

        `DivergenceError` where its loss is not a number.
        """
        answers = self.answers(rollouts)
        now = self.model.log_probs(rollouts.rows)
        if self.updates_first:
            measured = self._fit(answers, now, rollouts.iteration)
            now = self.model.log_probs(rollouts.rows)
            scores = self.credit(rollouts, answers, now)
        else:
            scores = self.credit(rollouts, answers, now)
            measured = self._fit(answers, now, rollouts.iteration)
        return replace(scores, diagnostics={"reward_model": measured})

    @abstractmethod
    def answers(self, rollouts: RolloutBatch) -> Answers:
        """Return the reward model's training data: steps with the compared log-probabilities and outcomes."""

    @abstractmethod
    def loss(self, scores: Tensor, outcome: Tensor, group: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Return the reward model's loss of (m,) answers, and the numbers for the log."""

    @abstractmethod
    def credit(self, rollouts: RolloutBatch, answers: Answers, now: Floats) -> Scores:
        """Return advantages from the (T,) log-probabilities of the response tokens under the reward model."""

    @property
    def settings(self) -> RewardModelConfig:
        """The reward model's."""
        return self.model.settings

    def _fit(self, answers: Answers, now: Floats, iteration: int) -> dict[str, float]:
        stream = np.random.SeedSequence([self.config.seed, _FIT, iteration])
        measured = self.model.fit(
            answers,
            self.loss,
            seed=int(stream.generate_state(1)[0]),
            rate=self.config.rate(iteration),
            log_probs=now,
        )
        self._notice(measured["count"])
        return measured

    def _notice(self, count: float) -> None:
        """Warn when there has been nothing to fit the reward model on for a while."""
        self.idle = 0 if count else self.idle + 1
        if self.idle == self.settings.patience and self.model.ranks.is_first:
            warnings.warn(
                f"the reward model has learned nothing for {self.idle} iterations, since no group had a "
                "success beside a failure: begin with a model that succeeds sometimes, or play easier tasks "
                "or larger groups",
                RuntimeWarning,
                stacklevel=2,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the reward model's state, and the counter."""
        return {"reward_model": self.model.state_dict(), "idle": self.idle}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take over what `state_dict` returned."""
        self.model.load_state_dict(state["reward_model"])
        self.idle = state["idle"]


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

    def loss(self, scores: Tensor, outcome: Tensor, group: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Return the loss over pairs (Eq. 2); ``accuracy`` is the share of pairs in the right order."""
        result = preference_loss(scores, outcome, group)
        return result.loss, {"count": float(result.pairs), "accuracy": result.accuracy.item()}

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
        """Unit of the advantages."""
        return "token" if self.config.algorithm_options.get("credit") == "token" else "step"


class OutcomeModelScorer(RewardModelScorer):
    """PRIME: a reward model that tells right answers from wrong ones, against its own frozen beginning."""

    def answers(self, rollouts: RolloutBatch) -> Answers:
        """Return episodes, or steps where each answers for itself, compared with the reference."""
        steps = rollouts.steps
        rows = self.config.algorithm_options.get("sequence") == "row"
        earned = steps.won if self.settings.outcome == "won" else steps.outcome
        return Answers(
            rollouts.rows,
            self.model.ref_log_probs(rollouts.rows),
            np.arange(len(steps)) if rows else steps.trajectory,
            np.array([binary_outcome(float(each), self.config) for each in earned]),
            steps.group,
        )

    def loss(self, scores: Tensor, outcome: Tensor, group: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Return the cross-entropy; ``accuracy`` is the share of answers on the right side of 0."""
        right = ((scores.detach() > 0) == (outcome > 0)).double().mean()
        return outcome_loss(scores, outcome), {"count": float(len(scores)), "accuracy": right.item()}

    def credit(self, rollouts: RolloutBatch, answers: Answers, now: Floats) -> Scores:
        """Return advantages of tokens."""
        q, beta = now - answers.compared, self.settings.beta
        steps = rollouts.steps.with_columns(outcome=answers.outcome)
        return Scores(self.advantage(steps, q, beta=beta), "token", process_rewards=beta * q)


@dataclass(frozen=True, slots=True)
class AccuracyFilter(WrappedPool):
    """PRIME's filter: a pool's groups without those that succeed too rarely or too often.

    Where there are several attempts, the pool plays on for groups within the range; what its last one leaves
    outside is left out here.
    """

    config: TrainConfig

    @classmethod
    def open(cls, setup: TrainingSetup) -> Self:
        """Open the pool."""
        config = setup.config
        wanted = replace(config, rollout=replace(config.rollout, filter_on="accuracy"))
        return cls(open_pool(replace(setup, config=wanted)), config)

    def collect(self, version: int) -> Collected:
        """Return the groups within the range; all episodes are reported. Outcomes are not graded."""
        played = self.pool.collect(version)
        groups = [group for group in played.groups if self._within(group)]
        self.pool.leave_out(len(played.groups) - len(groups))
        shares = {"played": float(len(played.groups)), "kept": float(len(groups))}
        return replace(played, groups=groups, ends=played.episode_ends, diagnostics={"prompts": shares})

    def _within(self, group: Group) -> bool:
        low, high = self.config.rollout.accuracy
        won = self.config.reward_settings.outcome == "won"
        outcomes = [
            binary_outcome(float(member.won) if won else member.episode_return, self.config)
            for member in group.trajectories
        ]
        return low <= sum(outcomes) / len(outcomes) <= high


def binary_outcome(earned: float, config: TrainConfig) -> float:
    """Return an episode's outcome, 0 or 1, from its return or success; graded ones are refused.

    Under ``reward="sparse10"`` a success pays 10.
    """
    sparse = config.env_options.get("reward") == "sparse10" and earned == SPARSE
    if not sparse and earned not in (0.0, 1.0):
        raise UsageError(
            f"PRIME learns from outcomes of 0 or 1, but an episode earned {earned:g}: set "
            "reward_model.outcome=won, or env_options.reward=sparse10"
        )
    return 1.0 if sparse else earned


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
            raise UsageError(
                f"rollouts have no {self.source}: choose algorithm_options.process model or reward"
            )
        return Scores(self.advantage(steps, process), "step", process_rewards=process)


def old_log_probs(policy: Learner, rollouts: RolloutBatch) -> Floats:
    """Return (T,) log-probabilities of the old policy: as sampled, or recomputed for another engine.

    ``policy``: as it is before the update; the rollouts may be a few updates older.
    """
    return policy.log_probs(rollouts.rows) if policy.config.recomputes else rollouts.log_probs


def open_istar(setup: TrainingSetup) -> Scorer:
    """Return the scorer that fits iStar's reward model, or its substitute without one."""
    config = setup.config
    if setup.reward_model is not None:
        order = config.stage_options.prm_reward == "after"
        return PreferenceScorer(config.advantage, setup.learner, setup.reward_model, config, order)
    source = config.stage_options.process
    if config.algorithm_options.get("credit") == "token":
        raise UsageError(
            f"algorithm_options.process {source} rewards steps: set algorithm_options.credit to step or "
            "merged"
        )
    return GroundTruthScorer(config.advantage, source)


def open_prime(setup: TrainingSetup) -> Scorer:
    """Return the scorer that fits PRIME's reward model, which is updated before it scores."""
    config = setup.config
    assert setup.reward_model is not None
    beta = setup.reward_model.settings.beta
    if config.algorithm_options.get("beta", beta) != beta:
        raise UsageError(
            f"the reward model's scale is reward_model.beta, {beta:g}: leave out algorithm_options.beta"
        )
    return OutcomeModelScorer(config.advantage, setup.learner, setup.reward_model, config, True)


ISTAR = Stages(scorer=open_istar)
"""Stages of iStar: groups of episodes, scored by outcomes and by a reward model trained on pairs of them."""

PRIME = Stages(collector=AccuracyFilter.open, scorer=open_prime)
"""Stages of PRIME: groups of medium accuracy, scored per token by a reward model trained on outcomes."""
