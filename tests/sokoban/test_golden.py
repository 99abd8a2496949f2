"""Episodes of Sokoban that must never change without a new version; see `tests.golden`."""

import pytest

from agentgym.envs.sokoban.env import SokobanEnv
from tests.golden import Golden, play, random_actions, summary

CASES = [
    {"options": {}, "seed": 0, "steps": 60},
    {"options": {"split": "test", "num_boxes": 2, "max_steps": 15}, "seed": 1, "steps": 15},
    {
        "options": {"actions": "full", "reward": "sparse", "dim_room": [7, 7], "num_boxes": 2},
        "seed": 2,
        "steps": 80,
    },
    {"options": {"parity": "gym-sokoban", "split": "valid"}, "seed": 3, "steps": 60},
    {"options": {"stream": True, "effective_only": True}, "seed": 4, "steps": 60},
]


def record(case):
    """Play a case's episode: so many random actions, every eighth one invalid."""
    env = SokobanEnv(**case["options"])
    choose = random_actions(case["seed"], "jump", env.names)

    def limited(info):
        return choose(info) if info["turn"] < case["steps"] else None

    return summary(case, env, play(env, case["seed"], limited))


GOLDEN = Golden.beside(__file__, CASES, record)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_golden_episodes(number):
    GOLDEN.check(number)
