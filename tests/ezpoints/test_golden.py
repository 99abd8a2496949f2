"""Episodes of EZPoints that must never change without a new version; see `tests.golden`."""

import json

import pytest

from agentgym.envs.ezpoints.cards import SPLITS
from agentgym.envs.ezpoints.env import EZPointsEnv
from tests.golden import Golden, play

SCRIPTS = ("first operator second =", "second + + first = ", "first first 1 word second * =", "=", "1 " * 15)
"""Episodes in terms of the values on the two cards."""

CASES = [
    {"split": split, "rewards": rewards, "seed": seed, "script": script}
    for split in SPLITS
    for rewards in ("verl-agent", "gym-cards")
    for seed, script in enumerate(SCRIPTS)
]


def record(case):
    """Play a case's script, and keep every link of its chain."""
    env = EZPointsEnv(split=case["split"], rewards=case["rewards"])

    def choose(info):
        left, right = env.task.content
        words = {
            "first": str(left.value),
            "second": str(right.value),
            "operator": "+*"[env.task.type == "product"],
        }
        script = case["script"].split()
        return words.get(script[info["turn"]], script[info["turn"]]) if info["turn"] < len(script) else None

    episode = play(env, case["seed"], choose, scope="ezpoints")
    return {**case, "task": env.task.source_id, "won": episode.info["won"], "links": episode.links}


GOLDEN = Golden.beside(__file__, CASES, record)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_golden_episodes(number):
    GOLDEN.check(number)


def test_some_episodes_are_won():
    assert {episode["won"] for episode in json.loads(GOLDEN.file.read_text())} == {False, True}
