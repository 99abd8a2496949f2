"""Log-probabilities of response tokens, without ever holding the logits of all of them.

The model's body reads a whole pack; its head reads only the positions that predict a response token, a
chunk at a time, and what it computed there is computed again for the gradient. So memory is bounded by a
chunk and not by the number of tokens, however large the vocabulary. A position that predicts several
response tokens is read once for all of them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.errors import UsageError
from agentgym.inference.engines.sampling import SamplerFunction
from agentgym.inference.models.pictures import embedded
from agentgym.training.learner.attention import FLASH, PackedRows, attend_in_packs, pack_mask
from agentgym.training.learner.config import CHUNK_LOGITS
from agentgym.training.learner.head import ChunkedHead
from agentgym.training.learner.packing import Pack, StepRow, pack_rows


def response_log_probs(
    model: PreTrainedModel,
    pack: Pack,
    *,
    temperature: float = 1.0,
    chunk_logits: int = CHUNK_LOGITS,
    entropies: bool = True,
    compiled: bool = False,
    sampler: SamplerFunction | None = None,
) -> tuple[Tensor, Tensor]:
    """Return (R,) log-probabilities and (R,) entropies in nats of a pack's response tokens.

    In the pack's order, and differentiable. Where responses are constrained choices both are of the
    distribution over the allowed tokens. ``temperature``: that responses were sampled at; 0 is taken for 1,
    as engines report it. At most ``chunk_logits`` are computed at once, but at least one token's. Without
    ``entropies`` these have size 0; ``compiled``: whether the softmax is; ``sampler``: the engine's.
    """
    head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
    states = hidden_states(model.base_model, pack)[pack.read]
    chunks = pack.chunks(max(chunk_logits // len(head.weight), 1))
    inputs = states, head.weight, head.bias, pack.sources, pack.targets, pack.choices
    settings = temperature or 1.0, chunks, entropies, compiled, sampler
    result: tuple[Tensor, Tensor] = ChunkedHead.apply(*inputs, *settings)  # type: ignore[no-untyped-call]
    return result


def hidden_states(body: torch.nn.Module, pack: Pack) -> Tensor:
    """Return (S, d) the last hidden states of a model's body, the part below its head."""
    assert isinstance(body, PreTrainedModel)
    attend_in_packs(body)
    flash = body.config.get_text_config()._attn_implementation == FLASH
    # an unused mask of four axes, which models pass on unchanged; without one they would build their own
    whatever = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=pack.input_ids.device)
    ids = pack.input_ids[None]
    read = {"inputs_embeds": embedded(body, ids, pack.pictures)} if pack.pictures else {"input_ids": ids}
    output = body(
        **read,
        position_ids=pack.position_ids.unsqueeze(-2),  # (1, S), or (3, 1, S)
        attention_mask=whatever,
        use_cache=False,
        pack_mask=PackedRows(pack.row_bounds, pack.longest) if flash else pack_mask(pack.ends),
    )
    states: Tensor = output.last_hidden_state[0]
    return states


def check_model(model: PreTrainedModel, device: torch.device | None = None) -> None:
    """Refuse a model that packing, or a head apart from the body, would change.

    It must attend to the whole context in every layer, by the SDPA of `transformers`, and have its head's
    plain logits. Computes a few tokens, on ``device`` (default: where its weights are).
    """
    config = model.config.get_text_config()
    kind = model.config.model_type
    layers = getattr(config, "layer_types", None) or ()
    window = (
        getattr(config, "sliding_window", None) or math.inf
    )  # the window of all layers, where the model does not distinguish them
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
        exact = torch.promote_types(logits.dtype, torch.float32)
        expected = logits.to(exact).log_softmax(-1).gather(1, pack.targets[:3, None])[:, 0]
        packed, _ = response_log_probs(model, pack)
    tolerance = 1e-4 if model.dtype == exact else 0.1
    if not torch.allclose(packed, expected.repeat(2), rtol=0, atol=tolerance):
        raise UsageError(
            f"the model of type {kind!r} does more than apply its output embedding to its last hidden "
            "states, or does not attend as it is told to: choose a model without scaled or capped logits, "
            "whose attention goes through transformers' AttentionInterface"
        )
