"""Settings that most published runs on agents' tasks share: their sizes, lengths and rates.

Sources: the tables of GiGPO (arXiv:2505.10978), HGPO (arXiv:2602.22817), GraphGPO (arXiv:2605.26684) and
StepPO (arXiv:2604.18401). Learning rate 1e-6, 16 tasks of 8 episodes, temperature 1 (evaluation .4), two past
turns in a prompt, a thought and an action between tags.
"""

from __future__ import annotations

from agentgym.training.config import Preset, Settings

ALFWORLD = "agentgym/ALFWorld-v0"
SOKOBAN = "agentgym/Sokoban-v0"
WEBSHOP = "agentgym/WebShop-v0"

COMMON: Settings = {
    "iterations": 150,
    "rollout.tasks": 16,
    "rollout.group_size": 8,
    "learner.learning_rate": 1e-6,
    "learner.critic_learning_rate": 1e-5,
    "learner.gradient_checkpointing": True,
    "learner.dtype": "bfloat16",
    "prompting.wording": "generic",
    "prompting.answer": "think-action",
    "prompting.choice": "free",
    "prompting.history": 2,
    "prompting.temperature": 1.0,
    "evaluation.temperature": 0.4,
    "evaluation.every": 5,
    "evaluation.tasks": 128,
}

BY_ENV: dict[str, Settings] = {
    ALFWORLD: {
        "env_options.dataset": "official",
        "env_options.max_steps": 50,
        "prompting.wording": "alfworld",
        "prompting.budget": 2048,
        "prompting.max_tokens": 512,
        "learner.minibatch_steps": 256,
        "evaluation.split": "valid_seen",
    },
    SOKOBAN: {
        "env_options.dim_room": [6, 6],
        "env_options.num_boxes": 2,
        "env_options.max_steps": 15,
        "prompting.wording": "sokoban",
        "prompting.budget": 1024,
        "prompting.max_tokens": 512,
        "learner.minibatch_steps": 64,
    },
    WEBSHOP: {
        "env_options.max_steps": 15,
        "prompting.wording": "webshop",
        "prompting.budget": 4096,
        "prompting.max_tokens": 512,
        "learner.minibatch_steps": 64,
    },
}
"""What depends on the environment: step limit, tokens of a prompt and a response, steps of a mini-batch."""


def published(own: Settings, by_env: dict[str, Settings] | None = None) -> Preset:
    """Return a preset of the common settings with an algorithm's own.

    Args:
        own: for every environment.
        by_env: for one.
    """
    # an environment's settings go before the general ones, so an algorithm's own go into both
    merged = {env: {**BY_ENV.get(env, {}), **own, **(by_env or {}).get(env, {})} for env in BY_ENV}
    return Preset({**COMMON, **own}, merged)
