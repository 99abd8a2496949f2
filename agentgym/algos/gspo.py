"""GSPO: group sequence policy optimisation (Zheng et al., 2025, arXiv:2507.18071).

    A_i = (R_i - mean_g R) / std_g R                                                       (6)
    s_i = exp(mean over t of log pi(y_t) - log pi_old(y_t))                                (7)
    every token of response i uses  sg[s_i] * exp(log pi(y_t) - sg[log pi(y_t)])          (14)

The advantage is GRPO's; what is new is the importance ratio, of the whole response and on the scale of one
token, hence clipped at 1 - 3e-4 and 1 + 4e-4. `agentgym.algos.loss` computes it under
``Objective(ratio="sequence")``; a response here is that of one step. No dual clip.
"""

from agentgym.algos.grpo import VERL_AGENT, advantage

__all__ = ["VERL_AGENT", "advantage"]
