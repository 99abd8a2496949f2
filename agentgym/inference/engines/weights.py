"""Weights on their way into an engine: nothing is taken over before all of it is known to fit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from agentgym.errors import UsageError


def matched(
    own: Mapping[str, Tensor], state: Iterable[tuple[str, Tensor]], dtype: torch.dtype | None = None
) -> dict[str, Tensor]:
    """Match new tensors with an engine's own, each tied weight once, under its first name.

    ``own``: every tensor of the engine's model by name, tied ones being one object, as
    ``state_dict(keep_vars=True)`` gives them; ``state``: in any order, one of several tied names suffices. It
    is read to its end, so tensors that are made on the way are all held until then, in ``dtype`` (default:
    their own). Returns them detached, in the order of ``own``.
    """
    given = {name: tensor.detach() if dtype is None else tensor.detach().to(dtype) for name, tensor in state}
    check_shapes(own, {name: tensor.shape for name, tensor in given.items()})
    first = _first_names(own)
    new = {first[id(own[name])]: tensor for name, tensor in given.items()}
    return {name: new[name] for name in first.values()}


def check_shapes(own: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]) -> None:
    """Refuse new tensors that are unknown, missing or of another shape than an engine's own.

    One of several tied names suffices.
    """
    for name, shape in shapes.items():
        if name not in own:
            raise UsageError(f"the engine's model has no tensor {name!r}: sync a model of the same kind")
        if own[name].shape != shape:
            raise UsageError(
                f"{name} has shape {tuple(own[name].shape)} in the engine's model, not {tuple(shape)}: sync "
                "a model of the same configuration"
            )
    given = {id(own[name]) for name in shapes}
    missing = [name for number, name in _first_names(own).items() if number not in given]
    if missing:
        raise UsageError(f"{len(missing)} tensors are missing, for example {missing[0]}: sync all")


def _first_names(own: Mapping[str, Tensor]) -> dict[int, str]:
    """Return the first name of each tensor, by its identity."""
    first: dict[int, str] = {}
    for name, tensor in own.items():
        first.setdefault(id(tensor), name)
    return first
