"""Record the golden episodes: ``python -m tests.ezpoints.golden`` writes ``golden_chain.json``.

Run it only together with a new version of the id or of ``state_schema``.
"""

import json
from pathlib import Path

from agentgym.envs.ezpoints.cards import SPLITS
from agentgym.envs.ezpoints.env import EZPointsEnv
from agentgym.hashing import HashChain

FILE = Path(__file__).with_name("golden_chain.json")

SCRIPTS = ("first operator second =", "second + + first = ", "first first 1 word second * =", "=", "1 " * 15)
"""Episodes in terms of the values on the two cards."""


def record(split, rewards, seed, script):
    """Play a script from a seed and return everything that must stay as it is."""
    env = EZPointsEnv(split=split, rewards=rewards)
    _, info = env.reset(seed=seed)
    left, right = env.task.content
    words = {
        "first": str(left.value),
        "second": str(right.value),
        "operator": "+*"[env.task.type == "product"],
    }
    actions = [words.get(word, word) for word in script.split()]
    chain = HashChain("ezpoints", info["task_id"], seed, 0, info["state_hash"])
    for action in actions:
        _, reward, terminated, truncated, info = env.step(action)
        chain.extend(info["state_hash"], action, reward, terminated, truncated)
    return {
        "split": split,
        "rewards": rewards,
        "seed": seed,
        "script": script,
        "task": env.task.source_id,
        "won": info["won"],
        "links": chain.links,
    }


def record_all():
    """Return one episode for each split, rewards and script."""
    choices = [(split, rewards) for split in SPLITS for rewards in ("verl-agent", "gym-cards")]
    return [record(*choice, seed, script) for choice in choices for seed, script in enumerate(SCRIPTS)]


if __name__ == "__main__":
    FILE.write_text(json.dumps(record_all(), indent=1) + "\n")
