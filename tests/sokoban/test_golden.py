"""Episodes whose rewards, observations and hashes must never change without a new version.

A change that is meant bumps ``-vN`` or ``state_schema``; then run this file as a program to write
`golden_chain.json` anew.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from agentgym.envs.sokoban.env import SokobanEnv
from agentgym.hashing import HashChain, content_id

FILE = Path(__file__).with_name("golden_chain.json")
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
    """Play a case's episode: random actions, every eighth one invalid."""
    env = SokobanEnv(**case["options"])
    text, info = env.reset(seed=case["seed"])
    chain = HashChain("golden", info["task_id"], case["seed"], 0, info["state_hash"])
    rng = np.random.Generator(np.random.PCG64(case["seed"]))
    texts, actions = [text], []
    terminated = truncated = False
    for turn in range(case["steps"]):
        word = int(rng.bit_generator.random_raw())
        action = "jump" if turn % 8 == 7 else env.names[word % len(env.names)]
        text, reward, terminated, truncated, info = env.step(action)
        chain.extend(info["state_hash"], action, reward, terminated, truncated)
        texts.append(text)
        actions.append(action)
        if terminated or truncated:
            break
    return {
        **case,
        "task_id": info["task_id"],
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
