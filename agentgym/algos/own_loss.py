"""A loss of one's own: a function of the terms' inputs, by reference, and the check of it.

    agentgym train grpo --env agentgym/EZPoints-v0 --model tiny --loss mine:loss

The function takes `agentgym.algos.loss.LossInput` and returns the terms, to be minimised; weights, averages,
packs and ranks stay the trainer's. It sees a part of a mini-batch at a time, so a term depends on its own
step alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch

from agentgym.algos.loss import LossFunction, LossInput, TokenLayout, own_terms, unit_log_ratio
from agentgym.algos.objective import STEP_RATIOS, Objective
from agentgym.checking.evidence import require
from agentgym.io.optional import load_function, source_sha256


def find_loss(reference: str) -> LossFunction | None:
    """Return the function that ``module:function`` names; None for "", the clipped surrogate."""
    if not reference:
        return None
    return cast(LossFunction, load_function(reference, "objective.loss", "a LossInput"))


def with_source(objective: Objective) -> Objective:
    """Return an objective with the hash of its loss's source; `UsageError` where it has another hash."""
    function = find_loss(objective.loss)
    if function is None:
        return objective
    digest = source_sha256(objective.loss, "objective.loss", function, objective.loss_sha256)
    return replace(objective, loss_sha256=digest)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCase:
    """Literal numbers of some steps' tokens, and the terms that a loss gives for them."""

    log_probs: Sequence[float]
    """(T,) under the policy, the tokens of all steps one after the other."""
    advantages: Sequence[float]
    """(T,) of the tokens, or (n,) of the steps where the objective's ratios are of steps."""
    terms: Sequence[float]
    """Expected terms, as many as advantages."""
    old_log_probs: Sequence[float] | None = None
    """(T,) under the policy before the update; None for ``log_probs``."""
    sampled_log_probs: Sequence[float] | None = None
    """(T,) under the engine's policy; None for ``old_log_probs``."""
    lengths: Sequence[int] | None = None
    """(n,) tokens of each step; None for a single one."""


def check_loss(loss: LossFunction, cases: Sequence[LossCase], *, objective: Objective | None = None) -> None:
    """Check a loss of one's own with literal numbers, and what the trainer relies on.

    The terms are those expected, to 1e-5; they have a finite gradient, also at ratios of e^50; the inputs are
    as before; and a step's terms do not depend on the steps beside it. ``objective``: its ratios and clipping
    bounds, PPO's by default. `agentgym.checking.ContractError` names what is not so.

    Example:
        >>> case = LossCase(log_probs=[-1.0, -2.0], advantages=[1.0, -1.0], terms=[1.0, -2.0])
        >>> check_loss(lambda given: -given.advantages * given.log_probs, [case])
    """
    objective = objective or Objective()
    require(len(cases) > 0, "check_loss needs a case: give literal numbers and the terms they lead to")
    for number, case in enumerate(cases):
        given = _given(case, objective)
        before = [tensor.clone() for tensor in _tensors(given)]
        terms, _ = own_terms(loss, given)
        found, wanted = terms.detach().double(), torch.tensor(case.terms, dtype=torch.float64)
        require(
            found.shape == wanted.shape and torch.allclose(found, wanted, rtol=0, atol=1e-5),
            f"case {number}: the terms are {found.tolist()}, not {wanted.tolist()}",
        )
        same = all(torch.equal(one, other) for one, other in zip(before, _tensors(given), strict=True))
        require(same, f"case {number}: the loss changes its inputs: compute new tensors")
        _check_gradient(loss, given, f"case {number}")
        far = replace(case, old_log_probs=[each - 50 * (-1) ** k for k, each in enumerate(case.log_probs)])
        _check_gradient(loss, _given(far, objective), f"case {number} with ratios of e^50 and e^-50")
        _check_parts(loss, case, objective, terms.detach(), f"case {number}")


def _given(case: LossCase, objective: Objective) -> LossInput:
    """Return a case as the trainer would hand it over."""
    old = case.log_probs if case.old_log_probs is None else case.old_log_probs
    sampled = old if case.sampled_log_probs is None else case.sampled_log_probs
    log_probs = torch.tensor(case.log_probs, requires_grad=True)
    layout = TokenLayout.packed(torch.tensor(case.lengths or [len(case.log_probs)]))
    before, engine, advantages = (torch.tensor(each).float() for each in (old, sampled, case.advantages))
    log_ratio = unit_log_ratio(log_probs, before, layout, objective)
    return LossInput(log_probs, before, engine, advantages, log_ratio, layout, objective)


def _tensors(given: LossInput) -> list[torch.Tensor]:
    return [given.log_probs, given.old_log_probs, given.sampled_log_probs, given.advantages, given.log_ratio]


def _check_gradient(loss: LossFunction, given: LossInput, where: str) -> None:
    terms, _ = own_terms(loss, given)
    require(
        terms.requires_grad, f"{where}: the terms have no gradient: compute them from log_probs or log_ratio"
    )
    (gradient,) = torch.autograd.grad(terms.sum(), given.log_probs)
    finite = bool(torch.isfinite(terms).all() and torch.isfinite(gradient).all())
    require(finite, f"{where}: a term or its gradient is not finite: clamp the log-ratio before exp")


def _check_parts(
    loss: LossFunction, case: LossCase, objective: Objective, whole: torch.Tensor, where: str
) -> None:
    """Check that each step alone has the terms that it has among the others."""
    token = term = 0
    for length in case.lengths or ():
        size = 1 if objective.ratio in STEP_RATIOS else length

        def cut(values: Sequence[float] | None) -> Sequence[float] | None:
            return None if values is None else values[token : token + length]  # noqa: B023

        alone = LossCase(
            log_probs=case.log_probs[token : token + length],
            advantages=case.advantages[term : term + size],
            terms=(),
            old_log_probs=cut(case.old_log_probs),
            sampled_log_probs=cut(case.sampled_log_probs),
        )
        terms, _ = own_terms(loss, _given(alone, objective))
        require(
            torch.allclose(terms.detach(), whole[term : term + size], atol=1e-6),
            f"{where}: a step's terms depend on the steps beside it, which differ from pack to pack",
        )
        token, term = token + length, term + size
