"""StepPO without step GAE, the ablation of its Figure 5: tokens are valued, and a step shares their mean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from agentgym.algos import ppo, steppo
from agentgym.core.arrays import Floats
from agentgym.training.learner.learner import Learner
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages import RolloutBatch, Scores, Stages, Stateless

WITHOUT_STEP_GAE = "benchmarks.algorithms.ablations:ALGORITHM"


@dataclass(frozen=True, slots=True)
class SharedTokenScorer(Stateless):
    """Advantages of steps that are the means of their tokens', from a critic that values tokens."""

    advantage: Callable[..., Floats]
    gamma: float
    learner: Learner

    @classmethod
    def open(cls, setup: TrainingSetup) -> Self:
        """Take the algorithm's advantage, with the run's options, and the learner's critic."""
        config = setup.config
        gamma = {**config.spec.defaults, **config.algorithm_options}["gamma"]
        return cls(config.advantage, float(gamma), setup.learner)

    def score(self, rollouts: RolloutBatch) -> Scores:
        """Return advantages of steps, and ``A + V`` of tokens as the critic's targets."""
        values = self.learner.values(rollouts.rows, "token")
        steps = rollouts.steps
        if steps.truncated.any():
            steps = steps.with_columns(next_values=self.learner.values(rollouts.rows, "step"))
        raw = ppo.advantage(steps, values=values, gamma=self.gamma, lam=1.0, whiten=False)
        return Scores(self.advantage(steps, values), "step", values, raw + values)


STAGES = Stages(scorer=SharedTokenScorer.open)

ALGORITHM = replace(
    steppo.ALGORITHM,
    title="StepPO without step GAE",
    advantage=steppo.without_step_gae,
    stages="benchmarks.algorithms.ablations:STAGES",
    critic="token",
)
