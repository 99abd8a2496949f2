from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentgym.agents.random import MAX_STRING_LENGTH, RandomPolicy, RandomStringPolicy
from agentgym.core.hashing import canonical
from tests.policy_requests import request


def asking(actions=("up", "down", "left"), seed=0, turn=0, observation="A cat sat."):
    return request(admissible_actions=actions, seed=seed, turn=turn, observation=observation)


def act(policy, asked):
    (completion,) = policy.act([asked])
    return completion.action


@given(
    actions=st.lists(st.text(min_size=1), min_size=1, max_size=9).map(tuple),
    seed=st.integers(0, 2**64 - 1),
    turn=st.integers(0, 500),
)
def test_random_is_admissible_and_repeatable(actions, seed, turn):
    asked = asking(actions, seed, turn)
    assert act(RandomPolicy(), asked) in actions
    assert act(RandomPolicy(), asked) == act(RandomPolicy(), asked)


def test_random_is_uniform():
    requests = [asking(seed=seed, turn=turn) for seed in range(100) for turn in range(90)]
    counts = Counter(completion.action for completion in RandomPolicy().act(requests))
    assert counts.keys() == {"up", "down", "left"}
    assert sum((count - 3000) ** 2 / 3000 for count in counts.values()) < 14  # p = 0.001 at 2 degrees


def test_random_without_admissible_actions_says_nothing():
    assert act(RandomPolicy(), asking(())) == ""


@pytest.mark.parametrize("observation", ["A cat sat.", {"text": "A cat sat.", "image": None}])
def test_random_fills_templates_with_words_of_the_observation(observation):
    asked = [asking(("search[<query>]", "stop"), seed, 0, observation) for seed in range(300)]
    actions = {completion.action for completion in RandomPolicy("template").act(asked)}
    assert "stop" in actions
    actions.remove("stop")
    assert all(action.startswith("search[") and action.endswith("]") for action in actions)
    queries = [action[len("search[") : -1].split(" ") for action in actions]
    assert {len(query) for query in queries} == {1, 2, 3}
    assert {word for query in queries for word in query} == {"A", "cat", "sat"}


def test_random_fills_templates_without_words_with_their_name():
    assert set(act(RandomPolicy("template"), asking(("say <reply>",), observation="...")).split()) == {
        "say",
        "reply",
    }


def test_angle_brackets_of_enumerated_actions_stay():
    assert act(RandomPolicy("enumerated"), asking(("click[<b>]",))) == "click[<b>]"


def test_random_strings_are_of_every_kind():
    asked = [asking(seed=seed) for seed in range(2000)]
    said = [completion.action for completion in RandomStringPolicy().act(asked)]
    assert said == [completion.action for completion in RandomStringPolicy().act(asked)]
    assert "" in said
    assert max(map(len, said)) == MAX_STRING_LENGTH
    assert any(text.isspace() for text in said)
    assert any(text.isascii() and text.strip() for text in said)
    assert any(text and ord(max(text)) > 0xFFFF for text in said)
    assert any("\0" in text for text in said)
    assert any(text == "up" + "down" for text in said)
    for text in said:
        assert text.encode("utf-8").decode("utf-8") == text  # no lone surrogates
        canonical(text)


def test_random_strings_without_admissible_actions():
    for seed in range(200):
        assert isinstance(act(RandomStringPolicy(), asking((), seed)), str)
