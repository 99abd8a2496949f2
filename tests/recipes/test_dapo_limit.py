"""DAPO's limit on the length of a response, in a training run."""

import numpy as np
import pytest

from agentgym.algos import grpo
from agentgym.algos.batch import StepBatch
from agentgym.recipes import find_recipe, recipe_config
from agentgym.training.config import TrainConfig, override


@pytest.mark.parametrize(("limit", "stated", "bound"), [(4096, {}, 4096), (4096, {"max_tokens": 600}, 600)])
def test_the_limit_of_a_run_is_that_of_its_responses_unless_it_is_stated(limit, stated, bound):
    config = override(
        TrainConfig(algorithm="dapo", env_id="agentgym/EZPoints-v0", algorithm_options=stated),
        {"prompting.max_tokens": limit},
    )
    assert config.advantage.keywords["max_tokens"] == bound


def test_length_costs_nothing_in_gigpos_comparison():
    """GiGPO, D.4: DAPO is GRPO with dynamic sampling and clip-higher."""
    config = recipe_config(find_recipe("gigpo/dapo-webshop"), "agentgym/WebShop-v0", model="tiny")
    batch = StepBatch.of(
        group=[0] * 4, trajectory=[0, 0, 1, 1], state="ABCD", reward=[0.0, 10.0, 0.0, 0.0], tokens=[512] * 4
    )
    np.testing.assert_allclose(config.advantage(batch), grpo.advantage(batch), atol=1e-12)
    assert (config.rollout.attempts, config.loss.clip_high) == (10, 0.28)
