"""MaskablePPO of sb3-contrib learns small Sokoban levels from arrays.

Run ``python examples/stable_baselines3_maskable_ppo.py`` with the packages ``stable-baselines3`` and
``sb3-contrib``: it prints the share of test levels that the policy wins before and after learning.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import gymnasium
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.wrappers import ActionMasker
from stable_baselines3.common.env_util import make_vec_env

ENV_ID = "agentgym:agentgym/SokobanArray-v0"
LEVELS: dict[str, Any] = {"max_optimal": 4, "max_steps": 20}
"""Levels that can be solved in four moves, 20 steps each."""


def make_env(split: str) -> gymnasium.Env:
    """Return the environment with the mask where MaskablePPO looks for it."""
    env = gymnasium.make(ENV_ID, split=split, **LEVELS)
    return ActionMasker(env, lambda env: env.get_wrapper_attr("action_masks")())


def win_rate(model: MaskablePPO, episodes: int) -> float:
    """Return the share of test levels won by sampled actions, level i with seed i."""
    env = make_env("test")
    model.set_random_seed(0)
    wins = 0
    for seed in range(episodes):
        observation, info = env.reset(seed=seed)
        over = False
        while not over:
            action, _ = model.predict(observation, action_masks=info["action_mask"])
            observation, _, terminated, truncated, info = env.step(action)
            over = terminated or truncated
        wins += info["won"]
    return wins / episodes


def main(arguments: Sequence[str] | None = None) -> None:
    """Learn, and print the win rates before and after."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=120_000, help="environment steps (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=200, help="test levels (default: %(default)s)")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    envs = make_vec_env(make_env, n_envs=8, seed=0, env_kwargs={"split": "train"})
    model = MaskablePPO(
        "MlpPolicy", envs, n_steps=256, batch_size=256, gamma=0.95, learning_rate=1e-3, ent_coef=0.01, seed=0
    )
    print(f"before: {win_rate(model, given.episodes):.1%} of test levels won")
    model.learn(given.steps)
    print(f"after {given.steps} steps: {win_rate(model, given.episodes):.1%} of test levels won")


if __name__ == "__main__":
    main()
