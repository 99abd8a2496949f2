"""REINFORCE++-baseline (Hu et al., 2025, arXiv:2501.03262): the group's mean as baseline.

groups x size   16 x 8          learning rate   1e-6
KL to reference .01 (k3)        advantages      whitened over the batch's tokens
"""

from agentgym.recipes.published import published

PAPER = published({"objective.kl_coefficient": 0.01})
