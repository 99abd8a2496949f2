"""Outcome advantages by name, (n,) of steps: the part that step-level methods add their own credit to."""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from agentgym.algos import dapo, grpo, reinforce_pp, rloo
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.tokens import Unit, token_counts
from agentgym.core.arrays import Floats, Ints
from agentgym.core.options import check_choice

OutcomeBase: TypeAlias = Literal["grpo", "rloo", "reinforce_pp", "dapo"]
"""Algorithm whose advantage of outcomes is taken."""


def outcome_advantage(
    batch: StepBatch,
    base: OutcomeBase = "grpo",
    *,
    std: bool = True,
    max_tokens: int | None = 512,
    compat: Compat = PAPER,
    unit: Unit = "step",
) -> Floats:
    """Return (n,) the outcome advantage of each step, or (T,) of each response token: exactly the base's.

    Args:
        batch: the steps; with ``tokens`` for REINFORCE++ and DAPO.
        base: the algorithm. REINFORCE++ is undiscounted, so that a step's tokens have the same, up to the
            rounding of sums: the step has its first token's; 0 without any.
        std: whether GRPO divides by standard deviations.
        max_tokens: limit of DAPO's overlong penalty.
        compat: statistics, groups of one, and the invalid-action penalty.
        unit: unit that has an advantage.
    """
    check_choice("base", base, OutcomeBase)
    if base == "reinforce_pp":
        tokens = reinforce_pp.advantage(batch, penalty=compat.penalty)
        return tokens if unit == "token" else _first_tokens(tokens, token_counts(batch))
    if base == "grpo":
        steps = grpo.advantage(batch, std=std, compat=compat)
    elif base == "rloo":
        steps = rloo.advantage(batch, compat=compat)
    else:
        steps = dapo.advantage(batch, max_tokens=max_tokens, compat=compat)
    return np.repeat(steps, token_counts(batch)) if unit == "token" else steps


def _first_tokens(column: Floats, counts: Ints) -> Floats:
    """Return (n,) the entry of each step's first token, 0 for none."""
    result = np.zeros(len(counts))
    result[counts > 0] = column[(np.cumsum(counts) - counts)[counts > 0]]
    return result
