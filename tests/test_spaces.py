"""UnicodeText: membership by type and length, and what Gymnasium asks of a space."""

import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate

from agentgym import UnicodeText


@pytest.mark.parametrize("text", ["", "a", "grüße 世界 🂡", "\x00\n", "\ud800", "x" * 8])
def test_holds_any_short_string(text):
    assert text in UnicodeText(max_length=11)


@pytest.mark.parametrize("other", ["x" * 12, b"bytes", 3, None, ["a"], np.array("a")])
def test_holds_nothing_else(other):
    assert other not in UnicodeText(max_length=11)


def test_membership_does_not_walk_the_string():
    class Untouchable(str):
        def __iter__(self):
            raise AssertionError("walked")

    assert Untouchable("abc") in UnicodeText()


def test_samples_belong_and_follow_the_seed():
    space, twin = UnicodeText(max_length=5, seed=3), UnicodeText(max_length=5)
    twin.seed(3)
    samples = [space.sample() for _ in range(50)]
    assert samples == [twin.sample() for _ in range(50)]
    assert all(1 <= len(sample) <= 5 and sample in space for sample in samples)
    assert len(set(samples)) > 40


def test_samples_take_no_mask():
    with pytest.raises(ValueError, match="no mask"):
        UnicodeText().sample(mask=np.ones(3))


def test_equality_is_of_the_limit():
    assert UnicodeText(5) == UnicodeText(5, seed=1)
    assert UnicodeText(5) != UnicodeText(6)
    assert UnicodeText(5) != gymnasium.spaces.Text(5)


def test_a_limit_below_one_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        UnicodeText(0)


def test_travels():
    space = UnicodeText(7, seed=2)
    copy = pickle.loads(pickle.dumps(space))
    assert copy == space
    assert copy.sample() == space.sample()
    assert space.from_jsonable(space.to_jsonable(["a", "ü"])) == ["a", "ü"]
    assert repr(space) == "UnicodeText(7)"


def test_is_not_gymnasium_s_text():
    """Which a shared-memory AsyncVectorEnv would take for ASCII of fixed width."""
    assert not isinstance(UnicodeText(), gymnasium.spaces.Text)
    assert not UnicodeText().is_np_flattenable


def test_gymnasium_batches_it():
    space = UnicodeText()
    batched = batch_space(space, 3)
    texts = ("a", "b", "c")
    assert texts in batched
    assert concatenate(space, texts, create_empty_array(space, 3)) == texts
    assert tuple(iterate(batched, texts)) == texts
