import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.algos.batch import StepBatch
from agentgym.algos.tokens import Batch, Chain, check_tokens, pad, padding_mask, token_counts, token_mask

STEPS = StepBatch.of(
    group=[0, 0, 0, 0],
    trajectory=[0, 0, 0, 1],
    state="ABCA",
    reward=[1.0, 2.0, 4.0, 8.0],
    tokens=[2, 0, 1, 2],
    valid=[True, True, False, True],
)


# ---- chains --------------------------------------------------------------------------------


def test_a_steps_reward_is_on_its_last_token_and_an_empty_steps_on_the_token_before():
    result = Chain.of(STEPS, "trajectory", None).rewards(penalty=0.5)
    assert result.tolist() == [0.0, 3.0, 3.5, 0.0, 8.0]


def test_rows_receive_the_episodes_outcome_and_their_own_price():
    result = Chain.of(STEPS, "row", None).rewards(penalty=0.5)
    assert result.tolist() == [0.0, 7.0, 6.5, 0.0, 8.0]


def test_masked_tokens_receive_nothing():
    mask = np.array([True, False, True, True, False])
    chain = Chain.of(STEPS, "trajectory", mask)
    assert chain.rewards(penalty=0.0).tolist() == [3.0, 4.0, 8.0]
    assert chain.spread(np.array([1.0, 2.0, 3.0])).tolist() == [1.0, 0.0, 2.0, 3.0, 0.0]
    assert chain.segment.tolist() == [0, 0, 1]


def test_what_an_empty_first_step_earns_is_no_tokens_doing():
    steps = StepBatch.of(
        group=[0, 0, 0], trajectory=[0, 1, 1], state="AAB", reward=[1.0, 2.0, 4.0], tokens=[1, 0, 1]
    )
    assert Chain.of(steps, "trajectory", None).rewards(penalty=0.0).tolist() == [1.0, 4.0]
    assert Chain.of(steps, "row", None).rewards(penalty=0.0).tolist() == [1.0, 6.0]


def test_a_batch_without_any_tokens():
    steps = STEPS.with_columns(tokens=np.zeros(4, dtype=np.int64))
    chain = Chain.of(steps, "trajectory", None)
    assert chain.rewards(penalty=0.1).shape == chain.segment.shape == (0,)


def test_what_follows_is_the_last_steps_even_where_that_has_no_tokens():
    steps = STEPS.with_columns(tokens=np.array([2, 1, 0, 1]))
    after = np.array([0.0, 0.0, 5.0, 6.0])
    assert Chain.of(steps, "trajectory", None).following(after).tolist() == [5.0, 5.0, 5.0, 6.0]
    assert Chain.of(steps, "row", None).following(after).tolist() == [0.0, 0.0, 0.0, 6.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: token_counts(STEPS.with_columns(tokens=None)), "tokens is missing"),
        (lambda: check_tokens(STEPS, "values", np.zeros(3)), r"values has shape \(3,\), .* have 5 tokens"),
        (lambda: check_tokens(STEPS, "values", np.array([0, 0, np.nan, 0, 0])), "finite, token 2 is not"),
        (lambda: token_mask(STEPS, np.ones(4)), r"mask has shape \(4,\)"),
        (lambda: Chain.of(STEPS, "episode", None), "unknown sequence .*choose one of trajectory, row"),
    ],
)
def test_bad_columns_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# ---- padding -------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 5), max_size=6))
def test_padding_is_undone_by_its_mask(lengths):
    lengths = np.array(lengths, dtype=np.int64)
    x = np.arange(lengths.sum()) + 1
    rows = pad(x, lengths, fill=-1)
    mask = padding_mask(lengths)
    np.testing.assert_array_equal(rows[mask], x)
    assert (rows[~mask] == -1).all()
    np.testing.assert_array_equal(mask.sum(1), lengths)


# ---- what a learner reads ------------------------------------------------------------------


