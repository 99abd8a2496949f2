"""Keys and values of prompts that were read before, by blocks of tokens, for prompts that begin alike.

An episode's prompt often begins as its last one did, and episodes of one environment share instructions.
`PromptCache` finds the longest beginning of a prompt that it has, whichever episode it is from, as the
automatic prefix caching of vLLM (Kwon et al., 2023, arXiv:2309.06180) does.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor

BLOCK = 16
"""Tokens of a block."""

_EMPTY = 0
"""Number of the beginning without tokens, which precedes each first block."""


class PromptCache:
    """Keys and values of at most ``tokens`` prompt tokens; the blocks unused for longest make room.

    A block is found by the block before it and its own tokens, so that it has the same tokens before it.

    Example:
        >>> cache, ids = PromptCache(tokens=64), tuple(range(40))
        >>> states = torch.rand(1, 2, 40, 4)  # of one prompt with 2 heads of size 4
        >>> cache.add([ids], [states], [states])
        >>> cache.find(ids), cache.find((*ids[:20], 7, 7, 7)), cache.find((9, *ids))
        (32, 16, 0)
        >>> keys, values = cache.read([ids], [20])[0]
        >>> torch.equal(keys, states[:, :, :20])
        True
    """

    def __init__(self, *, tokens: int):
        """Begin empty; memory is taken at the first `add`, whole blocks of it."""
        self.capacity = tokens // BLOCK
        """Most blocks."""
        self._blocks: OrderedDict[tuple[int, tuple[int, ...]], tuple[int, int]] = OrderedDict()
        """Number and place of each block by the number of the one before and its tokens, oldest first."""
        self._numbered = _EMPTY
        self._stores: list[tuple[Tensor, Tensor]] = []
        """Keys and values of each layer, (places x BLOCK, heads, size)."""

    def __len__(self) -> int:
        """Return the number of cached tokens."""
        return len(self._blocks) * BLOCK

    def clear(self) -> None:
        """Forget all, as new weights require; the memory stays for what comes."""
        self._blocks.clear()

    def find(self, ids: Sequence[int]) -> int:
        """Return how many first tokens of a prompt are cached, and count them as used now."""
        chain = self._chain(ids)
        for key in reversed(chain):  # the first block last: a block without the one before is lost
            self._blocks.move_to_end(key)
        return len(chain) * BLOCK

    def read(self, prompts: Sequence[Sequence[int]], counts: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """Return keys and values of each layer, (n, heads, longest of ``counts``, size), padded on the left.

        ``counts``: (n,) first tokens of each prompt, no more than `find` has found since the last `add`.
        """
        places = torch.zeros(len(prompts), max(counts), dtype=torch.long)  # padding has any block's states
        for row, (ids, count) in enumerate(zip(prompts, counts, strict=True)):
            blocks = [self._blocks[key][1] for key in self._chain(ids)[: -(-count // BLOCK)]]
            tokens = torch.tensor(blocks, dtype=torch.long)[:, None] * BLOCK + torch.arange(BLOCK)
            places[row, places.shape[1] - count :] = tokens.flatten()[:count]
        places = places.to(self._stores[0][0].device)
        return [
            (keys[places].transpose(1, 2), values[places].transpose(1, 2)) for keys, values in self._stores
        ]

    def add(self, prompts: Sequence[Sequence[int]], keys: Sequence[Tensor], values: Sequence[Tensor]) -> None:
        """Take over the whole blocks of prompts that are not cached.

        ``keys`` and ``values``: of each layer, (n, heads, columns, size), a prompt's last token in the last.
        """
        if not self.capacity:
            return
        if not self._stores:
            self._stores = [
                (self._room(key), self._room(value)) for key, value in zip(keys, values, strict=True)
            ]
        written: dict[int, tuple[int, int]] = {}  # a place may be taken from a block of this very call
        for row, ids in enumerate(prompts):
            start = keys[0].shape[2] - len(ids)
            chain = self._chain(ids)
            number = self._blocks[chain[-1]][0] if chain else _EMPTY
            for begin in range(len(chain) * BLOCK, len(ids) - BLOCK + 1, BLOCK):
                key = (number, tuple(ids[begin : begin + BLOCK]))
                place = self._place()
                number = self._numbered = self._numbered + 1
                self._blocks[key] = number, place
                chain.append(key)
                written[place] = row, start + begin
            for key in reversed(chain):
                if key in self._blocks:
                    self._blocks.move_to_end(key)
        if written:
            self._write(written, keys, values)

    def _write(
        self, written: dict[int, tuple[int, int]], keys: Sequence[Tensor], values: Sequence[Tensor]
    ) -> None:
        """Copy blocks, by place: the row and the first column of each."""
        device, inner = keys[0].device, torch.arange(BLOCK)
        places = (torch.tensor(list(written))[:, None] * BLOCK + inner).flatten().to(device)
        rows = torch.tensor([row for row, _ in written.values()]).repeat_interleave(BLOCK).to(device)
        first = torch.tensor([column for _, column in written.values()])
        columns = (first[:, None] + inner).flatten().to(device)
        for stores, *states in zip(self._stores, keys, values, strict=True):
            for store, state in zip(stores, states, strict=True):
                store[places] = state[rows, :, columns]

    def _chain(self, ids: Sequence[int]) -> list[tuple[int, tuple[int, ...]]]:
        """Return the keys of the cached blocks that a prompt begins with."""
        chain, number = [], _EMPTY
        for begin in range(0, len(ids) - BLOCK + 1, BLOCK):
            key = (number, tuple(ids[begin : begin + BLOCK]))
            if key not in self._blocks:
                break
            number = self._blocks[key][0]
            chain.append(key)
        return chain

    def _place(self) -> int:
        """Return a free place, that of the block unused for longest where none is."""
        if len(self._blocks) < self.capacity:
            return len(self._blocks)  # places are taken in order, and freed only to be taken again
        return self._blocks.popitem(last=False)[1][1]

    def _room(self, like: Tensor) -> Tensor:
        """Make zeros for all places; a CPU takes memory only for those that are written."""
        _, heads, _, size = like.shape
        return like.new_zeros(self.capacity * BLOCK, heads, size)
