"""A loop of one's own: a model behind an OpenAI client plays an environment.

python examples/chat_loop.py http://localhost:8000/v1 MODEL --env agentgym/ALFWorld-v0 --split valid_unseen
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import openai

import agentgym


def play(client: openai.OpenAI, model: str, env: agentgym.ChatEnv, seed: int) -> bool:
    """Play an episode; return whether it was won."""
    messages: Any
    messages, info = env.reset(seed=seed)
    over = False
    while not over:
        answer = client.chat.completions.create(model=model, messages=messages)
        text = answer.choices[0].message.content or ""
        messages, _, terminated, truncated, info = env.step(text)
        over = terminated or truncated
    return bool(info["won"])


def main() -> None:
    """Play episodes, and print the share that is won."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("model")
    parser.add_argument("--env", default="agentgym/Sokoban-v0")
    parser.add_argument("--split")
    parser.add_argument("--episodes", type=int, default=10)
    given = parser.parse_args()
    try:
        env = agentgym.chat(given.env, split=given.split)
        client = openai.OpenAI(base_url=given.url)
        won = [play(client, given.model, env, seed) for seed in range(given.episodes)]
    except openai.OpenAIError as error:
        sys.exit(f"{given.url}: {error}")
    except agentgym.UsageError as error:
        sys.exit(str(error))
    print(f"won {sum(won)} of {len(won)}")


if __name__ == "__main__":
    main()
