"""Block attention of packed sequences: a token attends to its own row up to itself, and to no other row.

The tokens of a pack are in depth-first order of the trie that its rows make. So the queries that attend to a
token are those from its position to the end of its subtree, without a gap, and one number per token defines
the mask. On a processor no S x S array is made: outside a block, its first token attends to everything that
any token of the block does, so a block's queries meet the keys of that one path and of the block.

Models attend by `attend` from the first pack on (`transformers` looks it up by name). Outside of packs it
is SDPA as before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask
from torch.nn.attention.varlen import varlen_attn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.flex_attention import flex_attention_forward
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from agentgym.errors import UsageError

NAME = "agentgym"
"""Name of `attend` in the attention registry of `transformers`."""

FLASH = "agentgym_rows"
"""Name of `attend` for packs read by FlashAttention; `transformers` looks for a kernel where a name has
"flash" in it."""

BLOCK = 128
"""Number of queries that share their keys. Smaller blocks mask less, larger ones need fewer calls."""


@dataclass(frozen=True, slots=True)
class Blocks:
    """The keys of each block of `BLOCK` queries."""

    keys: Tensor
    """Positions of the keys, block after block."""
    seen: tuple[Tensor, ...]
    """Masks of the blocks, (queries, keys): whether a query attends to a key."""


@dataclass(frozen=True, slots=True)
class PackedRows:
    """Rows that share nothing, for FlashAttention."""

    bounds: Tensor
    """Bounds of the rows, (r + 1,) int32: the start of each, and the end of the last one."""
    longest: int


PackMask: TypeAlias = Blocks | BlockMask | PackedRows
"""Block attention mask of packed sequences, as the device's attention takes it."""


def pack_mask(ends: Tensor) -> PackMask:
    """Return the block attention mask of packed sequences: token j is attended to from j up to ``ends[j]``.

    ``ends``: (S,), of a trie in depth-first order; on the device where attention is computed.
    """
    return _blocks(ends) if ends.device.type == "cpu" else _block_mask(ends)


def _blocks(ends: Tensor) -> Blocks:
    keys, masks = [], []
    for queries in torch.split(torch.arange(len(ends)), BLOCK):
        first = int(queries[0])
        met = torch.cat([torch.nonzero(ends[:first] > first)[:, 0], queries])
        keys.append(met)
        masks.append((queries[:, None] >= met) & (queries[:, None] < ends[met]))
    return Blocks(torch.cat(keys), tuple(masks))


def _block_mask(ends: Tensor) -> BlockMask:
    """Return the mask for FlexAttention, which the tests compute with uncompiled, on a processor.

    Which blocks see which follows from the least and the largest end in a block: nothing of S x S is made.
    """

    def sees(_batch: Tensor, _head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (query >= key) & (query < ends[key])

    size, count = len(ends), -(-len(ends) // BLOCK)
    padding = count * BLOCK - size
    # padding tokens attend to none and none to them, so the last block never counts as full
    parts = torch.nn.functional.pad(ends, (0, padding)).view(count, BLOCK)
    begins = torch.arange(count, device=ends.device) * BLOCK
    before = begins[:, None] > begins
    some = (parts.amax(1) > begins[:, None]) & before | torch.eye(count, dtype=torch.bool, device=ends.device)
    lasts = (begins + BLOCK).clamp(max=size) - 1
    full = (parts.amin(1) > lasts[:, None]) & before & (begins[:, None] + BLOCK <= size)
    return BlockMask.from_kv_blocks(
        *_listed(some & ~full), *_listed(full), BLOCK_SIZE=BLOCK, mask_mod=sees, seq_lengths=(size, size)
    )


def _listed(blocks: Tensor) -> tuple[Tensor, Tensor]:
    """Return the number of key blocks of each query block, and their order, in FlexAttention's form."""
    order = torch.argsort(blocks.int(), dim=1, descending=True, stable=True)
    return blocks.sum(1, dtype=torch.int32)[None, None], order.to(torch.int32)[None, None]


def attend(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    pack_mask: PackMask | None = None,
    **settings: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention as `transformers` asks for it, by ``pack_mask`` where a pack is read.

    In a pack ``query`` is (1, heads, S, d), ``key`` and ``value`` (1, key-value heads, S, d);
    ``attention_mask`` is for SDPA outside of packs. Returns (1, S, heads, d), and None in the place of
    weights.
    """
    if pack_mask is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    if isinstance(pack_mask, BlockMask):
        output, _ = flex_attention_forward(module, query, key, value, pack_mask, **settings)
        return output, None
    if isinstance(pack_mask, PackedRows):
        bounds, longest, scale = pack_mask.bounds, pack_mask.longest, settings.get("scaling")
        q, k, v = (states[0].transpose(0, 1) for states in (query, key, value))
        causal = (-1, 0)  # (left, right) window: all tokens before, none after
        read = varlen_attn(
            q, k, v, bounds, bounds, longest, longest, scale=scale, window_size=causal, enable_gqa=True
        )
        assert isinstance(read, Tensor)  # the output alone, without log-sum-exp
        return read[None], None
    sizes = [mask.shape[1] for mask in pack_mask.seen]
    keys, values = (
        torch.split(states.index_select(2, pack_mask.keys), sizes, dim=2) for states in (key, value)
    )
    blocks = [
        torch.nn.functional.scaled_dot_product_attention(
            asking,
            met,
            read,
            attn_mask=seen,
            dropout_p=settings.get("dropout", 0.0),
            scale=settings.get("scaling"),
            enable_gqa=True,
        )
        for asking, met, read, seen in zip(
            torch.split(query, BLOCK, dim=2), keys, values, pack_mask.seen, strict=True
        )
    ]
    return torch.cat(blocks, dim=2).transpose(1, 2), None


def attend_in_packs(body: PreTrainedModel, *, flash: bool = False) -> None:
    """Switch a model from SDPA to `attend`; ``flash``: to FlashAttention of rows that share nothing."""
    config = body.config.get_text_config()
    if flash or config._attn_implementation == "sdpa":
        body.set_attn_implementation(FLASH if flash else NAME)
    if config._attn_implementation not in (NAME, FLASH):
        raise UsageError(
            f"the model of type {body.config.model_type!r} computes attention with "
            f'{config._attn_implementation!r}: load it with attn_implementation="sdpa"'
        )


for _name in (NAME, FLASH):
    AttentionInterface.register(_name, attend)
    AttentionMaskInterface.register(_name, sdpa_mask)
