from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos import grpo, gspo, rloo
from agentgym.algos.compat import VERL_AGENT, Compat
from agentgym.algos.table import ALGORITHMS
from tests.algos.episodes import batches, one_step_episodes


@pytest.mark.parametrize(
    ("rewards", "group", "std", "expected"),
    [
        ([10, 0, 10, 0], [0, 0, 0, 0], True, [0.86602525, -0.86602525, 0.86602525, -0.86602525]),
        ([1, 0, 0, 0], [0, 0, 0, 0], False, [0.75, -0.25, -0.25, -0.25]),
        ([10, 10, 10], [0, 0, 0], True, [0.0, 0.0, 0.0]),
        ([10, 3, 5], [0, 1, 1], True, [9.99999, -0.70710628, 0.70710628]),
    ],
    ids=["two of four succeed", "Dr. GRPO", "all succeed", "a group of one, raw"],
)
def test_published_numbers(rewards, group, std, expected):
    batch = one_step_episodes(rewards, group)
    np.testing.assert_allclose(
        grpo.advantage(batch, std=std, compat=Compat(singleton="raw")), expected, atol=1e-8
    )


def test_group_of_one_is_zero_by_default():
    result = grpo.advantage(one_step_episodes([10, 3, 5], [0, 1, 1]))
    np.testing.assert_allclose(result, [0.0, -0.70710628, 0.70710628], atol=1e-8)


@given(batches(), st.floats(-50, 50), st.booleans())
def test_a_constant_added_to_the_outcomes_changes_nothing(batch, constant, std):
    shifted = batch.with_columns(outcome=batch.outcome + constant)
    np.testing.assert_allclose(
        grpo.advantage(shifted, std=std), grpo.advantage(batch, std=std), atol=1e-6, rtol=1e-6
    )


@given(batches(), st.floats(0.5, 20))
def test_the_scale_of_outcomes_only_matters_beside_eps(batch, scale):
    scaled = batch.with_columns(outcome=batch.outcome * scale)
    result = grpo.advantage(scaled, compat=Compat(penalty=0.0), eps=0.0)
    np.testing.assert_allclose(result, grpo.advantage(batch, compat=Compat(penalty=0.0), eps=0.0), atol=1e-9)


@given(batches())
def test_all_equal_outcomes_teach_nothing(batch):
    equal = batch.with_columns(outcome=np.full(len(batch), 0.1), valid=np.ones(len(batch), dtype=bool))
    for options in ({}, grpo.DR_GRPO, {"compat": replace(VERL_AGENT, singleton="zero")}):
        assert (grpo.advantage(equal, **options) == 0).all()


@given(batches())
def test_everything_is_finite(batch):
    for options in (
        {},
        grpo.DR_GRPO,
        {"compat": VERL_AGENT},
        {"compat": Compat(invalid_penalty="step_only")},
    ):
        assert np.isfinite(grpo.advantage(batch, **options)).all()


@given(batches(invalid=False))
def test_rloo_is_dr_grpo_up_to_the_size_of_the_group(batch):
    first = batch.step == 0
    sizes = np.array([(batch.group[first] == group).sum() for group in batch.group])
    expected = grpo.advantage(batch, **grpo.DR_GRPO) * sizes / np.maximum(sizes - 1, 1)
    np.testing.assert_allclose(rloo.advantage(batch), expected, atol=1e-12)


def test_gspo_has_grpos_advantage():
    assert gspo.advantage is grpo.advantage


@pytest.mark.parametrize("name", ["episode_stat", "singleton", "invalid_penalty"])
def test_unknown_choices_are_named(name):
    with pytest.raises(ValueError, match=f"unknown {name} 'other'; choose one of"):
        Compat(**{name: "other"})


def test_dr_grpo_divides_by_no_length_and_has_no_reference():
    objective = ALGORITHMS["dr_grpo"].objective
    assert (objective.aggregation, objective.kl_coefficient) == ("seq-mean-token-sum", 0.0)
