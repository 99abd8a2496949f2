"""gem: the entry point for ``gem.register``, by which ``gem.make`` and ``gem.make_vec`` make environments."""

from __future__ import annotations

from typing import Any

from gymnasium.utils.seeding import np_random

from agentgym.env import AgentEnv
from agentgym.registration import open_env


def make_gem_env(
    name: str, *, seed: int | None = None, split: str | None = None, **options: Any
) -> AgentEnv[Any]:
    """Return an environment for gem.

    Args:
        name: its id, such as ``agentgym/Sokoban-v0``; ``env_id`` is what gem calls its own.
        seed: seeds the environment's generator, which draws the task of a reset that has no seed;
            ``gem.make_vec`` gives each of its environments another.
        split: split of its tasks; None for the environment's default.
        **options: further options of its constructor.

    Raises:
        UsageError: an environment or option that is not known.
    """
    env = open_env(name, split=split, options=options)
    if seed is not None:
        env.np_random, env._np_random_seed = np_random(seed)
    return env
