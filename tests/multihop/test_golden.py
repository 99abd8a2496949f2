"""Episodes of the multi-hop suites that must never change without a new version; see `tests.golden`."""

import pytest

from agentgym.core.rng import TurnRng
from agentgym.registration import make
from tests.golden import Golden, play, summary
from tests.policy_requests import request_of

CASES = [
    {"env": "HotpotQA", "options": {"split": "test"}, "seed": 0, "oracle": True},
    {"env": "HotpotQA", "options": {"form": "search-r1", "first_search": True}, "seed": 1, "oracle": False},
    {"env": "TwoWiki", "options": {"split": "test_unseen"}, "seed": 2, "oracle": True},
    {"env": "TwoWiki", "options": {"corpus": "own", "aliases": False}, "seed": 3, "oracle": False},
    {"env": "MuSiQue", "options": {"split": "valid", "step_cost": "passages"}, "seed": 4, "oracle": True},
    {"env": "MuSiQue", "options": {"actions": "candidates", "k": 2}, "seed": 5, "oracle": False},
    {"env": "SearchQA", "options": {"split": "test"}, "seed": 6, "oracle": True},
    {"env": "SearchQA", "options": {"actions": "candidates", "form": "search-r1"}, "seed": 7, "oracle": True},
]


def record(case):
    """Play a case's episode: the oracle's, or random searches, every third step a rejected action."""
    env = make(f"agentgym/{case['env']}-v0", **case["options"])
    oracle = env.oracle()

    def choose(info):
        if case["oracle"]:
            return oracle.act([request_of(env, info)])[0].action
        return stumble(info, case["seed"])

    def show(text, before, after):
        return [text, list(after["admissible_actions"]), after["step_cost"]]

    episode = play(env, case["seed"], choose, show=show)
    return summary(case, env, episode, measures=env.measures())


def stumble(info, seed):
    """Return a random action, searches for two words of the question."""
    draws = TurnRng(seed, info["turn"])
    if info["turn"] % 3 == 2:
        return "search[]"
    words = info["question"].rstrip("?").split()
    query = f"{words[draws.below(len(words))]} {words[draws.below(len(words))]}"
    searches = [action for action in info["admissible_actions"] if action.startswith("search[")]
    return searches[draws.below(len(searches))].replace("<query>", query)


GOLDEN = Golden.beside(__file__, CASES, record)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_golden_episodes(number):
    GOLDEN.check(number)