def learner_batch():
    return Batch.of(
        STEPS,
        np.array([1.0, 2.0, 3.0, 4.0]),
        credit="step",
        valued="step",
        old_log_probs=np.array([-0.1, -0.2, -0.3, -0.4, -0.5]),
        values=np.array([10.0, 11.0, 12.0, 13.0]),
        returns=np.array([5.0, 6.0, 7.0, 8.0]),
    )


def test_select_takes_steps_with_their_tokens_in_the_order_given():
    part = learner_batch().select(np.array([3, 0]))
    assert part.lengths.tolist() == [2, 2]
    assert part.trajectory.tolist() == [1, 0]
    assert part.advantages.tolist() == [4.0, 1.0]
    assert part.returns.tolist() == [8.0, 5.0]
    assert part.old_log_probs.tolist() == [-0.4, -0.5, -0.1, -0.2]
    assert part.values.tolist() == [13.0, 10.0]
    assert part.ref_log_probs is None


def test_selecting_everything_changes_nothing():
    batch = learner_batch()
    same = batch.select(np.arange(len(batch)))
    for name in ("lengths", "trajectory", "advantages", "old_log_probs", "values", "returns"):
        np.testing.assert_array_equal(getattr(same, name), getattr(batch, name))


def test_padded_columns_spread_steps_over_their_tokens():
    batch = learner_batch()
    assert batch.padded("advantages").tolist() == [[1.0, 1.0], [0.0, 0.0], [3.0, 0.0], [4.0, 4.0]]
    assert batch.padded("old_log_probs", fill=1).tolist() == [[-0.1, -0.2], [1, 1], [-0.3, 1], [-0.4, -0.5]]


def test_a_missing_or_misshapen_column_is_named():
    with pytest.raises(ValueError, match="ref_log_probs is missing"):
        learner_batch().padded("ref_log_probs")
    with pytest.raises(ValueError, match=r"advantages must have shape \(4,\), one per step, not \(5,\)"):
        Batch.of(STEPS, np.zeros(5), credit="step", old_log_probs=np.zeros(5))
    with pytest.raises(ValueError, match=r"old_log_probs must have shape \(5,\), one per token, not \(4,\)"):
        Batch.of(STEPS, np.zeros(4), credit="step", old_log_probs=np.zeros(4))
    with pytest.raises(ValueError, match=r"unknown credit .*choose one of step, token"):
        Batch.of(STEPS, np.zeros(4), credit="episode", old_log_probs=np.zeros(5))
    with pytest.raises(ValueError, match="valued is missing"):
        Batch.of(STEPS, np.zeros(4), credit="step", old_log_probs=np.zeros(5), values=np.zeros(4))
    with pytest.raises(ValueError, match="credit is not a column"):
        learner_batch().padded("credit")


def test_columns_of_as_many_steps_as_tokens_are_what_the_batch_says():
    steps = STEPS.with_columns(tokens=np.array([2, 0, 1, 1]))
    parts = {}
    for per in ("step", "token"):
        column = np.array([1.0, 2.0, 3.0, 4.0])
        batch = Batch.of(
            steps, column, credit=per, old_log_probs=column, valued=per, values=column, returns=column
        )
        parts[per] = batch.select(np.array([2, 1, 0]))
        assert parts[per].old_log_probs.tolist() == [3.0, 1.0, 2.0]
        assert parts[per].values.tolist() == parts[per].returns.tolist() == parts[per].advantages.tolist()
    assert parts["step"].advantages.tolist() == [3.0, 2.0, 1.0]
    assert parts["token"].advantages.tolist() == [3.0, 1.0, 2.0]
    assert parts["step"].padded("advantages").tolist() == [[3.0, 0.0], [0.0, 0.0], [1.0, 1.0]]
    assert parts["token"].padded("advantages").tolist() == [[3.0, 0.0], [0.0, 0.0], [1.0, 2.0]]
