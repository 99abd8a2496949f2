"""The engine over a `transformers` model in this process: a batched decoding loop with cached attention.

What `generate` of that library does not do, and training needs: a response depends on its prompt and
seed alone, prompts that a group shares are read once, finished rows leave the batch at once, others join it
between two steps, and constrained rows choose among an action trie's tokens, skipping those without an
alternative.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import DynamicCache, DynamicLayer

from agentgym.errors import UsageError
from agentgym.inference.engines.prompt_cache import BLOCK, PromptCache
from agentgym.inference.engines.responses import SampledResponse
from agentgym.inference.engines.rows import DecodingRows, ReadPrompt
from agentgym.inference.engines.sampling import sample, uniform
from agentgym.inference.engines.shared_prefix import NAME
from agentgym.inference.engines.stepping import SteppingEngine
from agentgym.inference.engines.types import Generation, GenerationRequest
from agentgym.inference.engines.weights import check_shapes, matched
from agentgym.inference.models.linear import use_onednn
from agentgym.inference.models.weights import NamedTensors

BATCH_TOKENS = 131_072
"""Default limit of rows decoded together times their longest prompt with response, in tokens."""


class HfEngine(SteppingEngine):
    """Samples from a causal language model of `transformers`, on the device and in the type it has.

    The model may be the learner's own: sampling leaves its mode, gradients and weights as they are.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        version: int = 0,
        batch_tokens: int = BATCH_TOKENS,
        shared_beginnings: bool = False,
        prompt_cache: int = 0,
    ):
        """Bind any causal language model whose every layer attends to the whole context.

        ``version``: of its weights; ``batch_tokens`` bounds rows times the longest prompt with its response,
        except for a single row. ``shared_beginnings``: what different prompts begin with is read once, so
        that log-probabilities depend on what a prompt is batched with, within rounding. ``prompt_cache``:
        prompt tokens whose keys and values are kept for later prompts that begin alike, up to the next
        `sync`; log-probabilities then depend, within rounding, on what was read before. 0 for none.
        """
        if any(type(layer) is not DynamicLayer for layer in DynamicCache(config=model.config).layers):
            raise UsageError(
                f"the model of type {model.config.model_type!r} has layers that do not attend to the whole "
                "context: choose one with full attention in every layer"
            )
        if batch_tokens < 1:
            raise UsageError(f"batch_tokens must be at least 1, got {batch_tokens}")
        if prompt_cache and prompt_cache < BLOCK:
            raise UsageError(f"prompt_cache is 0 or at least {BLOCK} tokens, got {prompt_cache}")
        super().__init__(version)
        use_onednn(model)
        self.model = model
        self._config = model.config.get_text_config()
        self._batch_tokens = batch_tokens
        self._shared_beginnings = shared_beginnings
        self._prompt_cache = PromptCache(tokens=prompt_cache) if prompt_cache else None
        self._form = ExitStack()
        """Exit stack that restores the model's own form; empty without responses in flight."""
        self._batch: list[SampledResponse] = []
        """Responses in flight, in the order of ``_rows``."""
        self._rows: DecodingRows | None = None

    @property
    def context_length(self) -> int:
        """Most tokens that a prompt and its response may have together."""
        return int(self._config.max_position_embeddings)

    # ---- inside ----------------------------------------------------------------------------

    def _begin(self, request: GenerationRequest) -> SampledResponse:
        return SampledResponse.to(request, self.context_length)

    def _generate(self, responses: list[SampledResponse]) -> list[Generation]:
        for batch in self._batches([response for response in responses if response.finish is None]):
            self._advance(batch)
            while self._batch:
                self._advance([])
        return [response.generation(self._version) for response in responses]

    def _step(self, waiting: deque[SampledResponse]) -> list[SampledResponse]:
        fresh: list[SampledResponse] = []
        longest = max(map(_most_tokens, self._batch), default=0)
        while waiting:
            longest = max(longest, _most_tokens(waiting[0]))
            rows = len(self._batch) + len(fresh)
            if rows and (rows + 1) * longest > self._batch_tokens:
                break
            fresh.append(waiting.popleft())
        return self._advance(fresh)

    def _drop(self) -> list[SampledResponse]:
        dropped, self._batch, self._rows = self._batch, [], None
        self._form.close()
        return dropped

    def _sync(self, state: Iterable[tuple[str, Tensor]], version: int) -> None:
        if self._prompt_cache is not None:
            self._prompt_cache.clear()
        own = self.model.state_dict(keep_vars=True)
        if isinstance(
            state, NamedTensors
        ):  # shapes are known, so tensors are read one by one; others are collected until all fit
            check_shapes(own, state.shapes)
        else:
            state = matched(own, state, self.model.dtype).items()
        with torch.no_grad():
            for name, tensor in state:
                own[name].copy_(tensor)

    def _batches(self, rows: list[SampledResponse]) -> Iterator[list[SampledResponse]]:
        """Cut rows of ascending prompts into batches; the same prompts stay neighbours."""
        batch: list[SampledResponse] = []
        longest = 0
        for row in sorted(rows, key=lambda row: (len(row.request.prompt_ids), row.request.prompt_ids)):
            size = _most_tokens(row)
            if batch and (len(batch) + 1) * max(longest, size) > self._batch_tokens:
                yield batch
                batch, longest = [], 0
            batch.append(row)
            longest = max(longest, size)
        if batch:
            yield batch

    def _advance(self, fresh: list[SampledResponse]) -> list[SampledResponse]:
        """Let rows join, draw a token for each row, and return the responses that are over."""
        if not self._batch:
            self._form.enter_context(self._sampling_form())
        try:
            with torch.inference_mode():
                over = self._draw(fresh)
        except BaseException:
            self._drop()
            raise
        if not self._batch:
            self._drop()
        return over

    def _draw(self, fresh: list[SampledResponse]) -> list[SampledResponse]:
        batch, state = self._batch, self._rows
        if state is not None:
            state.feed([row.ids[row.fed :] for row in batch])
        # includes a response's existing tokens, such as those without an alternative
        prompts = [ReadPrompt((*row.request.prompt_ids, *row.ids), row.request.shown) for row in fresh]
        if state is None:
            state = self._rows = DecodingRows(
                self.model,
                prompts,
                prefill_tokens=self._batch_tokens,
                shared_beginnings=self._shared_beginnings,
                prompt_cache=self._prompt_cache,
            )
        elif fresh:
            state.join(prompts)
        batch += fresh
        for row in batch:
            row.fed = len(row.ids)
        _draw(batch, state.logits)
        finished = [k for k, row in enumerate(batch) if row.finish is not None]
        over = [batch[k] for k in finished]
        if 0 < len(over) < len(batch):
            for place, moved in state.leave(finished):
                batch[place] = batch[moved]
        del batch[len(batch) - len(over) :]
        return over

    @contextmanager
    def _sampling_form(self) -> Iterator[None]:
        """Put the model into the form that it samples in."""
        training, attention = self.model.training, self._config._attn_implementation
        self.model.train(False)
        self.model.set_attn_implementation(NAME)
        try:
            yield
        finally:
            self.model.set_attn_implementation(attention)
            self.model.train(training)


def _most_tokens(response: SampledResponse) -> int:
    return len(response.request.prompt_ids) + response.limit


def _draw(rows: list[SampledResponse], logits: Tensor) -> None:
    """Draw each row's next token from its (vocabulary,) logits."""
    free = [k for k, row in enumerate(rows) if row.request.allowed is None]
    bound = [k for k, row in enumerate(rows) if row.request.allowed is not None]
    if free:
        _draw_some([rows[k] for k in free], logits if not bound else logits[free], None)
    if bound:
        sets = [each.allowed(rows[k].node) for k in bound if (each := rows[k].request.allowed) is not None]
        width = max(map(len, sets))
        filled = [[*tokens, *[-1] * (width - len(tokens))] for tokens in sets]
        choices = torch.tensor(filled, device=logits.device)
        own = logits if not free else logits[bound]
        narrowed = own.gather(1, choices.clamp(min=0)).masked_fill(choices < 0, -torch.inf)
        _draw_some([rows[k] for k in bound], narrowed, choices)


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
