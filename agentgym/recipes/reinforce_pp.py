"""REINFORCE++ (Hu et al., 2025, arXiv:2501.03262), as StepPO's tables compare with it.

tasks x episodes 128 x 1        learning rate   1e-6
discount         .99 per token  KL to reference .001 (k3)
"""

from agentgym.recipes.published import published

PAPER = published(
    {
        "rollout.tasks": 128,
        "rollout.group_size": 1,
        "objective.kl_coefficient": 0.001,
        "switches.gamma": 0.99,
    }
)
