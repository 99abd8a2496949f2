"""The engine over a `transformers` model in this process: a batched decoding loop with cached attention.

What `generate` of that library does not do, and training needs: a response depends on its prompt and
seed alone, prompts that a group shares are read once, finished rows leave the batch at once, and
constrained rows choose among an action trie's tokens, skipping those without an alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer

from agentgym.errors import UsageError
from agentgym.training.engines.responses import SampledResponse, generations
from agentgym.training.engines.rows import DecodingRows, ReadPrompt
from agentgym.training.engines.sampling import sample, uniform
from agentgym.training.engines.shared_prefix import NAME
from agentgym.training.engines.types import Generation, GenerationRequest
from agentgym.training.engines.weights import check_shapes, matched
from agentgym.training.models.weights import NamedTensors

BATCH_TOKENS = 131_072
"""Default of rows times their longest prompt with its response that are decoded together."""


class HfEngine:
    """Samples from a causal language model of `transformers`, on the device and in the type it has.

    The model may be the learner's own: sampling leaves its mode, gradients and weights as they are.
    """

    def __init__(self, model: PreTrainedModel, *, version: int = 0, batch_tokens: int = BATCH_TOKENS):
        """Bind any causal language model whose every layer attends to the whole context.

        ``version``: of its weights; ``batch_tokens`` bounds rows times the longest prompt with its response,
        except for a single row.
        """
        if any(type(layer) is not DynamicLayer for layer in DynamicCache(config=model.config).layers):
            raise UsageError(
                f"the model of type {model.config.model_type!r} has layers that do not attend to the whole "
                "context: choose one with full attention in every layer"
            )
        if batch_tokens < 1:
            raise UsageError(f"batch_tokens must be at least 1, got {batch_tokens}")
        self.model = model
        self._config = model.config.get_text_config()
        self._version = version
        self._batch_tokens = batch_tokens

    @property
    def version(self) -> int:
        """Version of the weights."""
        return self._version

    @property
    def context_length(self) -> int:
        """Most tokens that a prompt and its response may have together."""
        return int(self._config.max_position_embeddings)

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Continue every prompt; one generation per request, in order.

        `UsageError` for an empty prompt, one that leaves no room in the context for a response, or logits
        that are not numbers.
        """
        rows = [SampledResponse.to(request, self.context_length) for request in requests]
        training, attention = self.model.training, self._config._attn_implementation
        self.model.train(False)
        self.model.set_attn_implementation(NAME)
        try:
            with torch.inference_mode():
                for batch in self._batches([row for row in rows if row.finish is None]):
                    self._decode(batch)
        finally:
            self.model.set_attn_implementation(attention)
            self.model.train(training)
        return generations(rows, self._version)

    def sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        """Take over weights: all are checked before the first is copied.

        ``state``: every tensor of the model's ``state_dict`` by name, in any order; one of several tied names
        suffices. Those of `NamedTensors` are taken one by one, others are all held until then. `UsageError`
        where a tensor is unknown, missing or of another shape; then all weights are as before.
        """
        own = self.model.state_dict(keep_vars=True)
        if isinstance(state, NamedTensors):
            check_shapes(own, state.shapes)
        else:
            state = matched(own, state, self.model.dtype).items()
        with torch.no_grad():
            for name, tensor in state:
                own[name].copy_(tensor)
        self._version = version

    # ---- inside ----------------------------------------------------------------------------

    def _batches(self, rows: list[SampledResponse]) -> Iterator[list[SampledResponse]]:
        """Cut rows of ascending prompts into batches; the same prompts stay neighbours."""
        batch: list[SampledResponse] = []
        longest = 0
        for row in sorted(rows, key=lambda row: (len(row.request.prompt_ids), row.request.prompt_ids)):
            size = len(row.request.prompt_ids) + row.limit
            if batch and (len(batch) + 1) * max(longest, size) > self._batch_tokens:
                yield batch
                batch, longest = [], 0
            batch.append(row)
            longest = max(longest, size)
        if batch:
            yield batch

    def _decode(self, rows: list[SampledResponse]) -> None:
        """Draw the responses of a batch to their ends."""
        state = DecodingRows(
            self.model,
            # with the tokens that a response begins with for want of an alternative
            [ReadPrompt((*row.request.prompt_ids, *row.ids), row.request.shown) for row in rows],
            prefill_tokens=self._batch_tokens,
        )
        for row in rows:
            row.fed = len(row.ids)
        while True:
            _draw(rows, state.logits)
            finished = [k for k, row in enumerate(rows) if row.finish is not None]
            if len(finished) == len(rows):
                return
            if finished:
                for place, moved in state.leave(finished):
                    rows[place] = rows[moved]
                del rows[len(rows) - len(finished) :]
            state.feed([row.ids[row.fed :] for row in rows])
            for row in rows:
                row.fed = len(row.ids)


def _draw(rows: list[SampledResponse], logits: Tensor) -> None:
    """Draw each row's next token from its (vocabulary,) logits."""
    free = [k for k, row in enumerate(rows) if row.request.allowed is None]
    bound = [k for k, row in enumerate(rows) if row.request.allowed is not None]
    if free:
        _draw_some([rows[k] for k in free], logits if not bound else logits[free], None)
    if bound:
        choices = _choices([rows[k] for k in bound], logits.device)
        own = logits if not free else logits[bound]
        narrowed = own.gather(1, choices.clamp(min=0)).masked_fill(choices < 0, -torch.inf)
        _draw_some([rows[k] for k in bound], narrowed, choices)


def _choices(rows: list[SampledResponse], device: torch.device) -> Tensor:
    """Return the tokens each row may choose from, (n, most), filled up with -1."""
    sets = [row.request.allowed.allowed(row.node) for row in rows if row.request.allowed is not None]
    width = max(map(len, sets))
    return torch.tensor([[*tokens, *[-1] * (width - len(tokens))] for tokens in sets], device=device)


def _draw_some(rows: list[SampledResponse], logits: Tensor, tokens: Tensor | None) -> None:
    """Draw a column for each row; ``tokens`` says which token a column is, where it is not its own."""
    device = logits.device
    temperatures = torch.tensor([row.request.sampling.temperature for row in rows], device=device)
    uniforms = torch.tensor(
        [uniform(row.request.seed, len(row.ids)) for row in rows], dtype=torch.float64, device=device
    )
    columns, logprobs = sample(logits, temperatures, uniforms)
    drawn = columns if tokens is None else tokens.gather(1, columns.unsqueeze(1)).squeeze(1)
    for row, token, logprob in zip(rows, drawn.tolist(), logprobs.tolist(), strict=True):
        row.take(token, logprob)
