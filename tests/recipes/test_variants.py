"""Variants: extensions and ablations of the papers, each a runnable configuration."""

import numpy as np
import pytest

from agentgym.algos.batch import StepBatch
from agentgym.errors import UsageError
from agentgym.recipes import algorithms_with_recipes, find_variant, recipes_of
from agentgym.training.config import TINY, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup

EZPOINTS = "agentgym/EZPoints-v0"
EVERY = [(name, variant) for name in algorithms_with_recipes() for variant in recipes_of(name).variants]
SAMPLING = {"dynamic", "ds"}
"""Variants that change what is played, not how it is credited."""


def batch():
    """Return two groups of four episodes whose states, texts and embeddings join steps in different ways."""
    rng = np.random.default_rng(0)
    n = 2 * 4 * 5
    state = rng.integers(0, 4, n)
    won = np.repeat(rng.random(8) < 0.5, 5)
    last = np.tile(np.arange(5) == 4, 8)
    return StepBatch.of(
        group=np.repeat([0, 1], n // 2), trajectory=np.repeat(np.arange(8), 5), state=state, won=won,
        next_state=np.append(state[1:], 0), reward=np.where(last & won, 10.0, 0.0), valid=rng.random(n) < 0.8,
        cost=rng.choice([0.5, 1.0, 3.0], n), actions=rng.choice(["a", "b"], n).tolist(),
        texts=[f"a page that is shown in state {s} {rng.integers(2)}" for s in state],
        embeddings=np.eye(4)[state // 2] + 0.01,
    )  # fmt: skip


@pytest.mark.parametrize(("algorithm", "name"), EVERY)
def test_a_variant_credits_otherwise(algorithm, name):
    plain = TINY.config(algorithm, EZPOINTS)
    changed = override(plain, find_variant(algorithm, name).settings)
    assert changed != plain
    steps = batch()
    alike = np.allclose(changed.advantage(steps), plain.advantage(steps), atol=1e-9)
    assert alike == (name in SAMPLING)
    assert np.isfinite(changed.advantage(steps)).all()


@pytest.mark.parametrize(("algorithm", "name"), [("gigpo", "dynamic"), ("graphgpo", "ds")])
def test_dynamic_sampling_plays_again(algorithm, name, tmp_path):
    small = {
        "model": "tiny:0.1m", "rollout.tasks": 2, "rollout.group_size": 2, "rollout.num_envs": 4,
        "evaluation.every": 0, "env_options.max_steps": 2, "rollout.attempts": 3,
    }  # fmt: skip
    plain = TINY.config(algorithm, EZPOINTS)
    config = override(plain, {**find_variant(algorithm, name).settings, **small})
    setup = TrainingSetup.open(resolve(config))
    trainer = Trainer(setup, tmp_path)
    metrics = trainer.iterate()
    trainer.close()
    setup.close()
    assert metrics.episodes == 3 * 2 * 2  # nobody wins in two steps: every attempt is played
    assert np.isfinite(metrics.loss)


def test_an_unknown_variant_is_one_line():
    with pytest.raises(UsageError, match=r"graphgpo has no variant 'dss'.*; it has ds, costs"):
        find_variant("graphgpo", "dss")
    with pytest.raises(UsageError, match="grpo has no variant 'ds': set options by --set"):
        find_variant("grpo", "ds")
