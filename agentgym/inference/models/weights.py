"""Weights in their files: read tensor by tensor, and of each tensor no more than a process keeps.

A model is built on the meta device, where weights have a shape and no memory. Then each is read in the type
that it is to have, on the device where it is to lie; of a sharded one, a rank reads its own rows. So a
process never holds more than what it keeps and a block of a file.

Which tensor of the files a weight is, `transformers` decides: it loads stand-ins of the same names and shapes
that take no memory, and which of them it put where tells. So names it changes, weights it ties and buffers
it computes are as if it had loaded the files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.distributed.tensor import DTensor
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, GenerationConfig, PreTrainedModel

from agentgym.errors import UsageError
from agentgym.io.untrusted import open_regular, read_json

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
"""Names of the file of a model's weights, and of the list of several such files."""

BLOCK = 1 << 24
"""Bytes read at once: the pages of an open file count as the process's memory once read."""

_ENDS = 1 << 16
"""Bytes at either end of a file that its digest covers."""

ADAPTED = ".base_layer."
"""Part of a weight's name that an adapted layer inserts."""


@dataclass(frozen=True, slots=True)
class WeightFiles:
    """Files with the weights of a model on the meta device."""

    directory: Path
    places: Mapping[str, tuple[Path, str]]
    """File of each weight and its name in the file, by the model's own names, all those of a tied weight."""

    def of_body(self, model: PreTrainedModel) -> WeightFiles:
        """Return the weights of the part of a model below its head, by that part's own names."""
        body = next(name for name, part in model.named_modules() if part is model.base_model)
        start = f"{body}." if body else ""
        found = {
            name.removeprefix(start): place for name, place in self.places.items() if name.startswith(start)
        }
        return WeightFiles(self.directory, found)

    def fill(self, module: torch.nn.Module, device: torch.device) -> None:
        """Give weights on the meta device their values, in the types they have; others are left alone.

        ``module`` has the model's names, and possibly an adapter; of a sharded one, every rank fills its own
        part.
        """
        filled: dict[int, torch.nn.Parameter] = {}  # old weight -> new one, so that tied weights stay tied
        for path, part in list(module.named_modules()):
            for name, weight in list(part.named_parameters(recurse=False, remove_duplicate=False)):
                if weight.device.type == "meta":
                    if id(weight) not in filled:
                        full = f"{path}.{name}" if path else name
                        filled[id(weight)] = self._made(full.replace(ADAPTED, "."), weight, device)
                    setattr(part, name, filled[id(weight)])

    def digest(self) -> str:
        """Return a digest of the files' sizes, and of their first and last 64 KiB."""
        found = sha256()
        for path in sorted({path for path, _ in self.places.values()}):
            with open_regular(path) as file:
                size = file.seek(0, os.SEEK_END)
                found.update(f"{path.name} {size}".encode())
                for begin in (0, max(size - _ENDS, 0)):
                    file.seek(begin)
                    found.update(file.read(_ENDS))
        return found.hexdigest()

    @contextmanager
    def lent(self, model: PreTrainedModel, device: torch.device) -> Iterator[None]:
        """Have a model on the meta device compute: a module's weights are read when it is called.

        That of the head stays as long as the context, since it is read without being called.
        """
        own = {
            part: (path, dict(part.named_parameters(recurse=False, remove_duplicate=False)))
            for path, part in model.named_modules()
            if next(part.parameters(recurse=False), None) is not None
        }

        def read(part: torch.nn.Module, _: Any) -> None:
            path, empty = own[part]
            for name, weight in empty.items():
                setattr(part, name, self._made(f"{path}.{name}" if path else name, weight, device))

        def drop(part: torch.nn.Module, *_: Any) -> None:
            for name, weight in own[part][1].items():
                setattr(part, name, weight)

        head = model.get_output_embeddings()  # type: ignore[no-untyped-call]
        tied = own[head][1]["weight"]
        parts = [
            part for part, (_, weights) in own.items() if all(each is not tied for each in weights.values())
        ]
        handles = [part.register_forward_pre_hook(read) for part in parts]
        handles += [part.register_forward_hook(drop) for part in parts]
        try:
            read(head, None)
            for part in own.keys() - set(parts):
                part.weight = head.weight
            yield
        finally:
            for handle in handles:
                handle.remove()
            for part in own:
                drop(part)

    def _made(self, name: str, weight: Tensor, device: torch.device) -> torch.nn.Parameter:
        """Return a weight with its values, or this rank's part of one that is sharded by rows."""
        with torch.no_grad():
            if not isinstance(weight, DTensor):
                value: Tensor = torch.empty(weight.shape, dtype=weight.dtype, device=device)
                self._read(name, value, 0)
            else:
                mesh, rows = weight.device_mesh, weight.shape[0]
                first = min(mesh.get_local_rank() * -(-rows // mesh.size()), rows)
                local = torch.empty(weight.to_local().shape, dtype=weight.dtype, device=device)
                self._read(name, local, first)
                value = DTensor.from_local(
                    local,
                    mesh,
                    weight.placements,
                    run_check=False,
                    shape=weight.shape,
                    stride=weight.stride(),
                )
        return torch.nn.Parameter(value, requires_grad=weight.requires_grad)

    def _read(self, name: str, target: Tensor, first: int) -> None:
        """Fill a tensor with the rows of a weight from one on, or with all of one without rows."""
        path, stored = self.places[name]
        rows = len(target) if target.ndim else 1
        step = max(1, BLOCK * rows // max(1, target.numel() * target.element_size()))
        try:
            for begin in range(0, rows if target.numel() else 0, step):
                with safe_open(path, framework="pt") as file:  # reopening releases the pages read
                    if not target.ndim:
                        target.copy_(file.get_tensor(stored))
                        continue
                    end = min(begin + step, rows)
                    target[begin:end].copy_(file.get_slice(stored)[first + begin : first + end])
        except (SafetensorError, OSError) as error:
            raise UsageError(f"cannot read {path}: {error}; copy the model anew") from error


@dataclass(frozen=True, slots=True)
class NamedTensors:
    """A model's tensors by name, each made when it is taken; their shapes are known before."""

    shapes: Mapping[str, torch.Size]
    made: Callable[[], Iterator[tuple[str, Tensor]]]

    def __iter__(self) -> Iterator[tuple[str, Tensor]]:
        """Make the tensors, one after the other."""
        return self.made()


def whole(tensor: Tensor) -> Tensor:
    """Return a tensor with the parts of all ranks, which all have to call."""
    with torch.no_grad():
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor.detach()


def empty_model(
    path: Path, config: Any, dtype: torch.dtype, device: torch.device
) -> tuple[PreTrainedModel, WeightFiles] | None:
    """Build a model on the meta device, with the buffers it computes, and find its weights.

    None where weights are not simply tensors of the files: they are quantised, belong to an adapter, or
    are put together from several.
    """
    quantised = getattr(config, "quantization_config", None) is not None
    if quantised or getattr(config, "transformers_weights", None) or (path / "adapter_config.json").is_file():
        return None
    places, shapes = _tensors(path)
    names = list(places)
    marks = torch.empty(len(names), dtype=dtype)
    stand_ins = {name: marks[place].expand(shapes[name]) for place, name in enumerate(names)}
    with torch.device("meta"):
        kind: Any = type(family_of(config).from_config(config, trust_remote_code=False))
    model, loaded = kind.from_pretrained(
        None, config=config, state_dict=stand_ins, dtype=dtype, output_loading_info=True
    )
    refuse_missing(path, loaded["missing_keys"])
    found: dict[str, tuple[Path, str]] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if tensor.untyped_storage().data_ptr() != marks.untyped_storage().data_ptr():
            return None
        found[name] = places[names[tensor.storage_offset()]]
    _empty(model, found, device)
    model.config.name_or_path = str(path)
    if (path / "generation_config.json").is_file():
        model.generation_config = GenerationConfig.from_pretrained(path, local_files_only=True)
    return model, WeightFiles(path, found)


def _empty(model: PreTrainedModel, places: Mapping[str, tuple[Path, str]], device: torch.device) -> None:
    """Put a model's weights on the meta device; buffers that the files have get their values at once."""
    emptied: dict[int, torch.nn.Parameter] = {}
    for path, part in model.named_modules():
        for name, weight in list(part.named_parameters(recurse=False, remove_duplicate=False)):
            shell = torch.nn.Parameter(
                torch.empty(weight.shape, dtype=weight.dtype, device="meta"), weight.requires_grad
            )
            setattr(part, name, emptied.setdefault(id(weight), shell))
        for name, buffer in list(part.named_buffers(recurse=False)):
            full = f"{path}.{name}" if path else name
            if full in places:
                file, stored = places[full]
                with safe_open(file, framework="pt") as opened:
                    buffer = opened.get_tensor(stored).to(buffer.dtype, copy=True)
            setattr(part, name, buffer.to(device))


def _tensors(path: Path) -> tuple[dict[str, tuple[Path, str]], dict[str, list[int]]]:
    """Return the place and the shape of every tensor in a model directory, by its name in the files."""
    places, shapes = {}, {}
    for file in _files(path):
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118 (it is no mapping)
                places[name] = (file, name)
                shapes[name] = opened.get_slice(name).get_shape()
    return places, shapes


def _files(path: Path) -> list[Path]:
    if (path / WEIGHTS).is_file():
        return [path / WEIGHTS]
    index = path / INDEX
    if not index.is_file():
        raise UsageError(
            f"cannot load a model from {path}: it holds no {WEIGHTS}; save the weights in that format"
        )
    table = read_json(index)
    listed = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(listed, dict) or not listed:
        raise UsageError(f"{index} lists no weights: copy the model anew")
    names = sorted(set(map(str, listed.values())))
    for name in names:
        if Path(name).name != name or not (path / name).is_file():
            raise UsageError(f"{index} lists {name}, which is not in {path}: copy the model anew")
    return [path / name for name in names]


def of_text(config: Any) -> bool:
    """Return whether a configuration is that of a model of text alone."""
    return getattr(config, "vision_config", None) is None


def family_of(config: Any) -> Any:
    """Return what makes models of a configuration: of text alone, or with an encoder of pictures."""
    # the library's annotation omits the second return value
    return AutoModelForCausalLM if of_text(config) else AutoModelForImageTextToText


def refuse_missing(path: Path, missing: set[str]) -> None:
    """Refuse weights that are not all there."""
    if missing:
        raise UsageError(
            f"the weights in {path} lack {len(missing)} tensors that its config.json asks for, for example "
            f"{min(missing)}: copy the model anew"
        )
