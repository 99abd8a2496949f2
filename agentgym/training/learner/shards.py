"""Sharded checkpoints of a learner: safetensors files, written by all ranks at once.

`torch.distributed.checkpoint` cuts and joins the tensors, so any number of ranks resumes from the files of
any other number, and no rank ever holds all tensors. Its safetensors form is used, since the other one
contains a pickle, which a reader would execute.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from agentgym.errors import UsageError


def unique_tensors(modules: Mapping[str, torch.nn.Module]) -> dict[str, Tensor]:
    """Return the tensors of modules, named from their keys on, as stored; each tied one once."""
    found: dict[str, Tensor] = {}
    seen = set()
    for name, module in modules.items():
        for key, tensor in module.state_dict(keep_vars=True).items():
            if id(tensor) not in seen:
                seen.add(id(tensor))
                found[f"{name}/{key}"] = tensor.detach()
    return found


def moments(optimizers: Mapping[str, torch.optim.Optimizer]) -> dict[str, Tensor]:
    """Return the states of optimisers by name, their own storage; empty before their first steps."""
    return {
        f"{name}/{number}/{entry}": tensor
        for name, optimizer in optimizers.items()
        for number, weight in enumerate(_weights(optimizer))
        for entry, tensor in optimizer.state.get(weight, {}).items()
    }


def begin_moments(optimizers: Mapping[str, torch.optim.Optimizer], names: set[str]) -> None:
    """Give optimisers of AdamW's kind the empty states that `load_shards` fills.

    ``names``: of tensors, as `moments` returns them; those of others are passed over.
    """
    for name, optimizer in optimizers.items():
        for number, weight in enumerate(_weights(optimizer)):
            entries = [
                entry for entry in ("step", "exp_avg", "exp_avg_sq") if f"{name}/{number}/{entry}" in names
            ]
            # a fused optimiser's step counter is on its weights' device
            steps = torch.zeros((), device=weight.device if optimizer.defaults["fused"] else "cpu")
            optimizer.state[weight] = {
                entry: steps if entry == "step" else torch.zeros_like(weight) for entry in entries
            }
            if not entries:
                del optimizer.state[weight]


def save_shards(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Write tensors; every rank its part, and all have to call."""
    with _as_usage_error(
        f"cannot write {folder}", "free space, or raise the limit of file sizes (`ulimit -f`)"
    ):
        writer = HuggingFaceStorageWriter(str(folder), save_distributed=True)
        save(dict(tensors), storage_writer=writer, no_dist=not dist.is_initialized())


def saved_names(folder: Path) -> set[str]:
    """Return the names of the tensors in a folder."""
    with _as_usage_error(f"cannot read the checkpoint {folder}", _OTHER):
        if not any(folder.glob("*.safetensors")):
            raise ValueError("it holds no safetensors files")
        return set(HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata)


def load_shards(tensors: Mapping[str, Tensor], folder: Path) -> None:
    """Fill tensors from the files of `save_shards`; every rank its part, and all have to call."""
    with _as_usage_error(f"cannot read the checkpoint {folder}", _OTHER):
        reader = HuggingFaceStorageReader(str(folder))
        load(dict(tensors), storage_reader=reader, no_dist=not dist.is_initialized())


_OTHER = "point the link `last` beside it to another one"


def _weights(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    return (weight for group in optimizer.param_groups for weight in group["params"])


@contextmanager
def _as_usage_error(what: str, fix: str) -> Iterator[None]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of its own behaviour, such as for a single process
            yield
    except (CheckpointException, SafetensorError, OSError, RuntimeError, ValueError, KeyError) as error:
        causes = error.failures.values() if isinstance(error, CheckpointException) else [(error, None)]
        cause = next(iter(causes))[0]
        reason = next(iter(str(cause).strip().splitlines()), type(cause).__name__)
        raise UsageError(f"{what}: {reason}; {fix}") from error
