"""Variants: extensions and ablations of the papers, each a runnable configuration."""

import numpy as np
import pytest

from agentgym.algos.batch import StepBatch
from agentgym.errors import UsageError
from agentgym.recipes import algorithms_with_recipes, find_variant, recipe_config, recipes_of
from agentgym.training.config import TINY, override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup

EZPOINTS, SOKOBAN = "agentgym/EZPoints-v0", "agentgym/Sokoban-v0"
VISUAL_SOKOBAN = "agentgym/VisualSokoban-v0"
EVERY = [(name, variant) for name in algorithms_with_recipes() for variant in recipes_of(name).variants]
SAMPLING = {"dynamic", "ds"}
"""Variants that change what is played, not how it is credited."""

ELSEWHERE = {"steppo", "spo3", "istar"}
"""Algorithms whose steps are credited by more than a batch of episodes has: critics, trees, reward models."""


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


@pytest.mark.parametrize(("algorithm", "name"), [pair for pair in EVERY if pair[0] not in ELSEWHERE])
def test_a_variant_credits_otherwise(algorithm, name):
    plain = TINY.config(algorithm, EZPOINTS)
    changed = override(plain, find_variant(algorithm, name).settings)
    assert changed != plain or name == "std"  # which some recipes are without
    steps = batch()
    alike = np.allclose(changed.advantage(steps), plain.advantage(steps), atol=1e-9)
    assert alike == (name in SAMPLING | {"std"})
    assert np.isfinite(changed.advantage(steps)).all()


@pytest.mark.parametrize(("algorithm", "name"), [pair for pair in EVERY if pair[0] in ELSEWHERE])
def test_a_variant_of_a_recipe_trains(algorithm, name, tmp_path):
    """An iteration of it, small; iStar's ground truth is what VisualSokoban pays for steps."""
    pictures = name == "ground-truth"
    env_id = VISUAL_SOKOBAN if pictures else SOKOBAN if algorithm == "istar" else EZPOINTS
    model = "tiny-vl:0.1m" if pictures else "tiny:0.1m"
    small = {
        "iterations": 1, "rollout.tasks": 2, "rollout.group_size": 2, "rollout.num_envs": 4,
        "evaluation.every": 0, "env_options.max_steps": 3, "learner.minibatch_steps": None,
        "prompting.max_tokens": 4, "prompting.budget": 400,
    }  # fmt: skip
    small |= {"algorithm_options.budget": 6} if algorithm == "spo3" else {}
    recipe = recipe_config(recipes_of(algorithm).choose(env_id), env_id, model=model)
    plain = override(recipe, small)
    config = override(plain, find_variant(algorithm, name).settings)
    assert config != plain or name == "over-rloo"  # the recipes' own
    metrics = {}
    for label, each in (("plain", plain), (name, config)):
        setup = TrainingSetup.open(resolve(each))
        trainer = Trainer(setup, tmp_path / label)
        metrics[label] = trainer.iterate()
        trainer.close()
        setup.close()
    assert np.isfinite(metrics[name].loss)
    if pictures:
        assert setup.reward_model is None
        assert config.env_options["reward"] == "native"  # 10, 1, -1 and -0.1: a step's own rewards


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
