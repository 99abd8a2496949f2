"""SAMPO: GiGPO's advantage under GSPO's ratio, with dynamic filtering (Wang et al., 2026, arXiv:2602.21534).

    A(a_t) = A^E(tau_i) + w A^S(a_t)                                as in `agentgym.algos.gigpo`
    s_t    = exp(mean over the tokens of step t of log pi - log pi_old)
    loss   = mean over steps of max(-A s, -A clip(s, 1 - 0.003, 1 + 0.004)) + 0.01 KL

What the paper's study of four dimensions (aggregation, clipping, filtering, advantages) settles on, as its
authors' public code puts it together: every token of step t uses ``sg[s_t] * pi / sg[pi]`` as in
`agentgym.algos.gspo`, within bounds ten times as wide. Groups whose episodes all earn the same are played
again; that is a run's setting, ``rollout.attempts``, and not the advantage's.
"""

from agentgym.algos.algorithm import Algorithm
from agentgym.algos.gigpo import VERL_AGENT, advantage
from agentgym.algos.objective import Objective

__all__ = ["ALGORITHM", "OBJECTIVE", "VERL_AGENT", "advantage"]

OBJECTIVE = Objective(
    ratio="sequence", aggregation="seq-mean-token-mean", clip_low=3e-3, clip_high=4e-3, kl_coefficient=0.01
)
"""Objective of the authors' scripts for ALFWorld and WebShop."""


ALGORITHM = Algorithm(
    title="SAMPO",
    paper="Wang et al. 2026, arXiv:2602.21534",
    equation="GiGPO's advantage, GSPO's ratio",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    states=True,
    page="sampo",
)
