"""The columns that estimators read: what is filled in, what is refused, and rollouts as batches."""

from itertools import pairwise

import numpy as np
import pytest

from agentgym.algos.batch import StepBatch
from agentgym.core.types import Completion, Group, Step, Trajectory
from tests.algos.episodes import batch_of


def columns(**changes):
    return {"group": [0, 0, 0], "trajectory": [4, 4, 2], "state": "ABA", "reward": [0.0, 2.0, 0.0], **changes}


def test_the_rest_follows():
    batch = StepBatch.of(**columns(), truncated=[False, False, True])
    assert len(batch) == 3
    assert batch.state.tolist() == [0, 1, 0]
    assert batch.next_state[0] == 1
    assert len({0, 1, *batch.next_state[1:].tolist()}) == 4  # states of their own
    assert batch.step.tolist() == [0, 1, 0]
    assert batch.outcome.tolist() == [2.0, 2.0, 0.0]
    assert batch.won.tolist() == [True, True, False]
    assert batch.valid.all()
    assert batch.terminated.tolist() == [False, True, False]
    assert (batch.starts.tolist(), batch.lengths.tolist()) == ([0, 2], [2, 1])


def test_next_states_are_numbered_like_states():
    batch = StepBatch.of(**columns(), next_state=["B", "A", "C"])
    assert batch.next_state.tolist() == [1, 0, 2]


def test_no_state_is_minus_one():
    batch = StepBatch.of(**columns(state=["A", "", None]), next_state=["A", "B", ""])
    assert (batch.state.tolist(), batch.next_state.tolist()) == ([0, -1, -1], [0, 1, -1])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": [0.0, np.nan, 0.0]}, "reward must be finite, row 1 is nan"),
        ({"reward": [0.0, 1.0]}, "reward has 2 rows, group has 3"),
        ({"values": [1.0]}, "values has 1 rows, group has 3"),
        ({"truncated": [True, False]}, "truncated has 2 rows, group has 3"),
        ({"values": [1.0, np.inf, 0.0]}, "values must be finite, row 1 is inf"),
        ({"tokens": [1, -1, 1]}, "tokens must not be negative"),
        ({"trajectory": [4, 2, 4]}, "the steps of a trajectory must be consecutive rows"),
        ({"step": [0, 2, 0]}, "step must count each trajectory from 0: row 1 is 2"),
        ({"group": [0, 1, 0]}, "group must be the same on all rows of a trajectory"),
        ({"outcome": [1.0, 2.0, 0.0]}, "outcome must be the same on all rows of a trajectory"),
        ({"won": [True, False, False]}, "won must be the same on all rows of a trajectory"),
    ],
)
def test_what_is_wrong_is_named(changes, message):
    with pytest.raises(ValueError, match=message):
        StepBatch.of(**columns(**changes))


@pytest.mark.parametrize("name", ["group", "trajectory", "state", "reward"])
def test_what_is_needed_is_named(name):
    given = columns()
    del given[name]
    with pytest.raises(ValueError, match=f"{name} is missing: give one entry per step"):
        StepBatch.of(**given)


def trajectory(states, won, observation="text"):
    steps = tuple(
        Step(
            observation=f"seen {here}" if observation == "text" else {"text": f"seen {here}", "image": None},
            state_hash=here,
            admissible_actions=(),
            completion=Completion(action=f"to {there}", response_ids=(1, 2, 3)[: number + 1]),
            reward=float(won and number == len(states) - 2),
            next_state_hash=there,
            valid=number != 1,
            terminated=won and number == len(states) - 2,
            truncated=not won and number == len(states) - 2,
        )
        for number, (here, there) in enumerate(pairwise(states))
    )
    return Trajectory(
        env_id="env", task_id="task", task_type="", seed=0, rollout=0, initial_hash=states[0], steps=steps,
        final_observation="", won=won, score=float(won), progress=float(won), end_reason="success",
    )  # fmt: skip


def test_rollouts_are_rows():
    groups = [
        Group("task", "A", (trajectory("ABC", True), trajectory("AB", False))),
        Group("task", "A", (trajectory("AA", False, observation="image"),)),
    ]
    batch = StepBatch.from_groups(groups, values=[0.1, 0.2, 0.3, 0.4])
    assert batch.group.tolist() == [0, 0, 0, 1]
    assert batch.trajectory.tolist() == [0, 0, 1, 2]
    assert batch.state.tolist() == [0, 1, 0, 0]
    assert batch.next_state.tolist() == [1, 2, 1, 0]
    assert batch.won.tolist() == [True, True, False, False]
    assert batch.valid.tolist() == [True, False, True, True]
    assert batch.terminated.tolist() == [False, True, False, False]
    assert batch.truncated.tolist() == [False, False, True, True]
    assert batch.tokens.tolist() == [1, 2, 1, 1]
    assert batch.texts == ("seen A", "seen B", "seen A", "seen A")
    assert batch.actions == ("to B", "to C", "to B", "to A")
    assert batch.values.tolist() == [0.1, 0.2, 0.3, 0.4]


def test_no_rollouts_are_no_rows():
    assert len(StepBatch.from_groups([])) == 0


def test_columns_can_be_replaced():
    batch = batch_of({"states": "AB", "rewards": [0, 1]})
    assert batch.with_columns(reward=np.zeros(2)).reward.tolist() == [0.0, 0.0]
    assert batch.reward.tolist() == [0.0, 1.0]
