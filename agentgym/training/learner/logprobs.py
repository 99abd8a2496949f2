"""Log-probabilities of response tokens, without ever holding the logits of all of them.

The model's body reads a whole pack; its head reads only the positions that predict a response token, a
chunk at a time, and what it computed there is computed again for the gradient. So memory is bounded by a
chunk and not by the number of tokens, however large the vocabulary. A position that predicts several
response tokens is read once for all of them.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.algos.loss import entropy
from agentgym.errors import UsageError
from agentgym.training.learner.attention import attend_in_packs, pack_mask
from agentgym.training.learner.packing import Pack, StepRow, pack_rows
from agentgym.training.models.pictures import embedded

CHUNK_LOGITS = 1 << 22
"""Most logits that are computed at once: 16 MiB in float32, several times over while differentiating.

More pays on accelerators only.
"""


def response_log_probs(
    model: PreTrainedModel, pack: Pack, *, temperature: float = 1.0, chunk_logits: int = CHUNK_LOGITS
) -> tuple[Tensor, Tensor]:
    """Return what a model makes of the response tokens of a pack.

    Args:
        model: as `check_model` accepts.
        pack: on the model's device.
        temperature: that responses were sampled at; 0 is taken for 1, as engines report it.
        chunk_logits: most logits that are computed at once, but at least one token's.

    Returns:
        (R,) log-probabilities and (R,) entropies in nats, in the pack's order, both differentiable. Where
        responses are constrained choices both are of the distribution over the allowed tokens.
    """
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    places, sources = torch.unique(pack.predictors, return_inverse=True)
    states = hidden_states(model.base_model, pack)[places]
    log_probs, entropies = _ChunkedHead.apply(  # type: ignore[no-untyped-call]
        states, head.weight, head.bias, sources, pack.targets, pack.choices, temperature or 1.0, chunk_logits
    )
    return log_probs, entropies


def hidden_states(body: torch.nn.Module, pack: Pack) -> Tensor:
    """Return (S, d) the last hidden states of a model's body, the part below its head."""
    assert isinstance(body, PreTrainedModel)
    attend_in_packs(body)
    # models leave a mask of four axes alone; it is not looked at, and without one they would make one
    whatever = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=pack.input_ids.device)
    ids = pack.input_ids[None]
    read = {"inputs_embeds": embedded(body, ids, pack.pictures)} if pack.pictures else {"input_ids": ids}
    output = body(
        **read,
        position_ids=pack.position_ids.unsqueeze(-2),  # (1, S), or (3, 1, S)
        attention_mask=whatever,
        use_cache=False,
        pack_mask=pack_mask(pack.ends),
    )
    states: Tensor = output.last_hidden_state[0]
    return states


def check_model(model: PreTrainedModel, device: torch.device | None = None) -> None:
    """Refuse a model that packing, or a head apart from the body, would change.

    Args:
        model: computes a few tokens.
        device: where it does (default: where its weights are).

    Raises:
        UsageError: its layers do not all attend to the whole context, it does not compute attention with
            SDPA as `transformers` has it, or its logits are not simply its head's.
    """
    config = model.config.get_text_config()
    kind = model.config.model_type
    layers = getattr(config, "layer_types", None) or ()
    window = (
        getattr(config, "sliding_window", None) or math.inf
    )  # of all layers, where they are not told apart
    if any(layer != "full_attention" for layer in layers) or (
        not layers and window < config.max_position_embeddings
    ):
        raise UsageError(
            f"the model of type {kind!r} has layers that do not attend to the whole context: choose one "
            "with full attention in every layer"
        )
    attend_in_packs(model)
    probe = StepRow((0, 1), (2, 3, 1))
    device = device or model.device
    (pack,) = pack_rows([probe, probe], token_budget=8, device=device)
    with torch.inference_mode():
        logits = model(input_ids=pack.input_ids[None, :4], use_cache=False).logits[0, 1:]
        sources = torch.arange(3, device=device)
        expected, _ = _statistics(logits, sources, pack.targets[:3], None, 1.0)
        packed, _ = response_log_probs(model, pack)
    exact = model.dtype in (torch.float32, torch.float64)
    if not torch.allclose(packed, expected.repeat(2), rtol=0, atol=1e-4 if exact else 0.1):
        raise UsageError(
            f"the model of type {kind!r} does more than apply its output embedding to its last hidden "
            "states, or does not attend as it is told to: choose a model without scaled or capped logits, "
            "whose attention goes through transformers' AttentionInterface"
        )


