import numpy as np

from agentgym.algos import gspo
from agentgym.algos.batch import StepBatch


def test_advantage_is_normalised_within_the_group():
    batch = StepBatch.of(group=[0, 0], trajectory=[0, 1], state="AA", reward=[10.0, 0.0])
    np.testing.assert_allclose(gspo.advantage(batch), [0.70710668, -0.70710668], atol=1e-8)


def test_its_objective_compares_whole_responses_within_narrow_bounds():
    objective = gspo.OBJECTIVE
    assert (objective.ratio, objective.aggregation) == ("sequence", "seq-mean-token-mean")
    assert (objective.clip_low, objective.clip_high, objective.dual_clip) == (3e-4, 4e-4, None)
