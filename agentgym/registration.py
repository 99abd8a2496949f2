"""The one list of environments. Entry points are strings: registering imports no environment."""

from __future__ import annotations

from typing import NamedTuple

import gymnasium


class Entry(NamedTuple):
    """Where an environment's two forms live, as ``module:Class``."""

    single: str
    vector: str


ENVIRONMENTS: dict[str, Entry] = {
    "agentgym/Sokoban-v0": Entry(
        "agentgym.envs.sokoban.env:SokobanEnv",
        "agentgym.envs.sokoban.vector:SokobanVectorEnv",
    ),
    "agentgym/VisualSokoban-v0": Entry(
        "agentgym.envs.sokoban.env:VisualSokobanEnv",
        "agentgym.envs.sokoban.vector:VisualSokobanVectorEnv",
    ),
    "agentgym/EZPoints-v0": Entry(
        "agentgym.envs.ezpoints.env:EZPointsEnv",
        "agentgym.envs.ezpoints.vector:EZPointsVectorEnv",
    ),
    "agentgym/ALFWorld-v0": Entry(
        "agentgym.envs.alfworld.env:ALFWorldEnv",
        "agentgym.envs.alfworld.vector:ALFWorldVectorEnv",
    ),
    "agentgym/WebShop-v0": Entry(
        "agentgym.envs.webshop.env:WebShopEnv",
        "agentgym.envs.webshop.vector:WebShopVectorEnv",
    ),
}
"""Registered ids. No ``max_episode_steps``: environments truncate themselves (see ``max_steps``)."""


def register_environments() -> None:
    """Add every environment to Gymnasium's registry, once."""
    for env_id, entry in ENVIRONMENTS.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point=entry.single, vector_entry_point=entry.vector)