class _ChunkedHead(torch.autograd.Function):
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
        chunk_logits: int,
    ) -> tuple[Tensor, Tensor]:
        """Compute (R,) log-probabilities and entropies from (U, d) hidden states."""
        ctx.set_materialize_grads(False)  # an entropy that nobody minimises costs nothing
        ctx.save_for_backward(states, weight, bias, sources, targets, choices)
        ctx.temperature = temperature
        ctx.chunk = max(chunk_logits // len(weight), 1)
        dtype = torch.promote_types(states.dtype, torch.float32)
        log_probs = states.new_empty(len(targets), dtype=dtype)  # a list of parts would fragment the heap
        entropies = torch.empty_like(log_probs)
        for chunk, tokens in _chunks(len(states), sources, ctx.chunk):
            log_probs[tokens], entropies[tokens] = _statistics(
                torch.nn.functional.linear(states[chunk], weight, bias),
                sources[tokens] - chunk.start,
                targets[tokens],
                None if choices is None else choices[tokens],
                temperature,
            )
        return log_probs, entropies

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        """Compute each chunk's logits again, their gradient, and add up what it does to the weights."""
        states, weight, bias, sources, targets, choices = ctx.saved_tensors
        wants_states, wants_weight, wants_bias = ctx.needs_input_grad[:3]
        of_states = torch.zeros_like(states) if wants_states else None
        exact = torch.promote_types(
            weight.dtype, torch.float32
        )  # a sum of many chunks in 8 bits stands still
        of_weight = torch.zeros_like(weight, dtype=exact) if wants_weight else None
        of_bias = torch.zeros_like(bias, dtype=exact) if wants_bias else None
        for chunk, tokens in _chunks(len(states), sources, ctx.chunk):
            logits = torch.nn.functional.linear(states[chunk], weight, bias).requires_grad_()
            with torch.enable_grad():
                outputs = _statistics(
                    logits,
                    sources[tokens] - chunk.start,
                    targets[tokens],
                    None if choices is None else choices[tokens],
                    ctx.temperature,
                    entropies=gradients[1] is not None,
                )
            wanted = [
                (output, gradient[tokens])
                for output, gradient in zip(outputs, gradients, strict=False)
                if gradient is not None
            ]
            heads, seeds = zip(*wanted, strict=True)
            (of_logits,) = torch.autograd.grad(heads, logits, seeds)
            if of_states is not None:
                of_states[chunk] = of_logits @ weight
            if of_weight is not None:
                of_weight.addmm_(of_logits.T.to(exact), states[chunk].to(exact))
            if of_bias is not None:
                of_bias += of_logits.sum(0)
        if of_weight is not None:
            of_weight = of_weight.to(weight.dtype)
        if of_bias is not None:
            of_bias = of_bias.to(bias.dtype)
        return of_states, of_weight, of_bias, None, None, None, None, None


def _statistics(
    logits: Tensor,
    sources: Tensor,
    targets: Tensor,
    choices: Tensor | None,
    temperature: float,
    *,
    entropies: bool = True,
) -> tuple[Tensor, ...]:
    """Return (R,) log-probabilities of the targets and (R,) entropies, from (U, vocabulary) logits.

    Entropies hold several tensors more of the logits' size; without ``entropies`` there are none.

    ``sources`` (R,) are the rows of the logits that they are predicted from. With choices a
    log-probability is ``logit - logsumexp(logits[allowed])``.
    """
    if choices is not None:
        allowed = sources[:, None] * logits.shape[1] + choices.clamp(min=0)
        logits = logits.flatten().gather(0, allowed.flatten()).view_as(choices)
        logits = logits.masked_fill(choices < 0, -torch.inf)
        targets = (choices == targets[:, None]).int().argmax(1)
        sources = torch.arange(len(targets), device=targets.device)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
    log_probs = logits.log_softmax(-1)[sources, targets]
    return (log_probs, entropy(logits)[sources]) if entropies else (log_probs,)


def _chunks(count: int, sources: Tensor, size: int) -> list[tuple[slice, Tensor]]:
    """Cut positions into chunks, each with the response tokens that are predicted there."""
    order = sources.argsort(stable=True)
    starts = torch.arange(0, count, size, device=sources.device)
    places = torch.searchsorted(sources[order], starts).tolist()
    slices = [slice(begin, begin + size) for begin in starts.tolist()]
    return list(zip(slices, order.tensor_split(places[1:]), strict=True)) if slices else []
