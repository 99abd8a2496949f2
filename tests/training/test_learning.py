"""Algorithms learn: from next to nothing to much of EZPoints."""

from dataclasses import dataclass, field, replace
from statistics import fmean

import numpy as np
import pytest

from agentgym.training.config import TINY, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup
from agentgym.training.stages import Scorer, Stateless, stages_of

FLOOR, GOAL = 0.15, 0.4
"""Success without learning; and soon after it begins to rise, far from any run without credit."""
ITERATIONS = 25
WINDOW = 5
"""Iterations whose success is averaged: at first, and at last."""
SETTINGS = {
    "iterations": 120,  # over which the learning rate falls
    "evaluation.every": 0,
    "checkpoint_every": 0,
    "rollout.accuracy": [0.2, 0.8],
    "learner.minibatches": 4,
    "learner.learning_rate": 3e-3,
    "learner.entropy_coefficient": 0.01,
}
ALGORITHMS = [
    ("grpo", 0),
    pytest.param("gigpo", 1, marks=pytest.mark.slow),
    pytest.param("steppo", 1, marks=pytest.mark.slow),
]


@dataclass
class Shuffled(Stateless):
    """The control: every advantage goes to some other step or token of the batch."""

    inner: Scorer
    draws: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def score(self, rollouts):
        scores = self.inner.score(rollouts)
        return replace(scores, advantages=self.draws.permutation(scores.advantages))


def learn(algorithm, seed, folder, *, control=False, stop_at=1.0, iterations=ITERATIONS):
    """Return the success of each iteration, up to the one whose window reaches ``stop_at``."""
    config = override(TINY.config(algorithm, "agentgym/EZPoints-v0", model="tiny:0.1m", seed=seed), SETTINGS)
    setup = TrainingSetup.open(resolve(config))
    plain = stages_of(algorithm).scorer(setup)
    trainer = Trainer(setup, folder, scorer=Shuffled(plain) if control else plain)
    success = []
    while trainer.iteration < iterations and fmean(success[-WINDOW:] or [0.0]) < stop_at:
        success.append(trainer.iterate().success)
    setup.close()
    return success


@pytest.mark.parametrize(("algorithm", "seed"), ALGORITHMS)
def test_an_algorithm_learns(tmp_path, algorithm, seed):
    success = learn(algorithm, seed, tmp_path, stop_at=GOAL)
    assert fmean(success[:WINDOW]) < FLOOR
    assert fmean(success[-WINDOW:]) >= GOAL, success


def test_with_shuffled_credit_nothing_is_learned(tmp_path):
    """In as many iterations as the algorithm needs with its own."""
    assert max(learn("grpo", 0, tmp_path, control=True, iterations=14)) < FLOOR
