"""StepPO (Wang et al., 2026, arXiv:2604.18401).

tasks x episodes 128 x 1        learning rate   1e-6, critic 1e-5
discount         .99 per step   lambda          1
KL to reference  .001 (k3)      advantages      whitened over the batch's steps (the public code)
ALFWorld         20 steps, 8192 + 4096 tokens
WebShop          16384 + 4096 tokens
"""

from agentgym.recipes.published import ALFWORLD, WEBSHOP, published

PAPER = published(
    {
        "rollout.tasks": 128,
        "rollout.group_size": 1,
        "objective.kl_coefficient": 0.001,
        "switches.gamma": 0.99,
        "switches.lam": 1.0,
        "switches.whiten": True,
        "learner.minibatch_steps": 128,
    },
    {
        ALFWORLD: {"env_options.max_steps": 20, "prompting.budget": 8192, "prompting.max_tokens": 4096},
        WEBSHOP: {"prompting.budget": 16384, "prompting.max_tokens": 4096},
    },
)
