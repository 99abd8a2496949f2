"""A sampler of one's own: min-p (Nguyen et al., 2024, arXiv:2407.01082).

A token is drawn only if its probability is at least a share of the likeliest one's.

    agentgym train grpo --env agentgym/EZPoints-v0 --model tiny:0.1m --sampler examples.own_sampler:min_p
"""

from __future__ import annotations

from math import log

import torch
from torch import Tensor

SHARE = 0.05
"""Least probability of a token, as a share of the likeliest one's."""


def min_p(logits: Tensor) -> Tensor:
    """Leave out unlikely tokens.

    Args:
        logits: (rows, columns), divided by the temperature.

    Returns:
        The logits, with -inf where a column is never drawn.
    """
    least = logits.amax(-1, keepdim=True) + log(SHARE)
    return logits.masked_fill(logits < least, -torch.inf)
