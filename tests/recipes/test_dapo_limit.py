"""DAPO's limit on the length of a response, in a training run."""

import pytest

from agentgym.training.config import TrainConfig, override


@pytest.mark.parametrize(("limit", "stated", "bound"), [(4096, {}, 4096), (4096, {"max_tokens": 600}, 600)])
def test_the_limit_of_a_run_is_that_of_its_responses_unless_it_is_stated(limit, stated, bound):
    config = override(
        TrainConfig(algorithm="dapo", env_id="agentgym/EZPoints-v0", switches=stated),
        {"prompting.max_tokens": limit},
    )
    assert config.advantage.keywords["max_tokens"] == bound
