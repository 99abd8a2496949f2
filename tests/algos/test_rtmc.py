"""RTMC: literal numbers by hand, and what must hold on any batch."""

import numpy as np
import pytest
from hypothesis import given

from agentgym.algos import rtmc
from agentgym.algos.batch import StepBatch
from benchmarks.speed import loops
from tests.algos.episodes import batch_of, batches

WINNER = {"states": "AB", "rewards": [0, 1], "actions": ["go", "win"]}
LOSER = {"states": "AC", "rewards": [0, 0], "actions": ["go", "lose"]}
TWO = batch_of(WINNER, LOSER)
"""By hand, with gamma .5: R is .5, 1, 0 and 0, so Q(A, go) = V(A) = .25, and V_0 = .5."""


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        # V' is (2 x .25 + 2 x .5) / 4, (1 + 2 x .5) / 3 and (0 + 2 x .5) / 3
        ({}, [-0.125, 1 / 3, -0.125, -1 / 3]),
        ({"prior": 0.0}, [0.0, 0.0, 0.0, 0.0]),
        ({"prior": 1.0}, [0.25 - 1 / 3, 0.25, 0.25 - 1 / 3, -0.25]),
        # by the deviation of -1/8, 1/3, -1/8 and -1/3 around their mean of -1/16
        ({"std": True}, [-0.51261459, 1.36697225, -0.51261459, -1.36697225]),
    ],
)
def test_by_hand(options, expected):
    np.testing.assert_allclose(rtmc.advantage(TWO, gamma=0.5, **options), expected, atol=1e-8)


def test_a_rollout_counts_for_an_action_once_and_by_its_first_visit():
    batch = batch_of({"states": "AAB", "rewards": [0, 0, 8], "actions": ["go", "go", "win"]})
    # R is 2, 4 and 8, and V_0 = 8: Q(A, go) = 2 and V'(A) = (2 + 2 x 8) / 3
    np.testing.assert_allclose(rtmc.advantage(batch, gamma=0.5), [-4.0, -4.0, 0.0], atol=1e-12)


def test_a_state_weighs_its_actions_by_their_rollouts():
    left, right = (
        {"states": "A", "rewards": [reward], "actions": [action]}
        for reward, action in ((1, "left"), (0, "right"))
    )
    batch = batch_of(left, left, left, right)
    np.testing.assert_allclose(rtmc.advantage(batch, prior=0.0), [0.25, 0.25, 0.25, -0.75], atol=1e-12)


def test_groups_share_no_states():
    batch = batch_of(WINNER, {**LOSER, "group": 1})
    # each is alone: Q is R, and V' = (R + 2 x V_0) / 3 with V_0 = 1 and 0
    np.testing.assert_allclose(rtmc.advantage(batch, gamma=0.5), [-1 / 3, 0.0, 0.0, 0.0], atol=1e-12)


def test_a_rejected_action_is_charged_on_its_step():
    batch = batch_of(WINNER, {**LOSER, "valid": [True, False]})
    # the loser's R is -.05 and -.1, and V_0 = .45
    expected = [0.225 - 1.35 / 4, 1 - 1.9 / 3, 0.225 - 1.35 / 4, -0.1 - 0.8 / 3]
    np.testing.assert_allclose(rtmc.advantage(batch, gamma=0.5), expected, atol=1e-12)
    plain = rtmc.advantage(TWO, gamma=0.5)
    np.testing.assert_array_equal(rtmc.advantage(batch, gamma=0.5, penalty=0.0), plain)


def walks(seed):
    """Return a batch of up to three groups that wander about four states by two actions."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 9, size=rng.integers(1, 17))
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    n = len(trajectory)
    return StepBatch.of(
        group=trajectory % 3,
        trajectory=trajectory,
        state=rng.integers(0, 4, size=n),
        reward=rng.choice([0.0, -0.1, 10.0], size=n),
        valid=rng.random(n) < 0.8,
        actions=tuple(rng.choice(["left", "right"], size=n).tolist()),
    )


def test_a_thousand_batches_are_as_their_loops():
    for seed in range(1000):
        batch = walks(seed)
        for std in (False, True):
            result = rtmc.advantage(batch, std=std)
            np.testing.assert_allclose(result, loops.rtmc(batch, std=std), rtol=0, atol=1e-10)


@given(batches())
def test_one_action_in_one_state_has_one_advantage(batch):
    result = rtmc.advantage(batch)
    names = list(zip(batch.group.tolist(), batch.state.tolist(), batch.actions, strict=True))
    first = dict(zip(reversed(names), reversed(result.tolist()), strict=True))
    np.testing.assert_array_equal(result, [first[name] for name in names])


@given(batches(invalid=False))
def test_a_thousandfold_reward_credits_a_thousandfold(batch):
    larger = batch.with_columns(reward=1000.0 * batch.reward)
    np.testing.assert_allclose(rtmc.advantage(larger), 1000.0 * rtmc.advantage(batch), atol=1e-8)
    lost = batch.with_columns(reward=np.zeros(len(batch)))
    assert not rtmc.advantage(lost, std=True).any()


def test_no_steps_have_no_advantages():
    empty = StepBatch.of(group=[], trajectory=[], state=[], reward=[], actions=())
    assert rtmc.advantage(empty, std=True).shape == (0,)


def test_what_is_missing_or_out_of_range_is_refused():
    with pytest.raises(ValueError, match="actions is missing: give the text of each step's action"):
        rtmc.advantage(TWO.with_columns(actions=None))
    with pytest.raises(ValueError, match="gamma"):
        rtmc.advantage(TWO, gamma=1.5)
    with pytest.raises(ValueError, match="prior"):
        rtmc.advantage(TWO, prior=-1.0)
