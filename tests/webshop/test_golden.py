"""Episodes whose rewards, observations and hashes must never change without a new version.

A change that is meant bumps ``-vN`` or ``state_schema``; then run this file as a program to write
`golden_chain.json` anew.
"""

import json
from pathlib import Path

import pytest

from agentgym.envs.webshop.env import WebShopEnv
from agentgym.hashing import HashChain, content_id
from agentgym.rng import TurnRng
from agentgym.types import Request

FILE = Path(__file__).with_name("golden_chain.json")
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
    text, info = env.reset(seed=case["seed"])
    chain = HashChain("golden", info["task_id"], case["seed"], 0, info["state_hash"])
    oracle = env.oracle()
    texts, actions = [text], []
    terminated = truncated = False
    while not (terminated or truncated):
        action = expert(oracle, env, info) if case["oracle"] else stumble(info, case["seed"])
        text, reward, terminated, truncated, info = env.step(action)
        chain.extend(info["state_hash"], action, reward, terminated, truncated)
        texts.append([text, list(info["admissible_actions"])])
        actions.append(action)
    return {
        **case,
        "task_id": info["task_id"],
        "score": info["score"],
        "actions": actions,
        "chain": chain.links[-1],
        "observations": content_id(texts),
        "manifest": env.tasks.manifest_sha256,
    }


def expert(oracle, env, info):
    request = Request(
        episode=0,
        task_id=info["task_id"],
        task_type=info["task_type"],
        turn=info["turn"],
        observation="",
        admissible_actions=info["admissible_actions"],
        state_hash=info["state_hash"],
        seed=0,
        snapshot=env.snapshot,
    )
    return oracle.act([request])[0].action


def stumble(info, seed):
    """Return a random action that does not buy; searches are for two words of the instruction."""
    draws = TurnRng(seed, info["turn"])
    if info["turn"] % 8 == 7:
        return "click[the door]"
    choices = [action for action in info["admissible_actions"] if action != "click[buy now]"]
    words = [word for word in info["goal"].split() if "[" not in word]
    query = f"{words[draws.below(len(words))]} {words[draws.below(len(words))]}"
    return choices[draws.below(len(choices))].replace("<query>", query)


@pytest.mark.parametrize("number", range(len(CASES)))
def test_golden_episodes(number):
    assert record(CASES[number]) == json.loads(FILE.read_text())[number]


if __name__ == "__main__":
    FILE.write_text(json.dumps([record(case) for case in CASES], indent=1) + "\n")
