"""Low-rank adapters: small matrices beside the linear layers of a frozen model.

A layer computes ``W x + alpha / rank * B A x`` (Hu et al., 2021, arXiv:2106.09685, Eq. 3). B starts at 0, so
that a model begins as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig, inject_adapter_in_model
from peft.tuners.lora import LoraLayer
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedModel

from agentgym.errors import UsageError

NAME = "default"
"""Name of the adapter in peft's layers."""

MARK = ".lora_"
"""What the names of an adapter's tensors have, and no others."""

FOLDER = "adapter"
"""The folder of the adapter in a saved model's directory."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """Settings of an adapter, which is scaled by ``alpha / rank``."""

    rank: int
    alpha: float
    targets: tuple[str, ...] | None = None
    """Names of layers, such as ``("q_proj", "v_proj")``; None for all linear layers but the head."""

    def add_to(self, model: PreTrainedModel) -> None:
        """Freeze a model and give it the adapter, in place. A's values are always the same draws.

        `UsageError` where the model has one already, or no layers of these names.
        """
        if has_adapter(model):
            raise UsageError("the model has an adapter already: give one without")
        known = {name.rpartition(".")[2] for name, module in model.named_modules() if _is_linear(module)}
        if unknown := set(self.targets or ()) - known:
            raise UsageError(
                f"the model has no linear layers {', '.join(sorted(unknown))}; choose lora_targets from "
                f"{', '.join(sorted(known))}"
            )
        # the draws are from torch's global generator
        with _standing_in(model), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            inject_adapter_in_model(self._config(self.targets), model, adapter_name=NAME)

    def save(self, directory: Path, tensors: Mapping[str, Tensor], base: str = "") -> None:
        """Write an adapter as peft does, which peft, `transformers` and vLLM load beside its base.

        ``tensors``: by the names that they have in the model; what is not an adapter's is left out. ``base``:
        name of the model without it.
        """
        own = {name.replace(f".{NAME}.", "."): tensor for name, tensor in tensors.items() if MARK in name}
        config = self._config(None)
        config.target_modules = sorted({name.partition(MARK)[0].rpartition(".")[2] for name in own})
        config.base_model_name_or_path = base
        config.save_pretrained(str(directory))
        stored = {f"base_model.model.{name}": tensor.contiguous() for name, tensor in own.items()}
        save_file(stored, directory / "adapter_model.safetensors")

    def _config(self, targets: Iterable[str] | None) -> LoraConfig:
        chosen = "all-linear" if targets is None else list(targets)
        # peft's type asks for a whole number, its layers divide
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
    return any(isinstance(module, LoraLayer) for module in model.modules())


def _is_linear(module: torch.nn.Module) -> bool:
    return isinstance(module, torch.nn.Linear)
