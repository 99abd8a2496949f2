"""Distributed training: one model over several processes, or one process, by the same code.

`Ranks` is the processes of a run. Under ``torchrun`` they divide the tasks to play, the packs to learn from
and the weights to keep; without it there is a single process and nothing is done::

    with Ranks.join(device="cuda") as ranks:
        groups = ranks.gather(worker.collect(ranks.share(tasks), group_size=8, seed=0))
        learner = Learner(model, objective, config, ranks=ranks)
        learner.update(rows, batch, seed=0)

Everything between playing and learning is computed by every rank alike, from all groups. What the ranks do
together, such as a forward pass of a sharded model, they have to do equally often; `Ranks.deal` sees to it.

Weights, gradients and the optimiser's moments are sharded over the ranks (FSDP, Zhao et al., 2023,
arXiv:2304.11277; PyTorch's second form). Gradients are added up, not averaged: a mini-batch's weights are
those of the whole one, of which each rank has a part.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import chain, zip_longest
from typing import Any, Self, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore, PrefixStore, TCPStore
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor, distribute_tensor
from transformers.modeling_layers import GradientCheckpointingLayer

from agentgym.core.arrays import Floats
from agentgym.errors import UsageError
from agentgym.inference.models.weights import whole
from agentgym.training.learner.heartbeat import heartbeats

PATIENCE = timedelta(hours=2)
"""Longest wait of ranks for each other, as while one plays longer. `heartbeats` notice a dead one."""

_T = TypeVar("_T")
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Ranks:
    """The processes that train together; by default, a single one.

    Example:
        >>> Ranks().gather(Ranks().share([1, 2, 3])), Ranks().is_first
        ([1, 2, 3], True)
        >>> Ranks(1, 2).share([1, 2, 3]), Ranks(1, 2).deal([1, 2, 3])
        ([2], [(2, True), (3, False)])
    """

    rank: int = 0
    """Rank of this process, from 0."""
    size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    """Device on which this process computes."""

    @classmethod
    @contextmanager
    def join(cls, device: str = "cpu") -> Iterator[Self]:
        """Join the processes that ``torchrun`` started, if it did, each on a ``device``, for the context."""
        kind = torch.device(device)
        if kind.type == "cuda" and not torch.cuda.is_available():
            raise UsageError("there is no CUDA device here, or torch was built without CUDA: use device=cpu")
        if "LOCAL_RANK" not in os.environ:
            yield cls(device=kind)
            return
        _check_restarts(os.environ)
        if kind.type == "cuda":
            kind = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
            if kind.index >= torch.cuda.device_count():
                raise UsageError(
                    f"process {kind.index} of this machine has no device of its own: lower --nproc-per-node "
                    f"to {torch.cuda.device_count()}"
                )
            torch.cuda.set_device(kind)
        # gloo for offloaded weights in main memory, and for plain objects
        backend = "cpu:gloo,cuda:nccl" if kind.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=PATIENCE)
        ranks = cls(dist.get_rank(), dist.get_world_size(), kind)
        store = TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False)
        try:
            with heartbeats(PrefixStore("agentgym", store), ranks.rank, ranks.size):
                yield ranks
        finally:
            dist.destroy_process_group()

    @property
    def is_first(self) -> bool:
        """Whether this process writes and prints what all have in common."""
        return self.rank == 0

    @property
    def here(self) -> tuple[int, int, int]:
        """Number of this machine, this process's place there and the number of the run's processes there."""
        if self.size == 1:
            return 0, 0, 1
        names = ("GROUP_RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        machine, place, number = (os.environ.get(name) for name in names)
        return int(machine or 0), int(place or self.rank), int(number or self.size)

    # ---- dividing work ------------------------------------------------------------------------

    def share(self, items: Sequence[_T]) -> list[_T]:
        """Return this rank's items of a sequence, dealt out in turn."""
        return list(items[self.rank :: self.size])

    def deal(self, items: Sequence[_T]) -> list[tuple[_T, bool]]:
        """Return this rank's part of what all ranks go through in step, and whether each item counts.

        Every rank gets equally many: where there are no more, the last item once again, not to be counted.
        """
        rounds = -(-len(items) // self.size)
        places = range(self.rank, rounds * self.size, self.size)
        return [(items[min(place, len(items) - 1)], place < len(items)) for place in places]

    # ---- putting results together ---------------------------------------------------------------

    def gather(self, items: Sequence[_T]) -> list[_T]:
        """Return the items of all ranks on every rank, dealt in turn: the inverse of `share`.

        Items are picklable; ranks may have different numbers of them.
        """
        if self.size == 1:
            return list(items)
        parts: list[Any] = [None] * self.size
        dist.all_gather_object(parts, list(items))
        dealt = chain.from_iterable(zip_longest(*parts, fillvalue=_NOTHING))
        return [item for item in dealt if item is not _NOTHING]

    def from_first(self, value: _T) -> _T:
        """Return the first rank's value, picklable, on every rank."""
        if self.size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0)
        return values[0]

    def total(self, column: Floats) -> Floats:
        """Return the sum of the ranks' columns on every rank."""
        return self._reduced(column, dist.ReduceOp.SUM)

    def sum(self, numbers: Mapping[str, float]) -> dict[str, float]:
        """Return the sums of the ranks' numbers on every rank; all have the same names, in one order."""
        values = torch.tensor(list(numbers.values()), dtype=torch.float64)
        return dict(zip(numbers, self.total(values.numpy()).tolist(), strict=True))

    def largest(self, number: float) -> float:
        """Return the largest of the ranks' numbers on every rank."""
        return float(self._reduced(torch.tensor([number], dtype=torch.float64).numpy(), dist.ReduceOp.MAX)[0])

    def _reduced(self, column: Floats, operation: dist.ReduceOp.RedOpType) -> Floats:
        if self.size == 1:
            return column
        tensor = torch.tensor(column, device=self.device)
        dist.all_reduce(tensor, operation)
        result: Floats = tensor.cpu().numpy()
        return result

    # ---- models ---------------------------------------------------------------------------------

    def shard(
        self,
        module: torch.nn.Module,
        dtype: torch.dtype,
        exact: Sequence[torch.nn.Module] = (),
        *,
        offload: bool = False,
        fill: Callable[[torch.device], None] = lambda _: None,
    ) -> None:
        """Divide a module's weights among the ranks, in place; each layer is put together while it computes.

        With a type of less precision than the weights', layers compute in it, a single process's too:
        gradients are added up, and weights kept and updated, in their own. From now on the module is called
        only as a whole, and by all ranks equally often. ``exact``: parts that compute in their weights' own
        type; ``offload``: whether weights, gradients and moments wait in main memory; ``fill`` gives weights
        on the meta device their values, each rank's part alone, on the given device.
        """
        device = self.device_of(module)
        plain = self.size == 1 and all(weight.dtype == dtype for weight in module.parameters())
        if plain and not offload:
            fill(device)
            module.to(device)
            return
        if self.size == 1 and not dist.is_initialized():  # sharding needs a group even for one
            dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
        mesh = DeviceMesh(device.type, list(range(self.size)))
        policy = CPUOffloadPolicy(pin_memory=device.type == "cuda") if offload else OffloadPolicy()
        low = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
        layers = [each for each in module.modules() if isinstance(each, GradientCheckpointingLayer)]
        for each in exact:
            fully_shard(each, mesh=mesh, offload_policy=policy)
        for each in (*layers, module):
            fully_shard(each, mesh=mesh, mp_policy=low, offload_policy=policy)
        for each in module.modules():
            if isinstance(each, FSDPModule):
                each.set_gradient_divide_factor(1.0)
                each.set_force_sum_reduction_for_comms(True)
        fill(torch.device("cpu") if offload else device)

    def device_of(self, module: torch.nn.Module) -> torch.device:
        """Return a module's device: this rank's, or that of its weights."""
        first = next(module.parameters()).device
        return first if self.device.type == "cpu" and first.type != "meta" else self.device


