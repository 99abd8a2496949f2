"""Low-rank adapters: a frozen model, and small trained matrices beside its linear layers.

A layer computes ``W x + alpha / rank * B A x`` (Hu et al., 2021, arXiv:2106.09685, Eq. 3). B starts at 0, so
that a policy begins as the model it adapts. Without its adapter a policy is its own reference. Engines get
both as they are: a sum in bfloat16 is the old weight wherever an update is less than half of its last bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.errors import UsageError
from agentgym.inference.models.weights import ADAPTED, NamedTensors, whole

FOLDER = "adapter"
"""Name of the adapter's folder in a saved model's directory."""

MARK = ".lora_"
"""Part of a tensor's name that only an adapter's tensors have."""

_ADAPTER = "default"


@dataclass(frozen=True, slots=True)
class Adapter:
    """Settings of an adapter, scaled by ``alpha / rank``."""

    rank: int
    alpha: float
    targets: tuple[str, ...] | None = None
    """Names of layers, such as ``("q_proj", "v_proj")``; None for all linear layers but the head."""

    def add_to(self, model: PreTrainedModel) -> None:
        """Freeze a model and give it the adapter, in place. A has always the same draws."""
        if has_adapter(model):
            raise UsageError("the model has an adapter already: give one without")
        linear = (name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear))
        known = {name.rpartition(".")[2] for name in linear}
        if unknown := set(self.targets or ()) - known:
            raise UsageError(
                f"the model has no linear layers {', '.join(sorted(unknown))}; choose lora_targets from "
                f"{', '.join(sorted(known))}"
            )
        # peft draws from torch's global generator
        with _standing_in(model), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            inject_adapter_in_model(self._config(), model, adapter_name=_ADAPTER)

    def save(self, directory: Path, tensors: Mapping[str, Tensor], base: str = "") -> None:
        """Write an adapter's tensors, of those of a model by name, and the base's name in peft's format."""
        own = {name.replace(f".{_ADAPTER}.", "."): tensor for name, tensor in tensors.items() if MARK in name}
        config = self._config()
        config.target_modules = sorted({name.partition(MARK)[0].rpartition(".")[2] for name in own})
        config.base_model_name_or_path = base
        config.save_pretrained(str(directory))
        stored = {f"base_model.model.{name}": tensor.contiguous() for name, tensor in own.items()}
        save_file(stored, directory / "adapter_model.safetensors")

    def _config(self) -> LoraConfig:
        chosen = "all-linear" if self.targets is None else list(self.targets)
        # peft declares an int, but its layers accept a float
        return LoraConfig(r=self.rank, lora_alpha=self.alpha, target_modules=chosen)  # type: ignore[arg-type]


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
    """Return whether `Adapter.add_to` was here."""
    return any(True for _ in _layers(model))


@contextmanager
def without_adapter(model: torch.nn.Module) -> Iterator[None]:
    """Disable a model's adapter while in the context."""
    for layer in _layers(model):
        layer.set_scale(_ADAPTER, 0.0)  # disabling it would freeze weights that may be sharded
    try:
        yield
    finally:
        for layer in _layers(model):
            layer.set_scale(_ADAPTER, 1.0)


def own_weights(model: torch.nn.Module, part: str = "") -> NamedTensors:
    """Return a model's tensors by its own names, a tied one by its first; of those with ``part`` in them.

    Whole tensors, of which every rank has to take all; they may be the model's own.
    """
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        first.setdefault(id(tensor), (name, tensor))
    found = {name: tensor for name, tensor in first.values() if part in name}
    shapes = {name: tensor.shape for name, tensor in found.items()}
    return NamedTensors(shapes, lambda: ((name, whole(tensor)) for name, tensor in found.items()))


def merged_weights(model: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Yield tensors as `own_weights`, with the adapter added, in float32 at least, and names without one."""
    for name, value in own_weights(model):
        if MARK not in name:
            layer, adapted, kind = name.partition(ADAPTED)
            changed = (
                value + _difference(model.get_submodule(layer)) if adapted and kind == "weight" else value
            )
            yield name.replace(ADAPTED, "."), changed


def _difference(layer: Any) -> Tensor:
    a, b = (
        whole(matrices.get_submodule(_ADAPTER).get_parameter("weight"))
        for matrices in (layer.lora_A, layer.lora_B)
    )
    return float(layer.scaling[_ADAPTER]) * (b @ a)


def _layers(model: torch.nn.Module) -> Iterator[LoraLayer]:
    return (module for module in model.modules() if isinstance(module, LoraLayer))
