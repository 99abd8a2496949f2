"""The head of a language model: log-probabilities and entropies of tokens, a chunk of positions at a time.

What a free response makes of a position's logits has a gradient in closed form, so nothing of a chunk's
size is held for autograd but one tensor, and that only where a single chunk is all there is. Autograd
differentiates constrained choices, whose logits are few, and a sampler of one's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from agentgym.algos.loss import entropy
from agentgym.inference.engines.sampling import SamplerFunction, sampler_logits


class ChunkedHead(torch.autograd.Function):
    """The head, temperature and softmax, forward and backward a chunk of tokens at a time."""

    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        sources: Tensor,
        targets: Tensor,
        choices: Tensor | None,
        temperature: float,
        chunks: Sequence[tuple[slice, Tensor]],
        with_entropies: bool = True,
        compiled: bool = False,
        sampler: SamplerFunction | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Compute (R,) log-probabilities and entropies from (U, d) hidden states, by chunks of states.

        Unwanted entropies have size 0; ``compiled``: fuse what free responses make of the logits.
        """
        ctx.set_materialize_grads(False)  # an unused entropy then has no gradient to compute
        ctx.temperature, ctx.chunks, ctx.compiled, ctx.sampler = temperature, chunks, compiled, sampler
        single = len(chunks) == 1 and any(ctx.needs_input_grad[:3])
        free = _fused(_of_free) if compiled else _of_free
        spread: Tensor | None
        only: Tensor | None = None
        dtype = torch.promote_types(states.dtype, torch.float32)
        log_probs = states.new_empty(len(targets), dtype=dtype)  # a list of parts would fragment the heap
        entropies = torch.empty_like(log_probs) if with_entropies else log_probs.new_empty(0)
        for chunk, tokens in chunks:
            logits = torch.nn.functional.linear(states[chunk], weight, bias)
            places, own = sources[tokens] - chunk.start, targets[tokens]
            if choices is not None or sampler is not None:
                allowed = None if choices is None else choices[tokens]
                found, spread = _of_logits(logits, places, own, allowed, temperature, sampler)
            else:
                found, spread, only = free(logits, temperature, places, own, with_entropies, single)
            log_probs[tokens] = found
            if spread is not None and with_entropies:
                entropies[tokens] = spread
        ctx.save_for_backward(states, weight, bias, sources, targets, choices, only)
        return log_probs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Recompute each chunk's logits, except for a single chunk, and accumulate their gradient."""
        states, weight, bias, sources, targets, choices, only = ctx.saved_tensors
        wants_states, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        of_states = torch.zeros_like(states) if wants_states else None
        # a bfloat16 sum of many chunks stops growing; the product within a chunk adds in float32
        exact = torch.promote_types(weight.dtype, torch.float32)
        of_weight = torch.zeros_like(weight, dtype=exact) if wants_weight else None
        of_bias = torch.zeros_like(bias, dtype=exact) if wants_bias else None
        gradient_of = _fused(_gradient_of_free) if ctx.compiled else _gradient_of_free
        for chunk, tokens in ctx.chunks:
            places, own = sources[tokens] - chunk.start, targets[tokens]
            seeds = [
                None if gradient is None or not len(gradient) else gradient[tokens] for gradient in gradients
            ]
            logits = only if only is not None else torch.nn.functional.linear(states[chunk], weight, bias)
            if choices is not None or ctx.sampler is not None:
                allowed = None if choices is None else choices[tokens]
                of_logits = _gradient_by_autograd(
                    logits, places, own, allowed, ctx.temperature, ctx.sampler, seeds
                )
            else:
                of_logits = gradient_of(logits, only is not None, ctx.temperature, places, own, *seeds)
                of_logits = of_logits.to(weight.dtype)
            if of_states is not None:
                of_states[chunk] = of_logits @ weight
            if of_weight is not None:
                if weight.dtype == exact:
                    of_weight.addmm_(of_logits.T, states[chunk])
                else:
                    of_weight += of_logits.T @ states[chunk]
            if of_bias is not None:
                of_bias += of_logits.sum(0)
        if of_weight is not None:
            of_weight = of_weight.to(weight.dtype)
        if of_bias is not None:
            of_bias = of_bias.to(bias.dtype)
        return of_states, of_weight, of_bias, *[None] * 8


# ---- free responses ---------------------------------------------------------------------------------


@cache
def _fused(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, dynamic=True)


