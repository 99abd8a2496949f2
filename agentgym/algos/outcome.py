"""Outcome advantages by name, (n,) of steps: the part that step-level methods add their own credit to."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from agentgym.algos import dapo, grpo, reinforce_pp, rloo
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.options import check_choice
from agentgym.algos.tokens import token_counts
from agentgym.arrays import Floats

OutcomeBase: TypeAlias = Literal["grpo", "rloo", "reinforce_pp", "dapo"]
"""Whose advantage an outcome has."""


def outcome_advantage(
    batch: StepBatch,
    base: OutcomeBase = "grpo",
    *,
    std: bool = True,
    max_tokens: int | None = 512,
    compat: Compat = PAPER,
) -> Floats:
    """Return (n,) the outcome advantage of each step, exactly the base's.

    Args:
        batch: the steps; with ``tokens`` for REINFORCE++ and DAPO.
        base: whose. REINFORCE++'s is undiscounted: what follows a step, whitened over the batch's tokens, is
            the same on all tokens of the step; 0 on a step without any.
        std: whether GRPO divides by standard deviations.
        max_tokens: of DAPO's overlong penalty.
        compat: statistics, groups of one, and the invalid-action penalty.
    """
    check_choice("base", base, OutcomeBase)
    if base == "grpo":
        return grpo.advantage(batch, std=std, compat=compat)
    if base == "rloo":
        return rloo.advantage(batch, compat=compat)
    if base == "dapo":
        return dapo.advantage(batch, max_tokens=max_tokens, compat=compat)
    tokens = reinforce_pp.advantage(batch, penalty=compat.penalty)
    counts = token_counts(batch)
    result = np.zeros(len(batch))
    result[counts > 0] = tokens[(np.cumsum(counts) - counts)[counts > 0]]
    return result
