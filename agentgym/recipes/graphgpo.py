"""GraphGPO (Cheng et al., 2026, arXiv:2605.26684).

    groups x size   16 x 8          learning rate   1e-6
    KL to reference .01 (k3)        reward of success   10
    omega           .10 on ALFWorld, .80 on Sokoban, .20 on WebShop
    weights         beta_G = beta_E = 1

Ratios are of tokens, as in the authors' code; Eq. 9 prints a step's product (see `trainers.gigpo`).
"""

from agentgym.recipes.published import ALFWORLD, SOKOBAN, WEBSHOP, published

PAPER = published(
    {
        "objective.ratio": "token",
        "objective.aggregation": "token-mean",
        "objective.kl_coefficient": 0.01,
    },
    {ALFWORLD: {"switches.omega": 0.1}, SOKOBAN: {"switches.omega": 0.8}, WEBSHOP: {"switches.omega": 0.2}},
)
