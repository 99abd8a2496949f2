"""GSPO (Zheng et al., 2025, arXiv:2507.18071).

groups x size   16 x 8          learning rate   1e-6
clipping        3e-4 below, 4e-4 above, of the sequence's geometric mean
KL to reference none
"""

from agentgym.recipes.published import published

PAPER = published({})