def _check_restarts(environment: Mapping[str, str]) -> None:
    """Refuse a store that outlives a restart: ranks would read where those of before could be reached."""
    shared = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    if shared and int(environment.get("TORCHELASTIC_MAX_RESTARTS", "0")):
        raise UsageError(
            "torchrun --max-restarts keeps the addresses of processes that are gone: set "
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 in its environment on every machine"
        )


def reshard(module: torch.nn.Module) -> None:
    """Let go of weights that a sharded module put together and keeps for a backward pass."""
    if isinstance(module, FSDPModule):
        module.reshard()


def gathered(state: Any, ranks: Ranks) -> Any:
    """Return a state with whole tensors: copies in main memory, on the first rank only; all have to call."""
    if isinstance(state, Mapping):
        return {name: gathered(value, ranks) for name, value in state.items()}
    if not isinstance(state, DTensor):
        return state
    tensor = whole(state)
    return tensor.cpu() if ranks.is_first else tensor.new_empty(0)


def load_weights(module: torch.nn.Module, state: Mapping[str, Tensor]) -> None:
    """Have a module take over what `gathered` returned of its state, every rank its part."""
    own = module.state_dict()
    module.load_state_dict({name: _part(value, own.get(name)) for name, value in state.items()})


def load_moments(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Have an optimiser take over what `gathered` returned of its state, every rank its part."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    moments = {
        number: {
            name: _part(value, weights[number] if value.shape == weights[number].shape else None)
            for name, value in entries.items()
        }
        for number, entries in state["state"].items()
    }
    optimizer.load_state_dict({**state, "state": moments})


def _part(tensor: Tensor, like: Tensor | None) -> Tensor:
    """Return this rank's part of a whole tensor, divided like another one."""
    if not isinstance(like, DTensor):
        return tensor
    # no source rank: every rank cuts its part from its own copy, and nothing is sent
    return distribute_tensor(tensor.to(like.device), like.device_mesh, like.placements, src_data_rank=None)
