"""Every recipe runs an iteration: on a tiny model of its modality, with built-in data and everything small.

What a recipe is about stays as it is: the algorithm and its options, the objective, how the model is asked,
and pictures. One recipe of each algorithm and modality is an ordinary test, all are in `make test-all`.
"""

from dataclasses import replace

import numpy as np
import pytest

from agentgym.recipes import find_recipe, recipe_config, recipe_names
from agentgym.training.config import override
from agentgym.training.loop import Trainer
from agentgym.training.machine.resources import resolve
from agentgym.training.setup import TrainingSetup

DATA = ("dataset", "goals", "corpus", "search", "encoder", "selector", "judge")
"""Options that name data, models or services from elsewhere: left out, so that built-in ones are taken."""

SPLITS = {"split", "evaluation.split", "evaluation.tasks"}
"""Those are of that data."""

LARGEST = {
    "iterations": 1,
    "rollout.tasks": 2,
    "rollout.group_size": 2,
    "rollout.attempts": 2,
    "env_options.max_steps": 2,
    "env_options.max_turns": 2,
    "prompting.max_tokens": 8,
    "algorithm_options.budget": 16,
}
"""Settings of how much is done, and the most of each that is done here."""


def model_of(recipe):
    """Return a tiny model that reads what the recipe shows: text, or pictures too."""
    pictures = recipe.values.get("prompting.pictures", "none") != "none"
    return "tiny-vl:0.1m" if pictures else "tiny:0.1m"


def smallest(name):
    """Return a recipe's run with the package's own data, a tiny model, and no more than `LARGEST`."""
    recipe = find_recipe(name)
    left_out = SPLITS | {f"env_options.{option}" for option in DATA}
    stated = {key: setting for key, setting in recipe.settings.items() if key not in left_out}
    config = recipe_config(replace(recipe, settings=stated), recipe.env_id, model=model_of(recipe))
    small = {key: min(most, stated[key].value) for key, most in LARGEST.items() if key in stated}
    # PRIME would leave out every group of random weights, which win nothing
    alike = {"rollout.num_envs": 4, "rollout.accuracy": [0.0, 1.0], "evaluation.every": 0}
    return override(config, small | alike)


def of_each_kind():
    """Return all recipes; those after one of an algorithm and modality are slow tests."""
    seen, cases = set(), []
    for name in reversed(recipe_names()):  # WebShop, whose prompts are shorter, before ALFWorld
        recipe = find_recipe(name)
        kind = (recipe.algorithm, model_of(recipe))
        cases.append(pytest.param(name, marks=[pytest.mark.slow] * (kind in seen)))
        seen.add(kind)
    return cases


@pytest.mark.parametrize("name", recipe_names())
def test_the_smallest_run_is_about_what_the_recipe_is_about(name):
    recipe, small = find_recipe(name), smallest(name)
    full = recipe_config(recipe, recipe.env_id, model=model_of(recipe))
    alike = ("algorithm", "env_id", "objective", "learner", "reward_model", "encoder")
    assert [getattr(small, field) for field in alike] == [getattr(full, field) for field in alike]
    assert replace(small.prompting, max_tokens=full.prompting.max_tokens) == full.prompting
    assert small.algorithm_options == full.algorithm_options | (
        {"budget": 16} if "budget" in full.algorithm_options else {}
    )
    kept = {key: value for key, value in full.env_options.items() if key not in DATA}
    assert small.env_options == kept | {key: 2 for key in ("max_steps", "max_turns") if key in kept}
    assert (small.rollout.attempts > 1) == (full.rollout.attempts > 1)
    assert small.rollout.filter_on == full.rollout.filter_on


@pytest.mark.parametrize("name", of_each_kind())
def test_a_recipe_runs_an_iteration(name, tmp_path):
    config = smallest(name)
    setup = TrainingSetup.open(resolve(config))
    pictured = setup.language_model.pictures is not None
    trainer = Trainer(setup, tmp_path)
    metrics = trainer.iterate()
    trainer.close()
    setup.close()
    assert pictured == (model_of(find_recipe(name)) == "tiny-vl:0.1m")
    assert metrics.env_steps > 0
    assert metrics.tokens_out > 0
    assert np.isfinite(metrics.loss)
    # random weights write no action that is accepted: nothing tells steps apart, so that 3SPO takes no step
    # and only a bonus for entropy is sure to move the others
    assert metrics.version == (0 if config.algorithm == "spo3" else 1)
    assert metrics.grad_norm > 0 or metrics.version == 0 or config.learner.entropy_coefficient == 0
