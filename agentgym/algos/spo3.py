"""3SPO: spend rollouts where a state is still worth it (state score, step reward, state-wise expansion).

    p(s) = N_succ / (N_tot + 1e-6),    lambda(t) = alpha ln t
    S(s) = exp(-lambda(t) p(s)) 1[N_fail < xi or p(s) > zeta],    S = 1 where s is new
    R    = w 1[s' != s] + (1/2 - w) (S(s) - S(s')) + R_succ / 2,    w = exp(-N_tot / 10) / 2
    K(s) = ceil(G_max S(s))

At a state K actions are sampled from the *same* state and compared with each other; K = 1 takes one step
without an update, K = 0 stops there. t is the state's depth in its trajectory, from 1 (Appendix C.4, A.4);
the public code counts finished trajectories of the run, and never calls its own rollout. Eqs. 1-4 are as its
README and core module give them.

`agentgym.algos.state_score` computes S, K and R, with their options; `agentgym.training.stages.branching`
plays the rollouts. The samples of one expansion are compared with each other alone (`StepBatch.expansion`).

With the published constants K is 0, 1 or 8 for every t >= 2: p is at least 0.1 where S is between 0 and 1,
so S is at most 2^-5. Any alpha above 30 gives the same K there; `shares` warns of it.
"""

from __future__ import annotations

from typing import Annotated

from agentgym.algos.advantage import relative
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.matching import Match, match_states
from agentgym.algos.objective import Objective
from agentgym.algos.state_score import Allotment, Visits, reward, rollouts, score, shares
from agentgym.core.arrays import Floats
from agentgym.core.options import POSITIVE_UNIT

__all__ = [
    "ALGORITHM",
    "OBJECTIVE",
    "Allotment",
    "Visits",
    "advantage",
    "reward",
    "rollouts",
    "score",
    "shares",
]

OBJECTIVE = Objective(kl_coefficient=0.01)
"""Clipped tokens; the sources name no other ratio."""


def advantage(
    batch: StepBatch,
    *,
    std: bool = True,
    match: Match = "state",
    threshold: Annotated[float, POSITIVE_UNIT] = 0.95,
) -> Floats:
    """Compare the actions sampled at each state by ``batch.reward``, which holds `reward`.

    Args:
        batch: n steps. Where ``batch.expansion`` says which expansion they are samples of, a state that was
            expanded twice is two groups: its score and the policy were others each time.
        std: whether to divide by the group's unbiased deviation.
        match: criterion by which two states are the same, where expansions are not known. In training,
            visits are counted by it: "state" or "text".
        threshold: least similarity under "similar" and "embedding".

    Returns:
        (n,) exactly 0 for an action without a sibling, and where all of a state's are alike.
    """
    siblings = batch.expansion
    if siblings is None:
        siblings = match_states(batch, match, threshold=threshold)
    return relative(batch.reward, siblings, std=std)


ALGORITHM = Algorithm(
    title="3SPO",
    paper="3SPO's public README and core module",
    equation="1-4",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    states=True,
    stages="agentgym.training.stages.branching.collector:STAGES",
    stage_options=Allotment(),
    snapshot=True,
    page="spo3",
)
