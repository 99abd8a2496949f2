"""Episodes of WebShop that must never change without a new version; see `tests.golden`."""

import pytest

from agentgym.core.rng import TurnRng
from agentgym.envs.webshop.env import WebShopEnv
from tests.golden import Golden, play, summary
from tests.policy_requests import request_of

CASES = [
    {"options": {"split": "test"}, "seed": 0, "oracle": True},
    {"options": {"observation": "text_rich", "split": "test_unseen"}, "seed": 1, "oracle": True},
    {
        "options": {"observation": "text_rich", "difficulty": "easy", "parity": "upstream"},
        "seed": 2,
        "oracle": False,
    },
    {
        "options": {"observation": "gigpo", "show_attributes": True, "max_steps": 30},
        "seed": 3,
        "oracle": False,
    },
    {
        "options": {"noise": 0.5, "adverts": 3, "previous_observations": 2, "previous_actions": 1},
        "seed": 4,
        "oracle": False,
    },
]


def record(case):
    """Play a case's episode: the oracle's, or random actions, every eighth one unknown."""
    env = WebShopEnv(**case["options"])
    oracle = env.oracle()

    def choose(info):
        if case["oracle"]:
            return oracle.act([request_of(env, info)])[0].action
        return stumble(info, case["seed"])

    def show(text, before, after):
        return [text, list(after["admissible_actions"])]

    episode = play(env, case["seed"], choose, show=show)
    return summary(case, env, episode, score=episode.info["score"])


def stumble(info, seed):
    """Return a random action that does not buy; searches are for two words of the instruction."""
    draws = TurnRng(seed, info["turn"])
    if info["turn"] % 8 == 7:
        return "click[the door]"
    choices = [action for action in info["admissible_actions"] if action != "click[buy now]"]
    words = [word for word in info["goal"].split() if "[" not in word]
    query = f"{words[draws.below(len(words))]} {words[draws.below(len(words))]}"
    return choices[draws.below(len(choices))].replace("<query>", query)


GOLDEN = Golden.beside(__file__, CASES, record)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_golden_episodes(number):
    GOLDEN.check(number)
