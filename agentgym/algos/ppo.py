"""PPO on response tokens (Schulman et al., 2017, arXiv:1707.06347), with GAE (2016, arXiv:1506.02438).

    delta_t = r_t + gamma V_(t+1) - V_t                                              (PPO, 12)
    A_t     = delta_t + gamma lam A_(t+1)                                            (PPO, 11)

t runs over the response tokens of a trajectory, all its steps chained into one sequence; prompts and masked
tokens lie outside the recursion and do not advance it. A step's reward is on its last token. Advantages are
then whitened over the batch's tokens.

verl-agent (`VERL_AGENT`) takes each step row for an episode of its own, which receives the whole episode's
outcome, and gives a truncated episode no value after its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agentgym.algos.advantage import Truncation, after_last, gae, masked_whiten
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.objective import Objective
from agentgym.algos.options import Discount
from agentgym.algos.tokens import Chain, SequenceOf
from agentgym.core.arrays import Bools, Floats

OBJECTIVE = Objective(kl_coefficient=0.01)
"""Eq. 7 with the paper's epsilon; the divergence is of published runs on agents' tasks."""

VERL_AGENT: Mapping[str, Any] = MappingProxyType({"sequence": "row", "truncation": "zero"})
"""Options of verl-agent."""


def advantage(
    batch: StepBatch,
    *,
    values: Floats | None,
    rewards: Floats | None = None,
    mask: Bools | None = None,
    gamma: Discount = 1.0,
    lam: Discount = 0.95,
    whiten: bool = True,
    sequence: SequenceOf = "trajectory",
    truncation: Truncation = "bootstrap",
    penalty: float = 0.1,
) -> Floats:
    """Advantage of each response token. The critic's targets are ``advantage(whiten=False) + values``.

    Args:
        batch: the steps; ``tokens`` counts their responses.
        values: (T,) the critic's value at each response token.
        rewards: (T,) of tokens; by default the steps' rewards (or outcomes), less the invalid-action
            penalty, on their last tokens.
        mask: (T,) the tokens that count; all by default.
        gamma: discount per token.
        lam: mixing weight.
        whiten: whether to shift and scale over the batch's tokens.
        sequence: horizon of the recursion.
        truncation: value after a truncated episode: ``next_values``, or 0. (A row that is not its
            trajectory's last is followed by 0.)
        penalty: the invalid-action penalty.

    Returns:
        (T,) packed in the order of the steps; 0 on masked tokens.

    Raises:
        ValueError: ``values``, ``tokens`` or ``next_values`` is missing, a shape is wrong, or an unknown
            choice.
    """
    if values is None:
        raise ValueError("values is missing: give the critic's value at each response token")
    chain = Chain.of(batch, sequence, mask)
    result = gae(
        chain.rewards(penalty) if rewards is None else chain.pick("rewards", rewards),
        chain.pick("values", values),
        chain.segment,
        gamma=gamma,
        lam=lam,
        bootstrap=chain.following(after_last(batch, truncation)),
    )
    return chain.spread(masked_whiten(result) if whiten else result)


ALGORITHM = Algorithm(
    title="PPO",
    paper="Schulman et al. 2017, arXiv:1707.06347",
    equation="11-12",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="token",
    unit="token",
    baseline="batch",
    stages="agentgym.training.stages.outcome:TOKEN_CRITIC",
    critic="token",
    page="ppo",
)
