"""What a run begins with: the preset ``tiny`` explores, and nothing of it is in ``paper``."""

import pytest

from agentgym.algos.table import ALGORITHMS
from agentgym.recipes import algorithms_with_recipes, recipe_config, recipes_of
from agentgym.registration import ENVIRONMENTS
from agentgym.training.config import TINY, TrainConfig, override

EZPOINTS, SOKOBAN = "agentgym/EZPoints-v0", "agentgym/Sokoban-v0"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_the_tiny_preset_goes_on_exploring(algorithm):
    for env_id in (EZPOINTS, SOKOBAN):
        config = TINY.config(algorithm, env_id)
        assert config.learner.entropy_coefficient > 0
    if config.spec.binary:  # so that the first win is not refused, nor random weights' rare ones left out
        assert config.reward_settings.outcome == "won"
        assert config.rollout.accuracy == (0.01, 0.99)


@pytest.mark.parametrize("algorithm", algorithms_with_recipes())
def test_the_paper_preset_has_its_recipe_alone(algorithm):
    for env_id in ENVIRONMENTS:
        plain = TrainConfig(algorithm=algorithm, env_id=env_id)
        chosen = recipes_of(algorithm).choose(env_id)
        stated = chosen.values
        assert recipe_config(chosen, env_id) == override(plain, stated)
        for name, value in (("learner.entropy_coefficient", 0.0), ("rollout.accuracy", (0.2, 0.8))):
            part, _, entry = name.partition(".")
            found = getattr(getattr(override(plain, stated), part), entry)
            assert found == stated.get(name, value)
