"""Linear layers on a CPU by oneDNN, whose float32 products take half the time of MKL's on AMD processors.

Sums are in another order than MKL's, so results differ by rounding. Few rows, other types and other devices
are computed as PyTorch does.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

MIN_ROWS = 32
"""Fewest rows of a product for which a call of oneDNN pays."""

_AVAILABLE: bool = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]


class Linear(torch.nn.Linear):
    """A linear layer that `use_onednn` has changed."""

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input @ weight.T + bias``."""
        weight, bias = self.weight, self.bias
        if not torch.is_grad_enabled() or torch.compiler.is_compiling() or not _suits(input, weight):
            return linear(input, weight, bias)
        result: Tensor = _Linear.apply(input, weight, bias)  # type: ignore[no-untyped-call]
        return result


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(input, weight)
        return _product(input, weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        input, weight = ctx.saved_tensors
        of_input, of_weight, of_bias = ctx.needs_input_grad
        rows = gradient.flatten(0, -2)
        return (
            matmul(gradient, weight) if of_input else None,
            matmul(rows.t(), input.flatten(0, -2)) if of_weight else None,
            rows.sum(0) if of_bias else None,
        )


def linear(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return (..., n) the ``rows @ weight.T + bias`` of (..., k) and (n, k), by oneDNN where that pays."""
    if torch.compiler.is_compiling() or not _suits(rows, weight):
        return torch.nn.functional.linear(rows, weight, bias)
    return _product(rows, weight, bias)


def matmul(one: Tensor, other: Tensor) -> Tensor:
    """Return (..., n, m) the product of (..., n, k) and (k, m), by oneDNN where that pays; no gradient."""
    if not _suits(one, other):
        return one @ other
    if one.dim() == 2 and not one.is_contiguous() and other.numel() < one.numel():
        return _product(other.t(), one, None).t()  # copies the smaller one, as oneDNN's rows are contiguous
    return _product(one, other.t(), None)


def use_onednn(model: torch.nn.Module) -> None:
    """Change the plain linear layers of a model, in place; their weights and names remain."""
    for module in model.modules() if _AVAILABLE else ():
        if type(module) is torch.nn.Linear:
            module.__class__ = Linear


def _suits(rows: Tensor, weight: Tensor) -> bool:
    plain = type(weight) in (Tensor, torch.nn.Parameter) and type(rows) is Tensor
    exact = rows.dtype == weight.dtype == torch.float32 and rows.device.type == "cpu"
    return _AVAILABLE and plain and exact and rows.numel() >= MIN_ROWS * max(rows.shape[-1], 1)


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    result: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return result
