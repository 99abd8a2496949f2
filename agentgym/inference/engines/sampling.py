"""Drawing tokens: a pure function of logits, temperature and one uniform number per row.

A sampler of one's own (``agentgym train --sampler module:function``) changes the logits first: the engine
"hf" draws from its logits, and the learner computes log-probabilities from them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, cast

import torch
from torch import Tensor

from agentgym.checking.evidence import require
from agentgym.core.rng import TurnRng
from agentgym.errors import UsageError
from agentgym.io.optional import load_function

_RESOLUTION = 1 << 53
"""Range of a double's significand: every draw is exact, and below 1."""

SamplerFunction: TypeAlias = Callable[[Tensor], Tensor]
"""Sampler of one's own: from (rows, columns) logits, divided by the temperature, to logits of the same shape
and type, with -inf where a column is never drawn. Columns are the vocabulary, or a constrained response's
allowed tokens, where -inf fills a row up."""


def sampler_logits(sampler: SamplerFunction, logits: Tensor) -> Tensor:
    """Return a sampler's logits; `UsageError` where their shape or type is not that of ``logits``."""
    found = sampler(logits)
    if found.shape != logits.shape or found.dtype != logits.dtype:
        raise UsageError(
            f"rollout.sampler returned {tuple(found.shape)} {found.dtype}, not {tuple(logits.shape)} "
            f"{logits.dtype}: return the logits, with -inf where a token is never drawn"
        )
    return found


def uniform(seed: int, position: int) -> float:
    """Return the number in [0, 1) that decides token ``position`` of the response with this seed."""
    return TurnRng(seed, position).below(_RESOLUTION) / _RESOLUTION


def sample(
    logits: Tensor, temperatures: Tensor, uniforms: Tensor, sampler: SamplerFunction | None = None
) -> tuple[Tensor, Tensor]:
    """Draw one column per row by inverting the cumulative distribution.

    ``logits``: (n, k); a column at -inf is never drawn; ``temperatures``: (n,); 0 takes the largest logit;
    ``uniforms``: (n,) float64 in [0, 1). Returns (n,) columns, and (n,) their log-probabilities, float32: at
    the row's temperature, or at 1 where that is 0, and of the ``sampler``'s logits.

    A row of logits that is not a distribution is a `UsageError`.
    """
    greedy = temperatures == 0
    scale = torch.where(greedy, 1.0, temperatures)
    logits = logits.float() / scale.unsqueeze(1)
    log_probs = (logits if sampler is None else sampler_logits(sampler, logits)).log_softmax(-1)
    # draws are scaled to the last entry, which is not exactly 1; columns without mass have an empty interval
    cumulative = log_probs.double().exp_().cumsum_(-1)
    total = cumulative[:, -1]
    if not total.isfinite().all():
        if sampler is not None and logits.log_softmax(-1).isfinite().any(-1).all():
            raise UsageError(
                "rollout.sampler returns NaN, or leaves nothing to draw: test it with check_sampler"
            )
        raise UsageError(
            "the model's logits are not numbers: go back to a checkpoint from before it diverged"
        )
    drawn = torch.searchsorted(cumulative, (uniforms * total).unsqueeze(1), right=True).squeeze(1)
    chosen = torch.where(greedy, log_probs.argmax(-1), drawn)
    return chosen, log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1)


def find_sampler(reference: str) -> SamplerFunction | None:
    """Return the function that ``module:function`` names; None for "", the model's own distribution."""
    if not reference:
        return None
    return cast(SamplerFunction, load_function(reference, "rollout.sampler", "logits"))


def check_sampler(sampler: SamplerFunction, *, columns: int = 64, rows: int = 16) -> None:
    """Check a sampler of one's own on random logits, and what engine and learner rely on.

    Shape and type stay; the input is as before; the same logits lead to the same; each row has a column that
    can be drawn, the likeliest among them, and no NaN; a row depends neither on the rows beside it, nor on
    the order of columns, nor on filled-up columns; and gradients of what can be drawn are finite.
    `agentgym.checking.ContractError` names what is not so.

    Example:
        >>> check_sampler(lambda logits: torch.where(logits < logits.amax(-1, True) - 3, -torch.inf, logits))
    """
    draws = torch.Generator().manual_seed(0)
    logits = 4 * torch.randn(rows, columns, generator=draws)
    before, order = logits.clone(), torch.randperm(columns, generator=draws)
    found = sampler_logits(sampler, logits)
    require(torch.equal(logits, before), "the sampler changes its input: compute a new tensor")
    numbers = not bool(found.isnan().any() or (found == torch.inf).any())
    require(numbers, "a logit is NaN or infinite: set what is never drawn to -inf, and nothing else")
    require(torch.equal(found, sampler(logits)), "the same logits lead to others: draw nothing in a sampler")
    allowed = found > -torch.inf
    likeliest = bool(allowed.gather(1, logits.argmax(1, keepdim=True)).all())
    require(likeliest, "the likeliest column is never drawn: let it in, for greedy decoding")
    filled = torch.nn.functional.pad(logits, (0, 3), value=-torch.inf)
    for what, other in (
        ("the rows beside it", torch.cat([sampler(row[None]) for row in logits])),
        ("the order of columns", sampler(logits[:, order])[:, order.argsort()]),
        ("columns of -inf that fill a row up", sampler(filled)[:, :columns]),
    ):
        require(torch.allclose(other, found, atol=1e-5), f"a row's logits depend on {what}")
    log_probs = sampler(logits.requires_grad_()).log_softmax(-1)
    require(log_probs.requires_grad, "the logits have no gradient: compute them from the input")
    (gradient,) = torch.autograd.grad(log_probs[allowed].sum(), logits)
    require(bool(gradient.isfinite().all()), "a gradient is not finite: mask by masked_fill or where")
