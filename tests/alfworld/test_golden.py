"""Episodes whose rewards, observations and hashes must never change without a new version.

A change that is meant bumps ``-vN`` or ``state_schema``; then run this file as a program to write
`golden_chain.json` anew.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from agentgym.envs.alfworld.env import ALFWorldEnv
from agentgym.hashing import HashChain, content_id

FILE = Path(__file__).with_name("golden_chain.json")
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
    text, info = env.reset(seed=case["seed"])
    chain = HashChain("golden", info["task_id"], case["seed"], 0, info["state_hash"])
    rng = np.random.Generator(np.random.PCG64(case["seed"]))
    script = env.walkthrough(env.task) if case["expert"] else ()
    texts, actions = [text], []
    terminated = truncated = False
    while not (terminated or truncated):
        turn, commands = info["turn"], info["admissible_actions"]
        if case["expert"]:
            action = script[turn]
        else:
            word = int(rng.bit_generator.random_raw())
            action = "dance" if turn % 8 == 7 else commands[word % len(commands)]
        text, reward, terminated, truncated, info = env.step(action)
        chain.extend(info["state_hash"], action, reward, terminated, truncated)
        texts.append([text, list(commands), info["held"], list(info["moved"]), info["progress"]])
        actions.append(action)
    return {
        **case,
        "task_id": info["task_id"],
        "won": info["won"],
        "actions": actions,
        "chain": chain.links[-1],
        "observations": content_id(texts),
        "manifest": env.tasks.manifest_sha256,
    }


@pytest.mark.parametrize("number", range(len(CASES)))
def test_golden_episodes(number):
    assert record(CASES[number]) == json.loads(FILE.read_text())[number]


if __name__ == "__main__":
    FILE.write_text(json.dumps([record(case) for case in CASES], indent=1) + "\n")
