"""Conversations that must never change without a new version; see `tests.golden`."""

import pytest

from agentgym.core.rng import TurnRng
from agentgym.envs.sotopia.env import SotopiaEnv
from agentgym.envs.sotopia.rules import BargainerPolicy
from tests.golden import Golden, play, summary
from tests.policy_requests import request_of

CASES = [
    {"options": {}, "seed": 0},
    {"options": {"split": "test", "partner": "stubborn"}, "seed": 1},
    {"options": {"split": "hard", "partner": "deceptive", "reward": "utterance"}, "seed": 2},
    {"options": {"split": "valid", "partner": "silent", "order": "simultaneous", "view": "lite"}, "seed": 3},
    {"options": {"partner": "generous", "actions": "candidates", "max_turns": 8}, "seed": 4},
    {"options": {"mode": "self-chat", "order": "random", "view": "omniscient"}, "seed": 5},
    {"options": {"mode": "self-chat", "stale_rule": "0.1.4", "unreadable": "none"}, "seed": 6},
    {"options": {"split": "test", "partner": "fair", "unreadable": "none"}, "seed": 7},
]
WORDS = ("Let me think.", "What matters most to you?", "That is too much, sorry.", "Please!")


def record(case):
    """Play a case's episode: the rule's actions, now and then words, nothing, or what is no action."""
    env = SotopiaEnv(**case["options"])

    def choose(info):
        draws = TurnRng(case["seed"], info["turn"])
        listed = info["admissible_actions"]
        what = draws.below(8)
        if what == 0:
            return "no such action"
        if env.action_kind == "enumerated" and what < 4:
            return listed[draws.below(len(listed) - 1)]
        if what in (1, 2):
            return f"speak[{WORDS[draws.below(len(WORDS))]}]" if what == 1 else "none"
        if env.options.view == "omniscient":
            return f"non-verbal[waves {draws.below(3)} times]"
        return (
            BargainerPolicy()
            .act([request_of(env, info, observation=env._observe(), snapshot=None)])[0]
            .action
        )

    episode = play(
        env, case["seed"], choose, show=lambda text, _, after: [text, list(after["admissible_actions"])]
    )
    return summary(case, env, episode, score=episode.info["score"], measures=env.measures())


GOLDEN = Golden.beside(__file__, CASES, record)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_golden_episodes(number):
    GOLDEN.check(number)


def test_the_episodes_come_to_something():
    scores = [record(case)["score"] for case in CASES]
    assert sum(score > 0 for score in scores) >= 3
