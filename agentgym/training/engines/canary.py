"""A canary: what an engine says after a sync, compared with what the learner's model says.

An engine with weights of its own can go wrong without any error: a tensor that was packed when the model
was loaded and is not packed again, a tied weight that one of its two users kept, a cache of old keys and
values. All of these show in the log-probabilities of one fixed sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.agents.draws import Draws
from agentgym.types import UsageError

LogProbs = Callable[[tuple[int, ...]], Sequence[float]]
"""Gives the natural-log probability of each token of a sequence but the first, given those before."""


TOLERANCE, HALF_TOLERANCE = 1e-3, 0.1
"""Far above rounding: on a CPU 3e-7 was measured in float32, and 3e-3 in bfloat16, for tiny models."""


class CanaryError(UsageError):
    """An engine's weights are not those it was given."""


@dataclass(frozen=True, slots=True)
class Canary:
    """A fixed sequence, who knows its log-probabilities, and how far an engine's may be off.

    Example:
        >>> canary = Canary((1, 2, 3), lambda ids: (-1.0, -2.0), tolerance=0.1)
        >>> round(canary.check((-1.0, -2.1)), 3)
        0.05
    """

    ids: tuple[int, ...]
    """At least two tokens."""
    log_probs: LogProbs
    """With the weights that are synced; it is asked after each sync."""
    tolerance: float
    """Largest mean absolute difference."""

    def __post_init__(self) -> None:
        """Refuse a sequence that says nothing.

        Raises:
            UsageError: fewer than two tokens, or no tolerance.
        """
        if len(self.ids) < 2:
            raise UsageError(f"a canary needs at least two tokens, got {len(self.ids)}")
        if not self.tolerance > 0:
            raise UsageError(f"a canary's tolerance must be above 0, got {self.tolerance}")

    @classmethod
    def of(cls, model: PreTrainedModel, *, length: int = 64, tolerance: float | None = None) -> Canary:
        """Make a canary of a model.

        Args:
            model: the learner's. Its weights are used as they are when the canary is asked.
            length: of the sequence, in tokens drawn from all of the vocabulary; cut to the context.
            tolerance: None for `TOLERANCE`, or in half precision `HALF_TOLERANCE`.
        """
        config = model.config
        draws = Draws(0, 0)
        ids = tuple(
            draws.below(config.vocab_size) for _ in range(min(length, config.max_position_embeddings - 1))
        )
        if tolerance is None:
            tolerance = TOLERANCE if model.dtype == torch.float32 else HALF_TOLERANCE
        return cls(ids, lambda asked: forward_log_probs(model, asked).tolist(), tolerance)

    def check(self, measured: Sequence[float]) -> float:
        """Compare an engine's log-probabilities with the model's.

        Args:
            measured: of each token but the first, at temperature 1.

        Returns:
            The mean absolute difference.

        Raises:
            CanaryError: it is above the tolerance, or not a number.
        """
        known = self.log_probs(self.ids)
        off = sum(abs(x - y) for x, y in zip(known, measured, strict=True)) / len(known)
        if not off <= self.tolerance:
            raise CanaryError(
                f"after the sync the engine's log-probabilities of {len(self.ids)} fixed tokens are off by "
                f"{off:.2g} on average, above {self.tolerance:g}: its weights are not the learner's; load "
                "both from one directory in one type, or use the engine 'hf'"
            )
        return off


def forward_log_probs(model: PreTrainedModel, ids: Sequence[int]) -> Tensor:
    """Compute a sequence's log-probabilities by one plain pass without cache, padding or batch.

    Args:
        model: any causal language model; its mode is left as it is.
        ids: at least two tokens.

    Returns:
        (len(ids) - 1,) float32: of each token but the first.
    """
    tokens = torch.tensor([list(ids)], device=model.device)
    training = model.training
    model.train(False)
    try:
        with torch.inference_mode():
            logits: Tensor = model(tokens, use_cache=False).logits[0, :-1].float()
    finally:
        model.train(training)
    return logits.log_softmax(-1).gather(1, tokens[0, 1:].unsqueeze(1)).squeeze(1)
