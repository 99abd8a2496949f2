"""Shared-prefix attention of decoding: rows that continue the same prompt read its keys and values once.

A group's attempts begin with one prompt. Its keys and values are stored once, and the queries of all its
rows meet them in one matrix product; each row then meets its own columns, and the two softmaxes are merged
exactly. Against a copy of the prompt for each row this divides the memory of prompts, and what is read of
them for every token, by the size of the group.

`transformers` looks `attend_shared` up by name; `HfEngine` has its model attend by it while it samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

NAME = "agentgym-decoding"
"""Name of `attend_shared` in the attention registry of `transformers`."""


@dataclass(slots=True)
class SharedPrompts:
    """Keys and values of p different prompts, and the prompt of each of n rows."""

    keys: list[Tensor]
    """Keys of each layer, (p, key-value heads, P, size), columns padded on the left."""
    values: list[Tensor]
    """Values of each layer, shaped as ``keys``."""
    padding: Tensor | None
    """(p, P) whether a column is padding; None where there is none."""
    prompt_of: list[int]
    """(n,) the prompt of each row."""
    members: Tensor
    """(p m,) for each prompt its rows, m places each; a spare place repeats a row, whose result is unused."""
    places: Tensor
    """(n,) place of each row in ``members``."""

    @classmethod
    def of(
        cls, keys: list[Tensor], values: list[Tensor], padding: Tensor | None, prompt_of: Sequence[int]
    ) -> SharedPrompts:
        """Assign rows to prompts; ``keys`` and ``values`` are of each layer, ``prompt_of`` is (n,)."""
        none = torch.zeros(0, dtype=torch.long, device=keys[0].device)
        shared = cls(keys, values, padding, [], none, none)
        shared.assign(prompt_of)
        return shared

    def join(self, other: SharedPrompts) -> None:
        """Add another's rows behind the own ones.

        Its prompts are written over those that no row continues; where these are too few or too short, room
        is made, for half as many more.
        """
        (count, _, width, _), (wanted, _, needed, _) = self.keys[0].shape, other.keys[0].shape
        free = sorted(set(range(count)) - set(self.prompt_of))
        more = max(wanted - len(free), count // 2) if wanted > len(free) else 0
        longer, shorter = max(needed - width, 0), max(width - needed, 0)
        chosen = [*free, *range(count, count + more)][:wanted]
        places = torch.tensor(chosen, device=self.keys[0].device)
        self.padding = pad(self._mask(), (longer, 0, 0, more), value=True)
        self.padding[places] = pad(other._mask(), (shorter, 0), value=True)
        for stores, states in ((self.keys, other.keys), (self.values, other.values)):
            for layer, state in enumerate(states):
                if more or longer:
                    stores[layer] = pad(stores[layer], (0, 0, longer, 0, 0, 0, 0, more))
                stores[layer][places] = pad(state, (0, 0, shorter, 0))
        self.assign([*self.prompt_of, *(chosen[prompt] for prompt in other.prompt_of)])

    def _mask(self) -> Tensor:
        """Return (p, P) whether a column is padding."""
        count, _, width, _ = self.keys[0].shape
        none = torch.zeros(count, width, dtype=torch.bool, device=self.keys[0].device)
        return none if self.padding is None else self.padding

    def assign(self, prompt_of: Sequence[int]) -> None:
        """Assign other rows, and forget the prompts that none continues once these are half of all."""
        used = sorted(set(prompt_of))
        if 2 * len(used) <= len(self.keys[0]):
            retained = torch.tensor(used, device=self.keys[0].device)
            self.keys, self.values = (
                [states[retained] for states in layers] for layers in (self.keys, self.values)
            )
            self.padding = None if self.padding is None else self.padding[retained]
            number = {prompt: place for place, prompt in enumerate(used)}
            prompt_of = [number[prompt] for prompt in prompt_of]
        self.prompt_of = list(prompt_of)
        rows: list[list[int]] = [[] for _ in range(len(self.keys[0]))]
        for row, prompt in enumerate(self.prompt_of):
            rows[prompt].append(row)
        width = max(map(len, rows))
        members = [row for group in rows for row in (*group, *[0] * (width - len(group)))]
        places = [0] * len(self.prompt_of)
        for prompt, group in enumerate(rows):
            for place, row in enumerate(group):
                places[row] = prompt * width + place
        device = self.keys[0].device
        self.members, self.places = (torch.tensor(x, device=device) for x in (members, places))

    def meet(self, queries: Tensor, layer: int, scale: float) -> tuple[Tensor, Tensor]:
        """Attend to the prompts.

        ``queries``: (n, key-value heads, k, size). Returns (n, key-value heads, k, size) averages of values,
        and (n, key-value heads, k, 1) the logarithms of the exponentials' sums.
        """
        keys, values = self.keys[layer], self.values[layer]
        _, heads, k, size = queries.shape
        prompts = len(keys)
        asking = queries[self.members].view(prompts, -1, heads, k, size).transpose(1, 2)
        mask = None if self.padding is None else self.padding[:, None, None]
        found = _attention(asking.reshape(prompts, heads, -1, size), keys, values, mask, scale)
        return tuple(  # type: ignore[return-value]
            part.view(prompts, heads, -1, k, part.shape[-1])
            .transpose(1, 2)
            .reshape(-1, heads, k, part.shape[-1])[self.places]
            for part in found
        )


def attend_shared(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    shared_prompts: SharedPrompts | None = None,
    **settings: Any,
) -> tuple[Tensor, Tensor | None]:
    """Compute attention as `transformers` asks for it, to ``shared_prompts`` and to rows' own columns.

    ``query``: (n, heads, w, size) of each row's newest w tokens; ``key`` and ``value``: (n, key-value heads,
    columns, size), the rows' own columns, the newest w last; ``attention_mask``: (n, 1, w, columns), which
    own columns a query sees, None for all. Without ``shared_prompts`` this is SDPA. Returns (n, w, heads,
    size), and None in the place of weights.
    """
    if shared_prompts is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **settings)
    n, heads, width, size = query.shape
    kv_heads = key.shape[1]
    scale = settings.get("scaling") or size**-0.5
    queries = query.reshape(n, kv_heads, -1, size)  # queries grouped by their key-value head
    shared, shared_sum = shared_prompts.meet(queries, int(module.layer_idx), scale)  # type: ignore[arg-type]
    hidden = None
    if attention_mask is not None:
        seen = attention_mask.expand(n, heads // kv_heads, width, -1).reshape(n, 1, -1, key.shape[2])
        hidden = ~seen
    own, own_sum = _attention(queries, key, value, hidden, scale)
    result = torch.lerp(shared, own, (own_sum - shared_sum).sigmoid())
    return result.to(query.dtype).view(n, heads, width, size).transpose(1, 2), None


def _attention(
    queries: Tensor, keys: Tensor, values: Tensor, hidden: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Return averages of values, and logarithms of the exponentials' sums; finite where all is hidden."""
    if queries.device.type == "cpu" and queries.dtype == torch.float32:
        bias = None if hidden is None else torch.zeros(hidden.shape).masked_fill_(hidden, -torch.inf)
        flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
        averages, sums = flash(queries, keys, values, attn_mask=bias, scale=scale)
        return averages, sums.unsqueeze(-1)
    scores = ((queries * scale) @ keys.transpose(2, 3)).float()
    if hidden is not None:
        scores = scores.masked_fill(hidden, -torch.inf)
    most = scores.amax(-1, keepdim=True).clamp(min=torch.finfo(torch.float32).min)  # -inf without any key
    weights = scores.sub_(most).exp_()
    total = weights.sum(-1, keepdim=True)
    averages = (weights.to(values.dtype) @ values).float() / total.clamp(min=torch.finfo(torch.float32).tiny)
    return averages, most + total.log()


AttentionInterface.register(NAME, attend_shared)
AttentionMaskInterface.register(NAME, sdpa_mask)
