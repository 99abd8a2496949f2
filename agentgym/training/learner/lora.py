"""The learner's view of low-rank adapters (`agentgym.training.models.adapter`).

Without its adapter a policy is its own reference. Engines get an adapter beside its base: added to weights of
bfloat16, whose neighbours are further apart than most of its numbers are large, it would be rounded away.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from peft.tuners.lora import LoraLayer
from torch import Tensor

from agentgym.training.learner.config import LearnerConfig
from agentgym.training.learner.distributed import whole
from agentgym.training.models.adapter import MARK, NAME, Adapter
from agentgym.training.models.weights import ADAPTED, NamedTensors


def adapter_of(config: LearnerConfig) -> Adapter | None:
    """Return the adapter that is trained; None where the policy's own weights are."""
    rank = config.lora_rank
    return None if rank is None else Adapter(rank, config.lora_alpha, config.lora_targets)


@contextmanager
def without_adapter(model: torch.nn.Module) -> Iterator[None]:
    """Have a model compute what it did before it got an adapter."""
    for layer in _layers(model):
        layer.set_scale(NAME, 0.0)  # disabling it would freeze weights that may be sharded
    try:
        yield
    finally:
        for layer in _layers(model):
            layer.set_scale(NAME, 1.0)


def own_weights(model: torch.nn.Module, part: str = "") -> NamedTensors:
    """Return a model's tensors by its own names, an adapter's beside those of its base.

    A tied tensor comes by its first name only; ``part``: of those alone whose names have it. Whole tensors,
    of which every rank has to take all; they may be the model's own.
    """
    found = _found(model, part)
    return NamedTensors(
        {name: tensor.shape for name, tensor in found.items()},
        lambda: ((name, whole(tensor)) for name, tensor in found.items()),
    )


def merged_weights(model: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield a model's tensors by the names they have without an adapter, which is added to them.

    As `own_weights`, but that those that were added to are in float32 at least.
    """
    layers = {id(layer.base_layer.weight): layer for layer in _layers(model)}
    for name, tensor in _found(model).items():
        if MARK not in name:
            layer, value = layers.get(id(tensor)), whole(tensor)
            yield name.replace(ADAPTED, "."), value if layer is None else value + _difference(layer)


def _found(model: torch.nn.Module, part: str = "") -> dict[str, Tensor]:
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        first.setdefault(id(tensor), (name, tensor))
    return {name: tensor for name, tensor in first.values() if part in name}


def _difference(layer: LoraLayer) -> Tensor:
    a, b = (
        whole(matrices.get_submodule(NAME).get_parameter("weight"))
        for matrices in (layer.lora_A, layer.lora_B)
    )
    return float(layer.scaling[NAME]) * (b @ a)


def _layers(model: torch.nn.Module) -> Iterator[LoraLayer]:
    return (module for module in model.modules() if isinstance(module, LoraLayer))
