"""DAPO (Yu et al., 2025, arXiv:2503.14476), on agents' tasks as GiGPO's appendix combines it.

groups x size   16 x 8          learning rate   1e-6
clipping        .2 below, .28 above             KL to reference   none
sampling        up to 10 rounds until 16 groups' returns differ
long responses  pay from 128 tokens before the limit of 512 on
"""

from agentgym.recipes.published import published

PAPER = published(
    {
        "rollout.attempts": 10,
        "rollout.filter_on": "return",
        "objective.clip_high": 0.28,
        "switches.max_tokens": 512,
        "switches.buffer": 128,
    }
)