def _of_free(
    logits: Tensor, temperature: float, places: Tensor, targets: Tensor, entropies: bool, single: bool
) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Return (R,) log-probabilities; (R,) entropies, if asked for; and a single chunk's distribution."""
    distribution = _log_softmax(logits, temperature)
    spread = _entropies(distribution)[places] if entropies else None
    return distribution[places, targets], spread, distribution if single else None


def _gradient_of_free(logits: Tensor, known: bool, temperature: float, *rest: Any) -> Tensor:
    """Return (U, vocabulary) of the logits, which are the distribution where that is ``known``."""
    return _gradient(logits if known else _log_softmax(logits, temperature), *rest).div_(temperature)


def _log_softmax(logits: Tensor, temperature: float) -> Tensor:
    """Return log-probabilities in float32 or better; the logits may be overwritten."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return (logits if temperature == 1 else logits.div_(temperature)).log_softmax(-1)


def _entropies(distribution: Tensor) -> Tensor:
    """Return (U,) entropies of (U, vocabulary) log-probabilities, of which those of -inf add nothing."""
    least = torch.finfo(distribution.dtype).min
    return -distribution.exp().mul_(distribution.clamp(min=least)).sum(-1)


def _gradient(
    distribution: Tensor,
    places: Tensor,
    targets: Tensor,
    of_log_probs: Tensor | None,
    of_entropies: Tensor | None,
) -> Tensor:
    """Return (U, vocabulary) of the tempered logits, from (R,) of log-probabilities and of entropies.

    With p the distribution and H its entropy, ``d log p_t / d z = 1_t - p`` and
    ``d H / d z = -p (log p + H)``.
    """
    chances = distribution.exp()
    factors = distribution.new_zeros(len(distribution), 1)
    if of_log_probs is not None:
        factors[:, 0].index_add_(0, places, of_log_probs, alpha=-1)
    if of_entropies is None:
        result = chances.mul_(factors)
    else:
        weights = distribution.new_zeros(len(distribution), 1)
        weights[:, 0].index_add_(0, places, of_entropies)
        finite = distribution.clamp(min=torch.finfo(distribution.dtype).min)
        result = chances * (factors - weights * (finite + _entropies(distribution)[:, None]))
    if of_log_probs is not None:
        result.index_put_((places, targets), of_log_probs, accumulate=True)
    return result


# ---- constrained choices, and samplers of one's own -------------------------------------------------


def _of_logits(
    logits: Tensor,
    places: Tensor,
    targets: Tensor,
    choices: Tensor | None,
    temperature: float,
    sampler: SamplerFunction | None,
) -> tuple[Tensor, Tensor]:
    """Return (R,) of ``logit - logsumexp(logits)`` among what may be drawn, and (R,) entropies of that."""
    if choices is not None:
        allowed = places[:, None] * logits.shape[1] + choices.clamp(min=0)
        logits = logits.flatten().gather(0, allowed.flatten()).view_as(choices)
        logits = logits.masked_fill(choices < 0, -torch.inf)
        targets = (choices == targets[:, None]).int().argmax(1)
        places = torch.arange(len(targets), device=targets.device)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    if sampler is None:
        return logits.log_softmax(-1).gather(1, targets[:, None])[:, 0], entropy(logits)
    drawable = sampler_logits(sampler, logits)
    # a token drawn under older weights may be outside now; it counts as if it alone were let in as well
    own, mass = drawable[places, targets], drawable.logsumexp(-1)[places]
    outside, plain = own == -torch.inf, logits[places, targets]
    mass = torch.where(outside, torch.logaddexp(mass, plain), mass)
    return torch.where(outside, plain, own) - mass, entropy(drawable)[places]


def _gradient_by_autograd(
    logits: Tensor,
    places: Tensor,
    targets: Tensor,
    choices: Tensor | None,
    temperature: float,
    sampler: SamplerFunction | None,
    seeds: list[Tensor | None],
) -> Tensor:
    """Return (U, vocabulary) of the logits, from (R,) of log-probabilities and of entropies."""
    logits.requires_grad_()
    with torch.enable_grad():
        outputs = _of_logits(logits, places, targets, choices, temperature, sampler)
    wanted = [(output, seed) for output, seed in zip(outputs, seeds, strict=True) if seed is not None]
    (of_logits,) = torch.autograd.grad([output for output, _ in wanted], logits, [seed for _, seed in wanted])
    return of_logits
