"""RLOO (Ahmadian et al., 2024, arXiv:2402.14740), as GiGPO's tables compare with it.

groups x size   16 x 8          learning rate   1e-6
KL to reference .01 (k3)        baseline        mean of the group's other episodes
"""

from agentgym.recipes.published import published

PAPER = published({"objective.kl_coefficient": 0.01})
