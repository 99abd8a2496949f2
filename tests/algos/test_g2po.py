"""G2PO: literal numbers, by hand and of the authors' public code, and what must hold on any batch."""

import numpy as np
import pytest
from hypothesis import given

from agentgym.algos import g2po, gigpo, grpo
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from agentgym.algos.matching import match_states
from benchmarks.speed import loops
from tests.algos.episodes import batch_of, batches

WINNER, LOSER = {"states": "AB", "rewards": [0, 10]}, {"states": "A"}
TWO = batch_of(WINNER, LOSER)
"""By hand, with gamma .5: v is 2.5 and 5 for the winner's steps and 0 for the loser's, so V(A) = 1.25 and
V(B) = 5. Steps lead to 5, 10 and 0 and gain 3.75, 5 and -1.25."""


def test_values_are_means_over_visits():
    values = g2po.state_values(TWO, match_states(TWO), TWO.outcome, TWO.outcome, gamma=0.5)
    assert [column.tolist() for column in values] == [[1.25, 5.0, 1.25], [5.0, 10.0, 0.0]]


def test_an_episodes_visits_to_one_state_all_count():
    batch = batch_of({"states": "AAB", "rewards": [0, 0, 8]})
    value, reached = g2po.state_values(batch, match_states(batch), batch.outcome, batch.outcome, gamma=0.5)
    assert value.tolist() == [1.5, 1.5, 4.0]  # the mean of 1 and 2
    assert reached.tolist() == [1.5, 4.0, 8.0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # A^E 5, 5, -5; A^NC 2.5, 0, -2.5; A^EC 1.25, 2.5, -3.75
        ({"std": False}, [8.75, 7.5, -11.25]),
        ({"std": False, "edge_weight": 0.0}, [7.5, 5.0, -7.5]),
        ({"std": False, "weight": 0.5}, [6.875, 6.25, -8.125]),
        ({"std": False, "episode_weight": 0.0}, [3.75, 2.5, -6.25]),
        # by the deviations of {10, 0}, of {5, 0} and of {3.75, 5, -1.25}, each plus 1e-6
        ({}, [0.70710668 + 0.70710658 + 0.37796436, 0.70710668 + 0.75592872, -1.41421326 - 1.13389308]),
        (
            {"success_reward": 20.0, "std": False, "episode_weight": 0.0},
            [0.41666667, 9.16666667, -9.58333333],
        ),
    ],
)
def test_by_hand(options, expected):
    np.testing.assert_allclose(g2po.advantage(TWO, gamma=0.5, **options), expected, atol=1e-7)


NINE = batch_of(
    {"states": "ABCD", "rewards": [0, 0, 0, 10], "valid": [True, False, True, True]},
    {"states": "AC"},
    {"states": "BAB", "rewards": [0, 0, 10], "valid": [True, False, True]},
)


@pytest.mark.parametrize(
    ("std", "expected"),
    [
        (
            True,
            [
                1.72159278,
                -1.13629133,
                2.2290213,
                0.63355922,
                -2.95679572,
                -3.3565574,
                -0.47679343,
                1.66678243,
                1.67548214,
            ],
        ),
        (
            False,
            [
                5.99302407,
                -3.1618537,
                10.06370741,
                2.67370741,
                -10.99897593,
                -15.13629259,
                -1.04448704,
                5.81302407,
                5.7981463,
            ],
        ),
    ],
)
def test_the_authors_code_gives_these_numbers(std, expected):
    """Computed by it in double precision, with w = 0.8 and its other settings."""
    batch = NINE.with_columns(texts=tuple(f"page {state}" for state in NINE.state))
    result = g2po.advantage(batch, std=std, weight=0.8, **g2po.VERL_AGENT)
    np.testing.assert_allclose(result, expected, rtol=0, atol=2e-8)


def test_a_rejected_action_is_charged_where_compat_says():
    batch = batch_of(WINNER, {**LOSER, "valid": [False]})
    given_ = {"gamma": 0.5, "std": False, "episode_weight": 0.0}
    # the loser's R is -.1: V(A) = (2.5 - .05) / 2 = 1.225, and its step leads to -.1
    paid = g2po.advantage(batch, **given_)
    gains = np.array([5 - 1.225, 5.0, -0.1 - 1.225])
    np.testing.assert_allclose(paid, np.array([2.55, 0.0, -2.55]) + gains - gains.mean(), atol=1e-12)
    # off the row: V is as without it, the step's own comparison has it, its gain has not
    row = g2po.advantage(batch, compat=Compat(invalid_penalty="row"), **given_)
    np.testing.assert_allclose(row, [2.55 + 1.25, 2.5, -2.55 - 3.75], atol=1e-12)


def walks(seed):
    """Return a batch of up to three groups that wander about four states."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=rng.integers(1, 17))
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    return StepBatch.of(
        group=trajectory % 3,
        trajectory=trajectory,
        state=rng.integers(0, 4, size=len(trajectory)),
        reward=rng.choice([0.0, -0.1, 10.0], size=len(trajectory)),
        valid=rng.random(len(trajectory)) < 0.8,
    )


def test_a_thousand_batches_are_as_their_loops():
    for seed in range(1000):
        batch = walks(seed)
        np.testing.assert_allclose(g2po.advantage(batch), loops.g2po(batch), rtol=0, atol=1e-10)


@given(batches(invalid=False))
def test_without_steps_it_is_grpo_and_without_a_win_nothing(batch):
    np.testing.assert_array_equal(g2po.advantage(batch, weight=0.0), grpo.advantage(batch))
    lost = batch.with_columns(outcome=np.zeros(len(batch)))
    assert not g2po.advantage(lost).any()


@given(batches(repeats=False))
def test_states_seen_once_leave_only_the_gains(batch):
    result = g2po.advantage(batch, edge_weight=0.0)
    np.testing.assert_allclose(result, g2po.advantage(batch, weight=0.0), atol=1e-12)


@given(batches(invalid=False))
def test_a_thousandfold_reward_credits_alike(batch):
    larger = batch.with_columns(outcome=1000.0 * batch.outcome)
    plain = g2po.advantage(batch, std=False)
    np.testing.assert_allclose(g2po.advantage(larger, std=False), 1000.0 * plain, atol=1e-8)


def test_no_steps_have_no_advantages():
    empty = StepBatch.of(group=[], trajectory=[], state=[], reward=[])
    assert g2po.advantage(empty).shape == (0,)


def test_what_is_out_of_range_is_refused():
    with pytest.raises(ValueError, match="gamma"):
        g2po.advantage(TWO, gamma=1.5)
    with pytest.raises(ValueError, match="texts is missing"):
        g2po.advantage(TWO, match="text")


def test_its_objective_is_gigpos():
    assert (g2po.OBJECTIVE, g2po.TOKEN_OBJECTIVE) == (gigpo.OBJECTIVE, gigpo.TOKEN_OBJECTIVE)
