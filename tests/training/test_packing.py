import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.core.types import Completion, Group, Step, Trajectory
from agentgym.errors import UsageError
from agentgym.training.learner.packing import NO_CHOICE, StepRow, pack_rows, sampled_log_probs, step_rows

token = st.integers(0, 50)
free_rows = st.lists(
    st.builds(
        StepRow,
        st.lists(token, min_size=1, max_size=9).map(tuple),
        st.lists(token, max_size=6).map(tuple),
    ),
    max_size=12,
)


@given(free_rows, st.integers(1, 30))
def test_packs_hold_every_token_once_and_say_where_it_came_from(rows, budget):
    packs = pack_rows(rows, token_budget=budget)
    assert sorted(row for pack in packs for row in pack.rows) == list(range(len(rows)))
    sampled = np.array([token for row in rows for token in row.response_ids], dtype=np.int64)
    restored = np.full(len(sampled), -1)
    for pack in packs:
        assert len(pack.input_ids) <= budget or len(pack.rows) == 1
        restored[pack.tokens] = pack.targets.numpy()
        begin = 0
        for place, row in enumerate(pack.rows):
            end = begin + len(rows[row])
            read = pack.input_ids[begin:end].tolist()
            assert read == [*rows[row].prompt_ids, *rows[row].response_ids[:-1]]
            assert pack.position_ids[begin:end].tolist() == list(range(end - begin))
            assert pack.ends[begin:end].tolist() == [end] * (end - begin)
            assert pack.prompt_ends[place] == begin + len(rows[row].prompt_ids) - 1
            begin = end
        assert begin == len(pack.input_ids)
    assert np.array_equal(restored, sampled)


@given(free_rows, st.integers(1, 30))
def test_a_response_token_is_predicted_from_the_one_before_it(rows, budget):
    for pack in pack_rows(rows, token_budget=budget):
        before = [
            ids[k]
            for row in pack.rows
            for ids in [(*rows[row].prompt_ids, *rows[row].response_ids)]
            for k in range(len(rows[row].prompt_ids) - 1, len(ids) - 1)
        ]
        assert pack.input_ids[pack.predictors].tolist() == before


def test_the_longest_rows_come_first_and_short_ones_fill_the_gaps():
    rows = [StepRow((1,) * size, (2,)) for size in (3, 9, 1, 6, 1)]
    assert [pack.rows.tolist() for pack in pack_rows(rows, token_budget=10)] == [[1, 2], [3, 0, 4]]


def test_choices_are_filled_up_to_one_width():
    rows = [StepRow((1,), (2, 3), ((2, 5, 6), (3,))), StepRow((1,), (7,), ((7, 8),))]
    (pack,) = pack_rows(rows, token_budget=9)
    assert pack.choices.tolist() == [
        [2, 5, 6],
        [3, NO_CHOICE, NO_CHOICE],
        [7, 8, NO_CHOICE],
    ]


def test_rows_without_tokens_are_in_no_pack():
    packs = pack_rows([StepRow((), ()), StepRow((1,), (2,))], token_budget=4)
    assert [pack.rows.tolist() for pack in packs] == [[1]]
    assert pack_rows([], token_budget=4) == []


def test_what_cannot_be_packed_is_refused():
    with pytest.raises(UsageError, match="token_budget must be at least 1, got 0"):
        pack_rows([], token_budget=0)
    with pytest.raises(UsageError, match="constrained and others free"):
        pack_rows([StepRow((1,), (2,), ((2,),)), StepRow((1,), (2,))], token_budget=4)
    with pytest.raises(UsageError, match="empty prompt"):
        StepRow((), (2,))
    for choices in (((3,),), ((2,), (2,))):
        with pytest.raises(UsageError, match="the tokens it was chosen from"):
            StepRow((1,), (2,), choices)


def rollout(*completions, admissible):
    steps = tuple(
        Step("seen", "s", admissible, completion, 0.0, "t", True, False, False) for completion in completions
    )
    trajectory = Trajectory("e", "task", "", 0, 0, "s", steps, "", True, 1.0, 1.0, "success")
    return Group("task", "s", (trajectory,))


def test_rows_of_rollouts_hold_what_was_sampled_and_allowed(speller):
    actions = ("look", "go to shelf", "go to drawer")
    trie = speller.trie(actions)
    ids = speller.spell("go to drawer")
    said = Completion("go to drawer", prompt_ids=(4, 5), response_ids=ids, logprobs=(-0.5,) * len(ids))
    silent = Completion("")
    groups = [rollout(said, silent, admissible=actions)]
    first, second = step_rows(groups, speller)
    assert (first.prompt_ids, first.response_ids) == ((4, 5), ids)
    assert first.choices == trie.allowed_along(ids)
    assert second == StepRow((), ())
    assert step_rows(groups)[0] == StepRow((4, 5), ids)
    assert sampled_log_probs(groups).tolist() == [-0.5] * len(ids)


def test_a_response_that_was_not_allowed_is_refused(speller):
    said = Completion("look", prompt_ids=(4,), response_ids=speller.spell("look"))
    with pytest.raises(UsageError, match="give the speller that sampled them"):
        step_rows([rollout(said, admissible=("wait",))], speller)
