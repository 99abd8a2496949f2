"""The algorithms by name: what each one computes, needs and minimises. Imports no torch.

Adding one is a module, a line here, and a test.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from agentgym.algos import (
    dapo,
    gigpo,
    graphgpo,
    grpo,
    gspo,
    hgpo,
    istar,
    ppo,
    prime,
    reinforce_pp,
    rloo,
    spo3,
    steppo,
)
from agentgym.algos.objective import Objective
from agentgym.arrays import Floats

if TYPE_CHECKING:
    from torch import Tensor

    from agentgym.algos.loss import PolicyLoss, TokenLayout

CreditLevel: TypeAlias = Literal["episode", "step", "token"]
"""What gets an advantage of its own; the tokens of one share it."""

Unit: TypeAlias = Literal["step", "token"]
"""What a column of advantages has an entry for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Algorithm:
    """One algorithm.

    Example:
        >>> ALGORITHMS["gigpo"].credit, ALGORITHMS["gigpo"].defaults["gamma"]
        ('step', 0.95)
    """

    title: str
    advantage: Callable[..., Floats]
    """From an `agentgym.algos.batch.StepBatch` and keyword arguments to (n,) of steps or (T,) of tokens."""
    objective: Objective
    """The policy's loss."""
    credit: CreditLevel
    unit: Unit = "step"
    """Whether advantages are (n,) of steps or (T,) of tokens."""
    paper: str
    equation: str
    """Where the paper defines the advantage."""
    page: str
    """Name of its page under ``docs/algorithms``."""
    critic: Literal["step", "token"] | None = None
    """What a critic has to value, or None."""
    reward_model: bool = False
    """Whether a process reward model is trained beside the policy."""
    states: bool = False
    """Whether steps are compared by the state they were taken in."""
    snapshot: bool = False
    """Whether rollouts return to earlier states."""

    @property
    def reference(self) -> bool:
        """Whether log-probabilities under a frozen reference are needed."""
        return self.objective.kl_coefficient > 0 or self.advantage is prime.advantage

    @property
    def defaults(self) -> Mapping[str, Any]:
        """The switches of the advantage and what they are set to."""
        parameters = inspect.signature(self.advantage).parameters.values()
        return MappingProxyType({p.name: p.default for p in parameters if p.default is not p.empty})

    def loss(
        self, log_probs: Tensor, old_log_probs: Tensor, advantages: Tensor, layout: TokenLayout
    ) -> PolicyLoss:
        """Compute the policy's loss, without divergence: `agentgym.algos.loss.policy_loss`. Needs torch."""
        from agentgym.algos.loss import policy_loss  # torch comes along

        return policy_loss(log_probs, old_log_probs, advantages, layout, self.objective)


ALGORITHMS: Final[Mapping[str, Algorithm]] = MappingProxyType(
    {
        "ppo": Algorithm(
            title="PPO",
            advantage=ppo.advantage,
            objective=ppo.OBJECTIVE,
            credit="token",
            critic="token",
            unit="token",
            paper="Schulman et al. 2017, arXiv:1707.06347",
            equation="11-12",
            page="ppo",
        ),
        "reinforce_pp": Algorithm(
            title="REINFORCE++",
            advantage=reinforce_pp.advantage,
            objective=reinforce_pp.OBJECTIVE,
            credit="token",
            unit="token",
            paper="Hu et al. 2025, arXiv:2501.03262",
            equation="returns, whitened over the batch",
            page="reinforce_pp",
        ),
        "reinforce_pp_baseline": Algorithm(
            title="REINFORCE++-baseline",
            advantage=reinforce_pp.baseline_advantage,
            objective=reinforce_pp.OBJECTIVE,
            credit="episode",
            unit="token",
            paper="Hu et al. 2025, arXiv:2501.03262",
            equation="group mean, whitened over the batch",
            page="reinforce_pp",
        ),
        "rloo": Algorithm(
            title="RLOO",
            advantage=rloo.advantage,
            objective=rloo.OBJECTIVE,
            credit="episode",
            paper="Ahmadian et al. 2024, arXiv:2402.14740",
            equation="Section 2.3",
            page="rloo",
        ),
        "grpo": Algorithm(
            title="GRPO",
            advantage=grpo.advantage,
            objective=grpo.OBJECTIVE,
            credit="episode",
            paper="Shao et al. 2024, arXiv:2402.03300",
            equation="Section 4.1.2",
            page="grpo",
        ),
        "dr_grpo": Algorithm(
            title="Dr. GRPO",
            advantage=partial(grpo.advantage, **grpo.DR_GRPO),
            objective=grpo.DR_GRPO_OBJECTIVE,
            credit="episode",
            paper="Liu et al. 2025, arXiv:2503.20783",
            equation="Section 3.2",
            page="grpo",
        ),
        "dapo": Algorithm(
            title="DAPO",
            advantage=partial(dapo.advantage, max_tokens=512),
            objective=dapo.OBJECTIVE,
            credit="episode",
            paper="Yu et al. 2025, arXiv:2503.14476",
            equation="9, 13",
            page="dapo",
        ),
        "gspo": Algorithm(
            title="GSPO",
            advantage=gspo.advantage,
            objective=gspo.OBJECTIVE,
            credit="episode",
            paper="Zheng et al. 2025, arXiv:2507.18071",
            equation="6-7",
            page="gspo",
        ),
        "gigpo": Algorithm(
            title="GiGPO",
            advantage=gigpo.advantage,
            objective=gigpo.OBJECTIVE,
            credit="step",
            states=True,
            paper="Feng et al. 2025, arXiv:2505.10978",
            equation="3, 7-8",
            page="gigpo",
        ),
        "hgpo": Algorithm(
            title="HGPO",
            advantage=hgpo.advantage,
            objective=hgpo.OBJECTIVE,
            credit="step",
            states=True,
            paper="He et al. 2026, arXiv:2602.22817",
            equation="hierarchy of groups",
            page="hgpo",
        ),
        "graphgpo": Algorithm(
            title="GraphGPO",
            advantage=graphgpo.advantage,
            objective=graphgpo.OBJECTIVE,
            credit="step",
            states=True,
            paper="Cheng et al. 2026, arXiv:2605.26684",
            equation="4-5",
            page="graphgpo",
        ),
        "steppo": Algorithm(
            title="StepPO",
            advantage=steppo.advantage,
            objective=steppo.OBJECTIVE,
            credit="step",
            critic="step",
            paper="Wang et al. 2026, arXiv:2604.18401",
            equation="7-8",
            page="steppo",
        ),
        "spo3": Algorithm(
            title="3SPO",
            advantage=spo3.advantage,
            objective=spo3.OBJECTIVE,
            credit="step",
            states=True,
            snapshot=True,
            paper="3SPO's public README and core module",
            equation="1-4",
            page="spo3",
        ),
        "istar": Algorithm(
            title="iStar",
            advantage=istar.advantage,
            objective=istar.OBJECTIVE,
            credit="step",
            reward_model=True,
            paper="Liu et al. 2025, arXiv:2509.19199",
            equation="2, 6-7",
            page="istar",
        ),
        "prime": Algorithm(
            title="PRIME",
            advantage=prime.advantage,
            objective=prime.OBJECTIVE,
            credit="token",
            reward_model=True,
            unit="token",
            paper="Cui et al. 2025, arXiv:2502.01456",
            equation="implicit process rewards, leave-one-out",
            page="prime",
        ),
    }
)
"""Name -> algorithm."""
