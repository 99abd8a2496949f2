"""VinePPO and exact credit: advantages from values of states that no critic has to learn.

    A_t = r_t + V(s_(t+1)) - V(s_t),    V = 0 where the episode is over

VinePPO (Kazemnejad et al., 2025, arXiv:2410.01679) takes for V(s) the mean return of K = 9 continuations that
the policy plays from s. Exact credit computes V from the policy's probability of every action in every state
of a task. V sums rewards less invalid-action penalties up to the step limit, which ends an episode, too.

`agentgym.training.stages.state_values` finds the values. Public code of VinePPO whitens A over a batch's
tokens, which is left out here: A keeps the scale of rewards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentgym.algos.advantage import step_rewards
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import Compat
from agentgym.algos.objective import Objective
from agentgym.core.arrays import Floats
from agentgym.core.options import PositiveInt

OBJECTIVE = Objective(kl_coefficient=1e-4)
"""PPO's, with public code's weight of the divergence."""


@dataclass(frozen=True, slots=True)
class Continuations:
    """Options of VinePPO's rollouts."""

    continuations: PositiveInt = 9
    """Continuations that are played from each state, K."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """Options of the search for all states of a task."""

    max_states: PositiveInt = 20_000
    """Most states of a task."""


def advantage(batch: StepBatch, *, penalty: float = 0.1) -> Floats:
    """Return (n,) what each step earns, and gains in value.

    Args:
        batch: the steps, with ``values`` and ``next_values``.
        penalty: the invalid-action penalty, taken off the step's reward; values have it, too.

    Raises:
        ValueError: a column is missing.
    """
    if batch.values is None or batch.next_values is None:
        raise ValueError("values and next_values are missing: give the values of each step's two states")
    return step_rewards(batch, Compat(penalty=penalty)) + batch.next_values - batch.values


ALGORITHM = Algorithm(
    title="VinePPO",
    paper="Kazemnejad et al. 2025, arXiv:2410.01679",
    equation="Section 4",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    baseline="batch",
    stages="agentgym.training.stages.state_values:VINE",
    stage_options=Continuations(),
    snapshot=True,
    page="vine",
)

EXACT_ALGORITHM = replace(
    ALGORITHM,
    title="Exact credit",
    paper="Sutton et al. 2000, policy gradient methods with function approximation",
    equation="Theorem 1",
    objective=Objective(),
    stages="agentgym.training.stages.state_values:EXACT",
    stage_options=Exploration(),
)
