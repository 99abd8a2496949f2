"""Low-rank adapters: a frozen model, and small trained matrices beside its linear layers.

A layer computes ``W x + alpha / rank * B A x`` (Hu et al., 2021, arXiv:2106.09685, Eq. 3). B starts at 0, so
that a policy begins as the model it adapts. Without its adapter a policy is its own reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.errors import UsageError
from agentgym.training.learner.distributed import whole
from agentgym.training.models.weights import ADAPTED, NamedTensors

_ADAPTER = "default"


def add_adapter(
    model: PreTrainedModel, *, rank: int, alpha: float, targets: Sequence[str] | None = None
) -> None:
    """Freeze a model and give it an adapter, in place. A's values are always the same draws.

    The adapter is scaled by ``alpha / rank``. ``targets``: names of layers, such as ``("q_proj", "v_proj")``;
    by default all linear layers but the head. There must be no adapter yet.
    """
    if has_adapter(model):
        raise UsageError("the model has an adapter already: give one without")
    known = {name.rpartition(".")[2] for name, module in model.named_modules() if _is_linear(module)}
    if unknown := set(targets or ()) - known:
        raise UsageError(
            f"the model has no linear layers {', '.join(sorted(unknown))}; choose lora_targets from "
            f"{', '.join(sorted(known))}"
        )
    chosen = "all-linear" if targets is None else list(targets)
    # peft's type asks for a whole number, its layers divide
    config = LoraConfig(r=rank, lora_alpha=alpha, target_modules=chosen)  # type: ignore[arg-type]
    # the draws are from torch's global generator
    with _standing_in(model), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        inject_adapter_in_model(config, model, adapter_name=_ADAPTER)


@contextmanager
def _standing_in(model: torch.nn.Module) -> Iterator[None]:
    """Put weights without memory in the place of those on the meta device, where adapters would follow."""
    empty = [
        (module, module.weight)
        for module in model.modules()
        if isinstance(module, torch.nn.Linear) and module.weight.is_meta
    ]
    for module, weight in empty:
        module.weight = torch.nn.Parameter(torch.zeros((), dtype=weight.dtype).expand(weight.shape))
    try:
        yield
    finally:
        for module, weight in empty:
            module.weight = weight.requires_grad_(False)


def has_adapter(model: torch.nn.Module) -> bool:
    """Return whether `add_adapter` was here."""
    return any(True for _ in _layers(model))


@contextmanager
def without_adapter(model: torch.nn.Module) -> Iterator[None]:
    """Have a model compute what it did before it got an adapter."""
    for layer in _layers(model):
        layer.set_scale(_ADAPTER, 0.0)  # disabling it would freeze weights that may be sharded
    try:
        yield
    finally:
        for layer in _layers(model):
            layer.set_scale(_ADAPTER, 1.0)


def plain_weights(model: torch.nn.Module) -> NamedTensors:
    """Return a model's tensors by the names they have without an adapter, which is added to them.

    A tied tensor comes by its first name only.

    Whole tensors, of which every rank has to take all; those that were added to are in float32 at least, the
    others may be the model's own.
    """
    layers = {id(layer.base_layer.weight): layer for layer in _layers(model)}
    found: dict[str, Tensor] = {}
    seen = set()
    for name, tensor in model.state_dict(keep_vars=True).items():
        if ".lora_" not in name and id(tensor) not in seen:
            seen.add(id(tensor))
            found[name.replace(ADAPTED, ".")] = tensor

    def made() -> Iterator[tuple[str, Tensor]]:
        for name, tensor in found.items():
            layer, value = layers.get(id(tensor)), whole(tensor)
            yield name, value if layer is None else value + _difference(layer)

    return NamedTensors({name: tensor.shape for name, tensor in found.items()}, made)


def _difference(layer: LoraLayer) -> Tensor:
    a, b = (
        whole(matrices.get_submodule(_ADAPTER).get_parameter("weight"))
        for matrices in (layer.lora_A, layer.lora_B)
    )
    return float(layer.scaling[_ADAPTER]) * (b @ a)


def _layers(model: torch.nn.Module) -> Iterator[LoraLayer]:
    return (module for module in model.modules() if isinstance(module, LoraLayer))


def _is_linear(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.nn.Linear)
