"""PPO with a critic of tokens (Schulman et al., 2017, arXiv:1707.06347), as StepPO's tables compare with it.

tasks x episodes 128 x 1        learning rate   1e-6, critic 1e-5
discount         1              lambda          .95
KL to reference  .001 (k3)
"""

from agentgym.recipes.published import published

PAPER = published(
    {
        "rollout.tasks": 128,
        "rollout.group_size": 1,
        "objective.kl_coefficient": 0.001,
    }
)
