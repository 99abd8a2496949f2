"""Key-value cache of the rows that are being decoded, and one forward pass over all of them.

Rows stand side by side in columns that end together: each block of new tokens is padded on the left, and
padding is masked for good. Positions count a row's own tokens, so padding changes nothing that is computed
for it. A prompt is stored once for all rows that continue it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from inspect import signature
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from transformers import PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache, DynamicLayer

from agentgym.inference.engines.prompt_cache import PromptCache
from agentgym.inference.engines.shared_prefix import SharedPrompts
from agentgym.inference.models.pictures import Picture, PicturePrompt, embedded

PAD = 0
"""Filler of masked positions; any token would do."""

SPARE_COLUMNS = 64
"""Spare columns of a new buffer; a growing one gets a quarter of its columns as well."""

_WORTH_A_PASS = 32
"""Fewest equal first tokens for which a separate pass pays."""


class RowBuffer(DynamicLayer):  # type: ignore[no-untyped-call]
    """One layer's keys and values in a buffer with room to grow, instead of a new tensor each token."""

    keys: Tensor
    """(rows, heads, columns, key size), rows and columns with room to grow."""
    values: Tensor
    """(rows, heads, columns, value size), rows and columns with room to grow."""

    def __init__(self, like: tuple[Tensor, Tensor], rows: int):
        """Make an empty buffer for rows ``like`` these keys and values, (n, heads, columns, size)."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = (_room(states, rows, SPARE_COLUMNS) for states in like)
        self.rows = rows
        self.used = 0
        """Columns that are taken."""
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Append columns and return all, as views."""
        end = self.used + key_states.shape[2]
        if end > self.keys.shape[2]:
            spare = end // 4 + SPARE_COLUMNS
            self.keys, self.values = _widened(self.keys, spare), _widened(self.values, spare)
        self.keys[: self.rows, :, self.used : end] = key_states
        self.values[: self.rows, :, self.used : end] = value_states
        self.used = end
        return self.keys[: self.rows, :, :end], self.values[: self.rows, :, :end]

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of columns that a block of queries sees, and their start."""
        return self.get_seq_length() + query_length, 0

    def get_seq_length(self) -> int:
        """Return the number of columns."""
        return self.used

    def keep(self, count: int, holes: Tensor, movers: Tensor) -> None:
        """Move rows ``movers`` into ``holes`` and forget all from ``count`` on."""
        for buffer in (self.keys, self.values):
            buffer[holes, :, : self.used] = buffer[movers, :, : self.used]
        self.rows = count

    def join(self, count: int, first: int) -> None:
        """Add rows without columns of their own, and forget the columns before ``first``."""
        self.rows += count
        if first:
            for buffer in (self.keys, self.values):
                buffer[:, :, : self.used - first] = buffer[:, :, first : self.used].clone()
            self.used -= first
        more = self.rows - len(self.keys)
        if more > 0:
            added = (0, 0, 0, 0, 0, 0, 0, max(more, len(self.keys) // 2))
            self.keys, self.values = pad(self.keys, added), pad(self.values, added)


class ReadPrompt(NamedTuple):
    """A prompt as it is read: equal ones are read once."""

    ids: tuple[int, ...]
    shown: PicturePrompt | None = None

    @property
    def key(self) -> Hashable:
        """Identity of a prompt."""
        return self.ids, () if self.shown is None else self.shown.pictures

    @property
    def positions(self) -> Tensor:
        """(3, P): of the tokens, those after the part with pictures included."""
        assert self.shown is not None
        own = torch.from_numpy(self.shown.positions)
        more = torch.arange(self.shown.following, self.following)
        return torch.cat([own, more.expand(3, -1)], dim=1)

    @property
    def following(self) -> int:
        """Position of the token after the prompt."""
        if self.shown is None:
            return len(self.ids)
        return self.shown.following + len(self.ids) - int(self.shown.positions.shape[1])


class DecodingRows:
    """A batch of sequences that grow by blocks of tokens, can leave, and can join.

    Prompts are kept apart (`agentgym.inference.engines.shared_prefix`); rows have columns for what follows.
    Rows may change places when some leave: `leave` says how.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        prompts: Sequence[ReadPrompt],
        *,
        prefill_tokens: int,
        shared_beginnings: bool = False,
        prompt_cache: PromptCache | None = None,
    ):
        """Read the prompts, each different one once; none is empty.

        At most ``prefill_tokens``, padding included, are read in one pass, but for a prompt that is longer.
        With ``shared_beginnings`` what the prompts of a pass begin with is read once for all of them; what
        ``prompt_cache`` has of them is not read.
        """
        self._model = model
        # transformers 5.24 renames the attribute
        self._cache_name = "cache" if "cache" in signature(model.forward).parameters else "past_key_values"
        self._shared_beginnings = shared_beginnings
        self._prompt_cache = prompt_cache
        self._device = model.device
        self._prefill_tokens = prefill_tokens
        self._next = torch.tensor([prompt.following for prompt in prompts], device=self._device)
        """(rows,) position of each row's next token."""
        self._own = torch.zeros(len(prompts), 0, dtype=torch.bool, device=self._device)
        """(rows, columns) whether a row's own column is a token's, and no padding."""
        self._masked = False
        self.logits: Tensor
        """(rows, vocabulary): of the token after each row's last."""
        self._shared, self.logits = self._prefill(prompts)
        self._layers = [
            RowBuffer(like, len(prompts)) for like in zip(self._shared.keys, self._shared.values, strict=True)
        ]
        self._cache = Cache(layers=list(self._layers))

    def join(self, prompts: Sequence[ReadPrompt]) -> None:
        """Add rows behind the others, as `feed` has left them, and read their prompts."""
        shared, logits = self._prefill(prompts)
        self.logits = torch.cat([self.logits, logits])
        following = torch.tensor([prompt.following for prompt in prompts], device=self._device)
        self._next = torch.cat([self._next, following])
        self._shared.join(shared)
        columns = self._own.shape[1]
        owned = self._own.any(0).nonzero()
        first = int(owned[0]) if len(owned) else columns
        first = first if 2 * first >= columns else 0  # unused columns, where worth a copy
        for layer in self._layers:
            layer.join(len(prompts), first)
        self._own = pad(self._own[:, first:], (0, 0, 0, len(prompts)))
        self._masked = True

    def _prefill(self, prompts: Sequence[ReadPrompt]) -> tuple[SharedPrompts, Tensor]:
        """Return the prompts' keys and values, and the (rows, vocabulary) logits after them."""
        asked = {prompt.key: prompt for prompt in prompts}
        fresh = {key: len(prompt.ids) - self._cached(prompt) for key, prompt in asked.items()}
        distinct = sorted(asked.values(), key=lambda prompt: fresh[prompt.key])
        number = {prompt.key: place for place, prompt in enumerate(distinct)}
        lengths = [len(prompt.ids) for prompt in distinct]
        width, first = max(lengths), 0
        keys: list[Tensor] = []
        values: list[Tensor] = []
        logits = []
        sizes = [fresh[prompt.key] for prompt in distinct]
        worth = 0 if self._prompt_cache is None else _WORTH_A_PASS
        for bucket, most in _buckets(distinct, sizes, self._prefill_tokens, worth):
            cached = [max(len(prompt.ids) - most, 0) for prompt in bucket]
            cache, begin = DynamicCache(), 0 if any(cached) else self._beginning(bucket)
            logits.append(self._read(bucket, cache, begin, cached))
            states: list[tuple[Tensor, Tensor]] = [(keys, values) for keys, values, *_ in cache]
            if not keys:
                keys, values = (
                    [_room(layer[part], len(distinct), width) for layer in states] for part in (0, 1)
                )
            rows = slice(first, first + len(bucket))
            for layer, own in enumerate(states):
                for store, state in zip((keys, values), own, strict=True):
                    store[layer][rows, :, width - state.shape[2] :] = state
                    for row, prompt in enumerate(
                        bucket if begin else ()
                    ):  # there was padding after the beginning
                        start = width - len(prompt.ids)
                        store[layer][first + row, :, start : start + begin] = state[row, :, :begin]
            first += len(bucket)
        prompt_of = [number[prompt.key] for prompt in prompts]
        chosen = torch.cat(logits)[torch.tensor(prompt_of, device=self._device)]
        pads = torch.tensor([width - length for length in lengths], device=self._device)
        padding = torch.arange(width, device=self._device) < pads[:, None]
        mask = padding if min(lengths) < width else None
        if self._prompt_cache is not None:
            read = [() if prompt.shown else prompt.ids for prompt in distinct]
            self._prompt_cache.add(read, keys, values)
        return SharedPrompts.of(keys, values, mask, prompt_of), chosen

    def _cached(self, prompt: ReadPrompt) -> int:
        """Return how many first tokens of a prompt need not be read."""
        if self._prompt_cache is None or prompt.shown is not None:
            return 0
        return self._prompt_cache.find(prompt.ids[:-1])  # the last token's logits are asked for

    def _beginning(self, prompts: list[ReadPrompt]) -> int:
        """Return how many first tokens of all prompts are equal, where reading them once is worth a pass."""
        if not self._shared_beginnings or len(prompts) == 1 or any(prompt.shown for prompt in prompts):
            return 0
        columns = zip(*(prompt.ids[:-1] for prompt in prompts), strict=False)
        same = sum(1 for _ in takewhile(lambda tokens: len(set(tokens)) == 1, columns))
        return same if same >= _WORTH_A_PASS else 0

    def _read(
        self, prompts: list[ReadPrompt], cache: DynamicCache, begin: int, cached: Sequence[int]
    ) -> Tensor:
        """Fill an empty cache and return the logits that follow.

        The first ``begin`` tokens are read by one row; the first ``cached`` of each prompt are not read.
        """
        before = [begin or count for count in cached]
        tokens, mask = _padded(
            [prompt.ids[count:] for prompt, count in zip(prompts, before, strict=True)], self._device
        )
        width = tokens.shape[1]
        lengths = mask.sum(1, keepdim=True)
        first = torch.tensor(before, device=self._device)[:, None]
        positions = first + (torch.arange(width, device=self._device) - width + lengths).clamp(0)
        padded = len({len(prompt.ids) for prompt in prompts}) > 1
        if begin:
            ids = torch.tensor([prompts[0].ids[:begin]], device=self._device)
            self._forward(ids, torch.arange(begin, device=self._device)[None], None, cache)
            cache.batch_repeat_interleave(len(prompts))
        elif any(cached):
            assert self._prompt_cache is not None
            known = self._prompt_cache.read([prompt.ids for prompt in prompts], cached)
            for layer, (keys, values) in enumerate(known):
                cache.update(keys, values, layer)
        most = max(before)
        mask = torch.cat([torch.arange(most, device=self._device) >= most - first, mask], dim=1)
        pictures = [picture for prompt in prompts if prompt.shown for picture in prompt.shown.pictures]
        if pictures:
            positions = positions.expand(3, -1, -1).clone()
            for row, prompt in enumerate(prompts):
                if prompt.shown is not None:
                    positions[:, row, width - len(prompt.ids) :] = prompt.positions.to(self._device)
        return self._forward(tokens, positions, mask if padded else None, cache, pictures=pictures)

    def _forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        cache: Cache,
        shared: SharedPrompts | None = None,
        pictures: Sequence[Picture] = (),
    ) -> Tensor:
        if pictures:
            read = {"inputs_embeds": embedded(self._model.base_model, tokens, pictures)}
        else:
            read = {"input_ids": tokens}
        output = self._model(
            **read,
            position_ids=positions,
            attention_mask=mask,
            **{self._cache_name: cache},
            use_cache=True,
            logits_to_keep=1,
            shared_prompts=shared,
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def feed(self, blocks: Sequence[Sequence[int]]) -> None:
        """Append a block of tokens to each row, at least one, and compute `logits` anew."""
        width = max(map(len, blocks))
        if width == 1:
            tokens = torch.tensor(blocks, device=self._device)
            positions = self._next.unsqueeze(1)
            new = torch.ones_like(tokens, dtype=torch.bool)
            self._next = self._next + 1
        else:
            tokens, new = _padded(blocks, self._device)
            positions = (self._next.unsqueeze(1) + new.cumsum(1) - 1).clamp(0)
            self._next = self._next + new.sum(1)
            self._masked |= min(map(len, blocks)) < width
        before = self._own.shape[1]
        self._own = torch.cat([self._own, new], dim=1)
        mask = None
        if self._masked or width > 1:
            columns = torch.arange(before + width, device=self._device)
            causal = columns <= before + torch.arange(width, device=self._device).unsqueeze(1)
            mask = (self._own[:, None] & causal).unsqueeze(1)
        self.logits = self._forward(tokens, positions, mask, self._cache, self._shared)

    def leave(self, gone: Sequence[int]) -> list[tuple[int, int]]:
        """Remove rows, ascending and not all; the last ones take their places.

        Returns the moves: (place, the row that now stands there). Rows beyond the new count are gone.
        """
        rows = len(self._next)
        count = rows - len(gone)
        holes = [row for row in gone if row < count]
        leaving = set(gone)
        movers = [row for row in range(count, rows) if row not in leaving]
        hole, mover = (torch.tensor(x, dtype=torch.long, device=self._device) for x in (holes, movers))
        for layer in self._layers:
            layer.keep(count, hole, mover)
        self._next[hole] = self._next[mover]
        self._own[hole] = self._own[mover]
        self._next, self._own = self._next[:count], self._own[:count]
        prompt_of = self._shared.prompt_of
        for place, row in zip(holes, movers, strict=True):
            prompt_of[place] = prompt_of[row]
        self._shared.assign(prompt_of[:count])
        return list(zip(holes, movers, strict=True))


def _buckets(
    prompts: list[ReadPrompt], sizes: list[int], budget: int, worth: int
) -> Iterator[tuple[list[ReadPrompt], int]]:
    """Cut prompts, of which ascending ``sizes`` of tokens are read, and yield each bucket's largest size.

    Cuts are where a pass would be too large, or half of a row padding and that at least ``worth`` tokens.
    """
    bucket: list[ReadPrompt] = []
    smallest = largest = longest = 0
    for prompt, size in zip(prompts, sizes, strict=True):
        longest = max(longest, len(prompt.ids))
        if bucket and ((len(bucket) + 1) * longest > budget or size > 2 * max(smallest, worth)):
            yield bucket, largest
            bucket = []
        if not bucket:
            smallest, longest = size, len(prompt.ids)
        largest = size
        bucket.append(prompt)
    yield bucket, largest


def _padded(blocks: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return tokens and mask, (n, longest), padded on the left."""
    width = max(map(len, blocks))
    tokens = torch.tensor([[*[PAD] * (width - len(block)), *block] for block in blocks], device=device)
    counts = torch.tensor([len(block) for block in blocks], device=device)
    return tokens, torch.arange(width, device=device) >= width - counts.unsqueeze(1)


def _room(like: Tensor, rows: int, columns: int) -> Tensor:
    """Make zeros for (rows, heads, columns, size): a masked column is multiplied by zero, so not by NaN."""
    _, heads, _, size = like.shape
    return like.new_zeros(rows, heads, columns, size)


def _widened(buffer: Tensor, columns: int) -> Tensor:
    return torch.cat([buffer, _room(buffer, len(buffer), columns)], dim=2)
