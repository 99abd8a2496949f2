import numpy as np
import pytest
from hypothesis import given

from agentgym.algos.batch import StepBatch
from agentgym.algos.filters import dynamic_sampling, overlong_penalty, select, varied
from agentgym.core.types import Completion, Group, Step, Trajectory
from tests.algos.episodes import batches, one_step_episodes


def group_of(*returns):
    members = tuple(
        Trajectory(
            env_id="e",
            task_id="t",
            task_type="",
            seed=0,
            rollout=k,
            initial_hash="0",
            steps=(Step("", "0", (), Completion("a"), value, "1", True, True, False),),
            final_observation="",
            won=value >= 1,
            score=value,
            progress=0.0,
            end_reason="success" if value >= 1 else "failure",
        )
        for k, value in enumerate(returns)
    )
    return Group("t", "0", members)


def test_groups_whose_episodes_all_earn_the_same_are_dropped():
    batch = one_step_episodes([1, 1, 0, 1, 0, 0], [0, 0, 1, 1, 2, 2])
    assert varied(batch).tolist() == [False, False, True, True, False, False]


def test_returns_may_differ_where_success_does_not():
    batch = one_step_episodes([0.3, 0.5, 0.4], [0, 0, 1], won=[False, False, True])
    assert varied(batch, "return").tolist() == [True, True, False]
    assert varied(batch, "won").tolist() == [False, False, False]


def test_returns_summed_in_another_order_are_the_same():
    assert 0.1 + 0.2 != 0.3
    assert not varied(one_step_episodes([0.1 + 0.2, 0.3], [0, 0])).any()
    assert dynamic_sampling(lambda: [group_of(0.1 + 0.2, 0.3)], 1, attempts=2) == [group_of(0.1 + 0.2, 0.3)]


@given(batches())
def test_what_is_selected_is_whole_and_varied(batch):
    kept = select(batch, varied(batch))
    assert set(kept.trajectory) == set(batch.trajectory[varied(batch)])
    assert varied(kept).all()


def test_selecting_part_of_a_trajectory_is_refused():
    batch = StepBatch.of(group=[0, 0], trajectory=[0, 0], state="AB", reward=[0, 1])
    with pytest.raises(ValueError, match="step must count each trajectory from 0"):
        select(batch, np.array([False, True]))


def test_sampling_goes_on_until_enough_groups_vary_and_cuts_the_surplus():
    rounds = iter([[group_of(1, 1), group_of(0, 1)], [group_of(0, 0), group_of(1, 0), group_of(0, 1)]])
    kept = dynamic_sampling(lambda: next(rounds), 2)
    assert [[t.episode_return for t in group.trajectories] for group in kept] == [[0, 1], [1, 0]]


def test_the_last_attempt_is_kept_whole():
    calls = []

    def generate():
        calls.append(1)
        return [group_of(0, 0), group_of(1, 1)]

    kept = dynamic_sampling(generate, 5, attempts=3)
    assert len(calls) == 3
    assert len(kept) == 2


def test_sampling_on_success_ignores_partial_rewards():
    groups = [group_of(0.1, 0.9), group_of(0.1, 1.0)]
    rounds = iter([groups, groups])
    kept = dynamic_sampling(lambda: next(rounds), 1, filter_on="won")
    assert kept == [groups[1]]


def test_price_of_long_responses():
    lengths = np.array([1, 384, 385, 448, 512, 600])
    result = overlong_penalty(lengths, max_tokens=512, buffer=128)
    np.testing.assert_allclose(result, [0.0, 0.0, -1 / 128, -0.5, -1.0, -1.0])
    np.testing.assert_allclose(overlong_penalty(lengths, max_tokens=512, buffer=128, factor=0.5), result / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: varied(one_step_episodes([1], [0]), "score"), "unknown filter_on"),
        (lambda: dynamic_sampling(list, 1, filter_on="score"), "unknown filter_on"),
        (lambda: dynamic_sampling(list, 1, attempts=0), "attempts must be at least 1"),
        (
            lambda: select(StepBatch.of(group=[0], trajectory=[0], state="A", reward=[0]), np.ones(2, bool)),
            r"keep must have shape \(1,\), not \(2,\)",
        ),
        (lambda: overlong_penalty(np.array([1]), max_tokens=4, buffer=8), "buffer must be between 1 and"),
        (lambda: overlong_penalty(np.array([1]), max_tokens=4, buffer=2, factor=-1), "factor must not be"),
    ],
)
def test_bad_switches_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize(("won", "kept"), [(0, False), (1, True), (4, True), (5, False)])
def test_groups_of_middling_accuracy(won, kept):
    batch = StepBatch.of(
        group=[0] * 5, trajectory=range(5), state="AAAAA", reward=[1.0] * won + [0.0] * (5 - won)
    )
    assert varied(batch, "accuracy").tolist() == [kept] * 5
    assert varied(batch, "accuracy", (0.0, 1.0)).all()
