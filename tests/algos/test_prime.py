"""PRIME: literal numbers, the loop form, and what it must do at the edges."""

import numpy as np
import pytest
from hypothesis import given

from agentgym.algos import prime
from agentgym.algos.batch import StepBatch
from tests.algos.episodes import batch_of, batches


def answers(outcomes, lengths, group=None):
    n = len(outcomes)
    return StepBatch.of(
        group=group or [0] * n,
        trajectory=range(n),
        state=range(n),
        reward=[0.0] * n,
        outcome=outcomes,
        tokens=lengths,
    )


@pytest.mark.parametrize(
    ("outcomes", "lengths", "q", "expected"),
    [
        (
            [1, 0],
            [3, 2],
            [0.2, 0.4, 0.1, -0.3, -0.1],
            [1.06377235, 0.78592468, 0.19053682, -1.27811833, -0.76211551],
        ),
        (
            [1, 1, 0],
            [2, 2, 2],
            [0.1, 0.1, 0.2, -0.2, 0.0, 0.3],
            [0.5990365, 0.27231308, 1.25248334, 0.27231308, -1.36143471, -1.03471129],
        ),
    ],
)
def test_answers_to_one_prompt(outcomes, lengths, q, expected):
    result = prime.advantage(answers(outcomes, lengths), np.array(q))
    np.testing.assert_allclose(result, expected, atol=1e-8)


@pytest.mark.parametrize("lengths", [[2, 3, 1, 2, 1], [2, 0, 3, 1, 2]])
def test_process_and_outcome_have_weights(lengths):
    """The equations, token by token; an answer without tokens counts among those to its prompt."""
    won, prompt = [1, 0, 1, 1, 1], [0, 0, 0, 1, 1]
    q = np.sin(np.arange(sum(lengths)))
    parts = np.split(0.1 * q, np.cumsum(lengths)[:-1])
    for part in parts:
        part[-1:] = 0.0
    largest = max(abs(part[place:].sum()) for part in parts for place in range(len(part))) + 1e-6
    returns = []
    for answer, part in enumerate(parts):
        group = [other for other in range(5) if prompt[other] == prompt[answer]]
        n = len(group)
        means = sum(parts[other].mean() / largest for other in group if lengths[other])
        token = 2.0 * (n * part / largest - means) / (n - 1)
        token[-1:] += 7.0 * (n * won[answer] - sum(won[other] for other in group)) / (n - 1)
        returns += [token[place:].sum() for place in range(len(token))]
    expected = (np.array(returns) - np.mean(returns)) / np.std(returns, ddof=1)
    given = {"beta": 0.1, "process_weight": 2.0, "outcome_weight": 7.0}
    result = prime.advantage(answers(won, lengths, prompt), q, **given)
    np.testing.assert_allclose(result, expected, atol=1e-6)


def binary(batch):
    return batch.with_columns(outcome=batch.won.astype(np.float64))


@given(batches())
def test_masked_tokens_do_not_exist(batch):
    batch = binary(batch)
    rows = np.repeat(np.arange(len(batch)), batch.tokens)
    mask = np.arange(len(rows)) % 3 != 1
    q = np.sin(np.arange(len(rows)))
    fewer = batch.with_columns(tokens=np.bincount(rows[mask], minlength=len(batch)))
    result = prime.advantage(batch, np.where(mask, q, 1e6), mask=mask)
    assert np.array_equal(result[mask], prime.advantage(fewer, q[mask]))
    assert not result[~mask].any()


def test_each_step_can_answer_for_itself():
    steps = batch_of({"states": "AB", "won": True}, {"states": "C", "won": False}, tokens=[2, 1, 2])
    rows = answers([1, 1, 0], [2, 1, 2])
    q = np.array([0.1, 0.4, -0.2, 0.3, 0.3])
    expected = prime.advantage(rows, q)
    np.testing.assert_allclose(prime.advantage(binary(steps), q, sequence="row"), expected, atol=1e-12)
    assert not np.allclose(prime.advantage(binary(steps), q), expected)


def test_an_answer_alone_with_its_prompt():
    q = np.array([0.5, 0.1, 0.3, 0.2, -0.4, 0.7])
    batch = answers([1, 1, 0], [2, 2, 2], group=[0, 1, 1])
    together = prime.advantage(batch, q)
    raw = prime.advantage(batch, q, singleton="raw")
    assert np.isfinite(raw).all()
    assert not np.allclose(together, raw)
    assert prime.advantage(answers([1], [2]), q[:2]).tolist() == [0.0, 0.0]


def test_nothing_to_tell_apart_is_exactly_zero():
    assert prime.advantage(answers([1, 1], [1, 1]), np.array([0.3, -0.2])).tolist() == [0.0, 0.0]
    assert prime.advantage(answers([0, 0, 0], [1, 2, 1]), np.zeros(4)).tolist() == [0.0] * 4
    empty = StepBatch.of(group=[], trajectory=[], state=[], reward=[], tokens=[])
    assert prime.advantage(empty, np.zeros(0)).shape == (0,)


def test_an_answer_without_tokens():
    result = prime.advantage(answers([1, 0, 1], [2, 0, 1]), np.array([0.3, 0.2, 0.1]))
    assert result.shape == (3,)
    assert np.isfinite(result).all()


def test_prompts_of_middling_accuracy_are_kept():
    outcomes = [1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 0, 0]
    batch = answers(outcomes, [1] * 12, group=[0] * 5 + [1] * 5 + [2, 2])
    assert prime.keep(batch).tolist() == [True] * 5 + [False] * 5 + [False] * 2
    assert prime.keep(batch, high=1.0).tolist() == [True] * 10 + [False] * 2


def test_long_episodes_count_once_in_accuracy():
    batch = batch_of({"states": "ABCDEFGHI", "won": True}, *[{"states": "A", "won": False}] * 4)
    assert prime.keep(binary(batch)).all()


def test_what_is_wrong_is_named():
    with pytest.raises(
        ValueError, match=r"outcome must be 0 or 1 for PRIME, row 1 is 0\.5: use batch\.with_"
    ):
        prime.advantage(answers([1, 0.5], [1, 1]), np.zeros(2))
    with pytest.raises(ValueError, match="tokens is missing"):
        prime.advantage(answers([1, 0], [1, 1]).with_columns(tokens=None), np.zeros(2))
    with pytest.raises(ValueError, match=r"q has shape \(3,\), the responses have 2 tokens"):
        prime.advantage(answers([1, 0], [1, 1]), np.zeros(3))
    with pytest.raises(ValueError, match="unknown sequence"):
        prime.advantage(answers([1, 0], [1, 1]), np.zeros(2), sequence="word")
