"""Plays WebShop's own text environment at random: ``PYTHON webshop_upstream.py CHECKOUT SEED``.

`benchmarks.speed.webshop` starts it with the Python of a checkout; it imports nothing of this project. For
each line on standard input, a number of seconds of the processor, it plays for so long and prints how many
steps it made in each.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import time
from importlib import import_module
from typing import Any

PRODUCTS = 1_000

STEPS = 12
"""Of an episode that makes no purchase."""


def play(env: Any, rng: random.Random) -> int:
    """Play one episode: search what is asked for, then click at random; return its steps."""
    env.reset()
    env.step(f"search[{env.instruction_text}]")
    for taken in range(1, STEPS):
        clickables = [text for text in env.get_available_actions()["clickables"] if text != "search"]
        if not clickables:
            env.step(f"search[{env.instruction_text}]")
        elif env.step(f"click[{rng.choice(clickables)}]")[2]:
            return taken + 1
    return STEPS


def main() -> None:
    """Answer lines until there are none."""
    checkout, seed = sys.argv[1:]
    os.chdir(checkout)
    sys.path.insert(0, checkout)
    with contextlib.redirect_stdout(sys.stderr):
        module = import_module("web_agent_site.envs.web_agent_text_env")
        env = module.WebAgentTextEnv(observation_mode="text", num_products=PRODUCTS, human_goals=False)
    rng = random.Random(seed)
    for line in sys.stdin:
        steps, began = 0, time.process_time()
        while (took := time.process_time() - began) < float(line):
            with contextlib.redirect_stdout(sys.stderr):
                steps += play(env, rng)
        print(steps / took, flush=True)


if __name__ == "__main__":
    main()
