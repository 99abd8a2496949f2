"""GRPO (Shao et al., 2024, arXiv:2402.03300), as GiGPO's and GraphGPO's tables compare with it.

groups x size   16 x 8          learning rate   1e-6
KL to reference .01 (k3)        clipping        .2
statistics      mean and unbiased deviation of the group's returns; loss averaged over tokens
"""

from agentgym.recipes.published import published

PAPER = published({"objective.kl_coefficient": 0.01})
