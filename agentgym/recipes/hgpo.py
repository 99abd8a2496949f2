"""HGPO (He et al., 2026, arXiv:2602.22817).

groups x size   16 x 8          learning rate   1e-6
KL to reference .01 (k3)        discount        .95
history K       2               alpha           1
statistics      mean and deviation on ALFWorld, mean alone on WebShop
"""

from agentgym.recipes.published import WEBSHOP, published

PAPER = published(
    {
        "objective.kl_coefficient": 0.01,
        "switches.gamma": 0.95,
        "switches.history": 2,
        "switches.alpha": 1.0,
    },
    {WEBSHOP: {"switches.std": False}},
)
