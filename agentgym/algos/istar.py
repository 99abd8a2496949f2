"""iStar: implicit step rewards for agents (Liu et al., 2025, arXiv:2509.19199).

A process reward model phi, a language model that starts as the policy, is trained to prefer trajectories
that succeed (Eq. 2, `agentgym.algos.process.preference_loss`). Its log-ratio rewards each step:

    r_phi(a_t) = beta log pi_phi(a_t | s_t) / pi_old(a_t | s_t)
    A^E        = (R - mean_g R) / std_g R, or another base's (RLOO, REINFORCE++, DAPO)
    A^S        = (r_phi - mean of all steps of g) / std of all steps of g
    A          = A^E + alpha A^S, in a surrogate with one ratio per step     (6)

A trajectory's implicit reward is its steps' sum: preferring trajectories is a Bradley-Terry model on summed
step rewards (7). Order of an iteration (Algorithm 1, public code): rollout, outcomes, r_phi, update of phi,
update of the policy, old <- policy; the paper's introduction updates phi first, then scores. In the first
iteration phi is the policy and r_phi rounding noise: below ``floor`` A^S is 0. The public code divides it,
and prefers by the mean over steps, not their sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from agentgym.algos.advantage import joint, relative
from agentgym.algos.algorithm import Algorithm
from agentgym.algos.batch import StepBatch
from agentgym.algos.compat import PAPER, Compat
from agentgym.algos.objective import Objective
from agentgym.algos.outcome import OutcomeBase, outcome_advantage
from agentgym.algos.tokens import Unit, check_tokens, token_counts, token_rows
from agentgym.core.arrays import Floats
from agentgym.core.options import PositiveInt, check_choice

OBJECTIVE = Objective(ratio="step_product", aggregation="step-mean")
"""Eq. 6: the ratio of the whole action. No bound of clipping is printed; no divergence from a reference."""

IStarCredit: TypeAlias = Literal["step", "token", "merged"]
"""Unit that A^S compares: steps (the paper); tokens, or outcome and step reward added up (its ablations)."""


@dataclass(frozen=True, slots=True)
class IStarOrder:
    """Where process rewards come from, and when; `agentgym.training.stages.reward_model` reads it."""

    prm_reward: Literal["before", "after"] = "before"
    """Whether phi rewards before it is updated (Algorithm 1, public code) or after (the introduction)."""
    process: Literal["model", "reward", "progress"] = "model"
    """phi; or the ablation with ground truth: the environment's step rewards, or each step's progress."""


def step_rewards(prm: Floats, old: Floats, batch: StepBatch, *, beta: float = 0.05) -> Floats:
    """Return (n,) the implicit reward of each step, r_phi = beta (sum of its tokens' log-ratios).

    Args:
        prm: (T,) log-probabilities of the response tokens of all steps, under phi.
        old: (T,) under the policy that sampled.
        batch: the steps, with ``tokens``.
        beta: scale.

    Raises:
        ValueError: ``tokens`` is missing, or does not sum to T.
    """
    check_tokens(batch, "prm", prm)
    check_tokens(batch, "old", old)
    sums = np.bincount(token_rows(token_counts(batch)), prm - old, len(batch))
    return beta * sums.astype(np.float64)


def advantage(
    batch: StepBatch,
    process: Floats,
    *,
    alpha: float = 1.0,
    std: bool = True,
    credit: IStarCredit = "step",
    base: OutcomeBase = "grpo",
    episode: Floats | None = None,
    floor: float = 1e-6,
    max_tokens: PositiveInt | None = 512,
    compat: Compat = PAPER,
) -> Floats:
    """Advantage of each step by its episode's outcome and its own implicit reward.

    Args:
        batch: the steps; ``tokens`` too for ``credit="token"``.
        process: (n,) `step_rewards`, or any other reward of steps (ground truth, an ablation);
            for ``credit="token"`` (T,) rewards of tokens.
        alpha: weight of A^S; under ``"merged"``, of the step's reward beside the outcome.
        std: whether to divide by standard deviations.
        credit: unit that A^S compares.
        base: algorithm whose outcome advantage A^E is; merged rewards have none.
        episode: (n,) A^E itself, in its place.
        floor: process rewards of a group that all lie this close to their mean are noise.
        max_tokens: limit of DAPO's overlong penalty.
        compat: choices of public code for A^E.

    Returns:
        (n,) advantages, (T,) for ``credit="token"``.

    Raises:
        ValueError: an unknown credit, or a length is wrong.
    """
    check_choice("credit", credit, IStarCredit)
    rows = np.arange(len(batch))
    if credit == "token":
        rows = token_rows(token_counts(batch))
    if np.shape(process) != rows.shape or not np.isfinite(process).all():
        raise ValueError(f'process must have shape {rows.shape} under credit="{credit}", and be finite')
    if episode is not None and np.shape(episode) != (len(batch),):
        raise ValueError(f"episode must have shape ({len(batch)},), not {np.shape(episode)}: one per step")
    group = joint(batch.group)[rows]
    if credit == "merged":
        return relative(batch.outcome + alpha * process, group, std=std)
    if episode is None:
        unit: Unit = "token" if credit == "token" else "step"
        outcome = outcome_advantage(batch, base, std=std, max_tokens=max_tokens, compat=compat, unit=unit)
    else:
        outcome = episode[rows]
    spread = np.zeros(len(batch))
    np.maximum.at(spread, group, np.abs(relative(process, group, std=False)))
    step = np.where(spread[group] > floor, relative(process, group, std=std), 0.0)
    return outcome + alpha * step


ALGORITHM = Algorithm(
    title="iStar",
    paper="Liu et al. 2025, arXiv:2509.19199",
    equation="2, 6-7",
    advantage=advantage,
    objective=OBJECTIVE,
    credit="step",
    stages="agentgym.training.stages.reward_model:ISTAR",
    stage_options=IStarOrder(),
    follows={"max_tokens": "prompting.max_tokens"},
    reward_model=True,
    page="istar",
)
