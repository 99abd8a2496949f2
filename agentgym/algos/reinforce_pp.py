"""REINFORCE++ and its baseline form (Hu et al., 2025, arXiv:2501.03262).

    R_t = r_t + gamma R_(t+1),    A_t = whitened R_t over all tokens of the batch              REINFORCE++
    a_i = R_i - mean_g R,         A_t = whitened a_i over all tokens of the batch        with a group baseline

Tokens are those of a trajectory's responses, all its steps chained; masked tokens lie outside the recursion,
which carries a return over them unchanged (older public code reset it there). In the baseline form long
responses weigh more in the batch's mean and variance, since each token counts.
verl-agent (`VERL_AGENT`) takes each step row for an episode of its own, with the whole episode's outcome;
StepPO's public code (``sequence="step"``) with the step's own reward alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agentgym.algos.advantage import discounted, episode_relative, masked_whiten
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.objective import Objective
from agentgym.algos.options import Discount
from agentgym.algos.tokens import Chain, SequenceOf
from agentgym.core.arrays import Bools, Floats

OBJECTIVE = Objective(kl_coefficient=0.01)
"""PPO's surrogate. The paper puts the divergence into the rewards of tokens: pass those as ``rewards``."""

VERL_AGENT: Mapping[str, Any] = MappingProxyType({"sequence": "row"})
"""Options of verl-agent; the baseline form takes `agentgym.algos.compat.VERL_AGENT`."""


def advantage(
    batch: StepBatch,
    *,
    rewards: Floats | None = None,
    mask: Bools | None = None,
    gamma: Discount = 1.0,
    whiten: bool = True,
    sequence: SequenceOf = "trajectory",
    penalty: float = 0.1,
) -> Floats:
    """Whitened discounted return of each response token.

    Args:
        batch: the steps; ``tokens`` counts their responses.
        rewards: (T,) of tokens, such as ones that hold a divergence penalty; by default the steps' rewards
            (or outcomes), less the invalid-action penalty, on their last tokens.
        mask: (T,) the tokens that count; all by default.
        gamma: discount per token; StepPO's comparison runs use 0.99.
        whiten: False for the returns themselves.
        sequence: horizon of a return.
        penalty: the invalid-action penalty.

    Returns:
        (T,) packed in the order of the steps; 0 on masked tokens.

    Raises:
        ValueError: ``tokens`` is missing, a shape is wrong, or an unknown sequence.
    """
    chain = Chain.of(batch, sequence, mask)
    earned = chain.rewards(penalty) if rewards is None else chain.pick("rewards", rewards)
    result = discounted(earned, chain.segment, gamma)
    return chain.spread(masked_whiten(result) if whiten else result)


def baseline_advantage(
    batch: StepBatch,
    *,
    mask: Bools | None = None,
    whiten: bool = True,
    compat: Compat = PAPER,
) -> Floats:
    """Whitened difference of each episode's outcome to its group's mean, on its response tokens.

    Args:
        batch: the steps; ``tokens`` counts their responses.
        mask: (T,) the tokens that count; all by default.
        whiten: False for the differences themselves.
        compat: unit of the group's mean, groups of one, and the invalid-action penalty.

    Returns:
        (T,) packed in the order of the steps; 0 on masked tokens.
    """
    chain = Chain.of(batch, "trajectory", mask)
    result = chain.each(episode_relative(batch, std=False, compat=compat))
    return chain.spread(masked_whiten(result) if whiten else result)


ALGORITHM = Algorithm(
    title="REINFORCE++",
    paper="Hu et al. 2025, arXiv:2501.03262",
    equation="returns, whitened over the batch",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="token",
    unit="token",
    baseline="batch",
    page="reinforce_pp",
)


BASELINE_ALGORITHM = Algorithm(
    title="REINFORCE++-baseline",
    paper="Hu et al. 2025, arXiv:2501.03262",
    equation="group mean, whitened over the batch",
    advantage=baseline_advantage,
    objective=OBJECTIVE,
    credit="episode",
    unit="token",
    page="reinforce_pp",
)
