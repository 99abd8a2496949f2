"""Drawing tokens: a pure function of logits, temperature and one uniform number per row."""

from __future__ import annotations

import torch
from torch import Tensor

from agentgym.core.rng import TurnRng
from agentgym.errors import UsageError

_RESOLUTION = 1 << 53
"""Range of a double's significand: every draw is exact, and below 1."""


def uniform(seed: int, position: int) -> float:
    """Return the number in [0, 1) that decides token ``position`` of the response with this seed."""
    return TurnRng(seed, position).below(_RESOLUTION) / _RESOLUTION


def sample(logits: Tensor, temperatures: Tensor, uniforms: Tensor) -> tuple[Tensor, Tensor]:
    """Draw one column per row by inverting the cumulative distribution.

    ``logits``: (n, k); a column at -inf is never drawn; ``temperatures``: (n,); 0 takes the largest logit;
    ``uniforms``: (n,) float64 in [0, 1). Returns (n,) columns, and (n,) their log-probabilities, float32: at
    the row's temperature, or at 1 where that is 0.

    A row of logits that is not a distribution is a `UsageError`.
    """
    greedy = temperatures == 0
    scale = torch.where(greedy, 1.0, temperatures)
    log_probs = (logits.float() / scale.unsqueeze(1)).log_softmax(-1)
    # draws are scaled to the last entry, which is not exactly 1; columns without mass have an empty interval
    cumulative = log_probs.double().exp_().cumsum_(-1)
    total = cumulative[:, -1]
    if not total.isfinite().all():
        raise UsageError(
            "the model's logits are not numbers: go back to a checkpoint from before it diverged"
        )
    drawn = torch.searchsorted(cumulative, (uniforms * total).unsqueeze(1), right=True).squeeze(1)
    chosen = torch.where(greedy, log_probs.argmax(-1), drawn)
    return chosen, log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1)
