"""Episodes of ALFWorld that must never change without a new version; see `tests.golden`."""

import pytest

from agentgym.envs.alfworld.env import ALFWorldEnv
from tests.golden import Golden, play, random_actions, summary

CASES = [
    {"options": {}, "seed": 0, "expert": False},
    {"options": {"observation": "augmented", "split": "valid_unseen"}, "seed": 1, "expert": False},
    {
        "options": {"show_help": False, "task_types": ["heat", "cool"], "max_steps": 20},
        "seed": 2,
        "expert": False,
    },
    {"options": {"observation": "augmented", "task_types": ["pick2"]}, "seed": 3, "expert": True},
    {"options": {"split": "valid_seen", "difficulty": "hard"}, "seed": 4, "expert": True},
]


def record(case):
    """Play a case's episode: its walkthrough, or random commands, every eighth one unknown."""
    env = ALFWorldEnv(**case["options"])
    stumble = random_actions(case["seed"], "dance")

    def choose(info):
        return env.walkthrough(env.task)[info["turn"]] if case["expert"] else stumble(info)

    def show(text, before, after):
        commands = list(before["admissible_actions"])
        return [text, commands, after["held"], list(after["moved"]), after["progress"]]

    episode = play(env, case["seed"], choose, show=show)
    return summary(case, env, episode, won=episode.info["won"])


GOLDEN = Golden.beside(__file__, CASES, record)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_golden_episodes(number):
    GOLDEN.check(number)
