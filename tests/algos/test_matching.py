"""States matched by hash, text, similarity and embedding, always within a group."""

import numpy as np
import pytest
from hypothesis import given

from agentgym.algos.batch import StepBatch
from agentgym.algos.graph import match_edges
from agentgym.algos.matching import group_sizes, match_states
from tests.algos.episodes import batch_of, batches


def rooms(**columns):
    return StepBatch.of(
        group=[0, 0, 0, 1], trajectory=[0, 0, 1, 2], state="ABAA", reward=[0.0] * 4, **columns
    )


def test_states_are_matched_within_a_group():
    assert match_states(rooms()).tolist() == [0, 1, 0, 2]


def test_text_ignores_the_hash():
    assert match_states(rooms(texts=("x", "x", "y", "x")), "text").tolist() == [0, 0, 1, 2]


def test_similar_joins_near_texts_to_the_first_member_of_a_cluster():
    near = "a" * 39 + "b", "a" * 39 + "c"  # 78 of 80 characters match: 0.975
    batch = rooms(texts=(near[0], "z", near[1], near[1]))
    assert match_states(batch, "similar").tolist() == [0, 1, 0, 2]
    assert match_states(batch, "similar", threshold=0.99).tolist() == [0, 1, 2, 3]


def test_texts_as_similar_as_the_threshold_are_one_state():
    batch = rooms(texts=("abcd", "z", "abce", "abce"))  # 6 of 8 characters match: 0.75
    assert match_states(batch, "similar", threshold=0.75).tolist() == [0, 1, 0, 2]


def test_similar_depends_on_the_first_member_not_on_chains():
    texts = ["a" * 20, "a" * 19 + "b", "a" * 18 + "bb"]
    batch = StepBatch.of(group=[0] * 3, trajectory=[0] * 3, state="ABC", reward=[0.0] * 3, texts=tuple(texts))
    assert match_states(batch, "similar").tolist() == [0, 0, 1]  # .95 of its neighbour, .9 of the first


def test_embeddings_join_by_cosine():
    angles = np.array([0.0, np.arccos(0.96), np.arccos(0.94), 0.0])
    vectors = 3.0 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    assert match_states(rooms(embeddings=vectors), "embedding").tolist() == [0, 0, 1, 2]
    assert match_states(rooms(embeddings=vectors), "embedding", threshold=1.0).tolist() == [0, 1, 2, 3]


@given(batches())
def test_texts_that_name_states_match_like_states(batch):
    assert np.array_equal(match_states(batch, "text"), match_states(batch))
    source, target = match_edges(batch, "text")
    exact_source, exact_target = match_edges(batch)
    ends = np.concatenate([source, target])
    exact = np.concatenate([exact_source, exact_target])
    assert np.array_equal(ends[:, None] == ends, exact[:, None] == exact)


def test_a_step_leads_to_where_the_next_one_starts():
    batch = batch_of({"states": "AB", "final": "A"}, {"states": "AC", "final": "D"})
    source, target = match_edges(batch.with_columns(texts=("p", "p", "p", "q")), "text")
    assert source.tolist() == [0, 0, 0, 1]
    assert target[:3].tolist() == [0, 0, 1]
    assert target[3] not in {0, 1}


def test_within_a_trajectory_the_next_text_is_where_a_step_leads():
    batch = batch_of({"states": "AAB", "final": "A"})
    source, target = match_edges(batch.with_columns(texts=("a room", "no such door", "a hall")), "text")
    assert source.tolist() == [0, 1, 2]
    assert target.tolist() == [1, 2, 0]


def test_group_sizes():
    assert group_sizes(match_states(rooms())).tolist() == [2, 1, 2, 1]


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("texts", "unknown match .*choose one of state, text"),
        ("text", "texts is missing"),
        ("similar", "texts is missing"),
        ("embedding", "embeddings is missing"),
    ],
)
def test_what_is_missing_is_named(match, message):
    with pytest.raises(ValueError, match=message):
        match_states(rooms(), match)


@pytest.mark.parametrize("unknown", ["", None])
def test_a_missing_hash_is_named(unknown):
    batch = StepBatch.of(group=[0, 0], trajectory=[0, 0], state=["A", unknown], reward=[0.0, 0.0])
    with pytest.raises(ValueError, match="state is missing on row 1: give every state's hash"):
        match_states(batch)
    assert match_states(batch.with_columns(texts=("x", "y")), "text").tolist() == [0, 1]


def test_bad_thresholds_and_vectors_are_refused():
    with pytest.raises(ValueError, match="threshold must be a number above 0 and at most 1"):
        match_states(rooms(), threshold=0.0)
    with pytest.raises(ValueError, match="embeddings must be finite and not zero: row 0"):
        match_states(rooms(embeddings=np.zeros((4, 2))), "embedding")
