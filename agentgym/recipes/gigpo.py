"""GiGPO (Feng et al., 2025, arXiv:2505.10978, Appendix D).

    groups x size   16 x 8          learning rate   1e-6
    KL to reference .01 (k3)        discount        .95
    weight w        1               invalid action  -.1
    ALFWorld        50 steps, 2048 + 512 tokens, mini-batches of 256 steps
    Sokoban         15 steps, 1024 + 512 tokens, mini-batches of 64 steps

Responses of hundreds of tokens leave the clipping range of Eq. 9's product of ratios at once, so that the
authors' code takes ratios of tokens; so does this recipe. ``--set objective.ratio=step_product --set
objective.aggregation=step-mean`` is the equation.
"""

from agentgym.recipes.published import published

PAPER = published(
    {
        "objective.ratio": "token",
        "objective.aggregation": "token-mean",
        "objective.kl_coefficient": 0.01,
        "switches.gamma": 0.95,
        "switches.weight": 1.0,
        "switches.penalty": 0.1,
    }
)
