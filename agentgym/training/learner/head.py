"""The head of a language model: log-probabilities and entropies of tokens, a chunk of positions at a time.

What a free response makes of a position's logits has a gradient in closed form, so nothing of a chunk's
size is held for autograd but one tensor, and that only where a single chunk is all there is. The logits of
constrained choices are few, and autograd differentiates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from agentgym.algos.loss import entropy
from agentgym.inference.models.linear import linear, matmul


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
    ) -> tuple[Tensor, Tensor]:
        """Compute (R,) log-probabilities and entropies from (U, d) hidden states, by chunks of states."""
        ctx.set_materialize_grads(False)  # an unused entropy then has no gradient to compute
        ctx.temperature = temperature
        ctx.chunks = chunks
        distribution = None
        dtype = torch.promote_types(states.dtype, torch.float32)
        log_probs = states.new_empty(len(targets), dtype=dtype)  # a list of parts would fragment the heap
        entropies = torch.empty_like(log_probs)
        for chunk, tokens in ctx.chunks:
            logits = linear(states[chunk], weight, bias)
            places = sources[tokens] - chunk.start
            if choices is None:
                distribution = _log_softmax(logits, temperature)
                log_probs[tokens] = distribution[places, targets[tokens]]
                entropies[tokens] = _entropies(distribution)[places]
            else:
                log_probs[tokens], entropies[tokens] = _of_choices(
                    logits, places, targets[tokens], choices[tokens], temperature
                )
        only = distribution if len(ctx.chunks) == 1 and any(ctx.needs_input_grad[:3]) else None
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
        for chunk, tokens in ctx.chunks:
            places = sources[tokens] - chunk.start
            seeds = [None if gradient is None else gradient[tokens] for gradient in gradients]
            logits = only if only is not None else linear(states[chunk], weight, bias)
            if choices is None:
                distribution = logits if only is not None else _log_softmax(logits, ctx.temperature)
                of_logits = _gradient(distribution, places, targets[tokens], *seeds)
                of_logits = of_logits.div_(ctx.temperature).to(weight.dtype)
            else:
                of_logits = _gradient_of_choices(
                    logits, places, targets[tokens], choices[tokens], ctx.temperature, seeds
                )
            if of_states is not None:
                of_states[chunk] = matmul(of_logits, weight)
            if of_weight is not None:
                of_weight += matmul(of_logits.T, states[chunk])
            if of_bias is not None:
                of_bias += of_logits.sum(0)
        if of_weight is not None:
            of_weight = of_weight.to(weight.dtype)
        if of_bias is not None:
            of_bias = of_bias.to(bias.dtype)
        return of_states, of_weight, of_bias, None, None, None, None, None


# ---- free responses ---------------------------------------------------------------------------------


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


# ---- constrained choices ----------------------------------------------------------------------------


def _of_choices(
    logits: Tensor, places: Tensor, targets: Tensor, choices: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Return (R,) of ``logit - logsumexp(logits[allowed])``, and (R,) entropies of the allowed tokens."""
    allowed = places[:, None] * logits.shape[1] + choices.clamp(min=0)
    logits = logits.flatten().gather(0, allowed.flatten()).view_as(choices)
    logits = logits.masked_fill(choices < 0, -torch.inf)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    chosen = (choices == targets[:, None]).int().argmax(1, keepdim=True)
    return logits.log_softmax(-1).gather(1, chosen)[:, 0], entropy(logits)


def _gradient_of_choices(
    logits: Tensor,
    places: Tensor,
    targets: Tensor,
    choices: Tensor,
    temperature: float,
    seeds: list[Tensor | None],
) -> Tensor:
    """Return (U, vocabulary) of the logits, from (R,) of log-probabilities and of entropies."""
    logits.requires_grad_()
    with torch.enable_grad():
        outputs = _of_choices(logits, places, targets, choices, temperature)
    wanted = [(output, seed) for output, seed in zip(outputs, seeds, strict=True) if seed is not None]
    (of_logits,) = torch.autograd.grad([output for output, _ in wanted], logits, [seed for _, seed in wanted])
    return of_logits
