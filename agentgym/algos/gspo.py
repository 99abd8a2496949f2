"""GSPO: group sequence policy optimisation (Zheng et al., 2025, arXiv:2507.18071).

    A_i = (R_i - mean_g R) / std_g R                                                       (6)
    s_i = exp(mean over t of log pi(y_t) - log pi_old(y_t))                                (7)
    every token of response i uses  sg[s_i] * exp(log pi(y_t) - sg[log pi(y_t)])          (14)

The advantage is GRPO's; what is new is the importance ratio, of the whole response and on the scale of one
token, hence clipped at 1 - 3e-4 and 1 + 4e-4. `agentgym.algos.loss` computes it under
`OBJECTIVE`; a response here is that of one step. No dual clip.
"""

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.grpo import advantage
from agentgym.algos.objective import Objective

__all__ = ["ALGORITHM", "OBJECTIVE", "advantage"]

OBJECTIVE = Objective(ratio="sequence", aggregation="seq-mean-token-mean", clip_low=3e-4, clip_high=4e-4)
"""Eqs. 5 and 13, with the bounds of Section 5.1."""


ALGORITHM = Algorithm(
    title="GSPO",
    paper="Zheng et al. 2025, arXiv:2507.18071",
    equation="6-7",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="episode",
    page="gspo",
)
