"""Weight transfer to ``vllm serve`` processes: by files of a shared folder, or by vLLM's own transfer."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from socket import create_server, gethostname
from tempfile import mkdtemp
from typing import Any, Protocol
from uuid import uuid4

from safetensors.torch import save_file
from torch import Tensor

from agentgym.errors import UsageError
from agentgym.inference.engines.vllm_server import LOAD_ADAPTER, UNLOAD_ADAPTER, ServerFailedError, VllmServer
from agentgym.inference.models.lora import Adapter
from agentgym.io.files import writing
from agentgym.io.optional import load

SHARED = Path("/dev/shm")
"""File system in main memory, where there is one."""

ToAll = Callable[[str, Any], None]
"""Function that posts a body to a path of every server, side by side."""


class WeightSender(Protocol):
    """A way of weights to servers that are paused."""

    @property
    def device(self) -> str | None:
        """Device for the tensors; None to leave them where they are."""

    def send(self, servers: Sequence[VllmServer], to_all: ToAll, weights: Mapping[str, Tensor]) -> None:
        """Return when all servers have taken over the weights."""


class FileSender:
    """Writes weights into a folder, from which the servers load them; of an adapter that alone."""

    device = "cpu"

    def __init__(self, folder: str, adapter: Adapter | None = None, *, after: str = ""):
        """Name the folder, under the same path for learner and servers; without, each sync makes its own.

        ``after``: method of vLLM's workers to call once they have loaded weights.
        """
        self._folder, self._adapter, self._name, self._after = folder, adapter, "", after

    def send(self, servers: Sequence[VllmServer], to_all: ToAll, weights: Mapping[str, Tensor]) -> None:
        """Write the weights, have them loaded, and delete them."""
        size = sum(weight.numel() * weight.element_size() for weight in weights.values())
        place = Path(self._folder or _temporary(size)) / "agentgym-weights"
        try:
            with writing(place):
                place.mkdir(parents=True, exist_ok=True)
                if self._adapter is not None:
                    self._adapter.save(place, weights)
                else:
                    tensors = {name: weight.contiguous() for name, weight in weights.items()}
                    save_file(tensors, place / "model.safetensors")
            if self._adapter is not None:
                self._load_adapter(servers, to_all, place)
            else:
                kwargs = {"weights_path": str(place)}
                to_all("/collective_rpc", {"method": "reload_weights", "kwargs": kwargs})
                if self._after:
                    to_all("/collective_rpc", {"method": self._after})
        except ServerFailedError as error:
            raise UsageError(
                f"{error}: its model must be the learner's, and {place} be seen there; else set "
                "rollout.weights_folder to a folder that is shared"
            ) from error
        finally:
            shutil.rmtree(place if self._folder else place.parent, ignore_errors=True)

    def _load_adapter(self, servers: Sequence[VllmServer], to_all: ToAll, place: Path) -> None:
        """Have an adapter loaded under a new name: vLLM would read one of a known name anew at every step."""
        name = f"policy-{uuid4().hex}"
        to_all(LOAD_ADAPTER, {"lora_name": name, "lora_path": str(place)})
        if self._name:
            to_all(UNLOAD_ADAPTER, {"lora_name": self._name})
        self._name = name
        for server in servers:
            server.adapter = name


def _temporary(size: int) -> str:
    """Make a temporary folder, in shared memory if this many bytes fit there twice."""
    shared = SHARED.is_dir() and shutil.disk_usage(SHARED).free > 2 * size
    return mkdtemp(prefix="agentgym-", dir=SHARED if shared else None)


class NcclSender:
    """Broadcasts weights by vLLM's own transfer, from the first rank's device to those of the servers."""

    device = None

    def __init__(self) -> None:
        """Find vLLM, whose half of the sender is used; servers have --weight-transfer-config for it."""
        purpose = "rollout.weight_transfer=nccl"
        self._base = load("vllm.distributed.weight_transfer.base", "vllm", purpose)
        self._nccl = load("vllm.distributed.weight_transfer.nccl_engine", "vllm", purpose)
        self._trainer: Any = None
        self._servers: tuple[VllmServer, ...] = ()
        self._weights: Mapping[str, Tensor] = {}

    def send(self, servers: Sequence[VllmServer], to_all: ToAll, weights: Mapping[str, Tensor]) -> None:
        """Join the servers at first and where one is lost since; broadcast."""
        self._weights, self._to_all = weights, to_all
        if tuple(servers) != self._servers:
            self._join(tuple(servers))
        self._trainer.send_weights()
        self._weights = {}

    def _join(self, servers: tuple[VllmServer, ...]) -> None:
        sizes = [int(server.ask("/get_world_size", method="GET")["world_size"]) for server in servers]
        self._servers, self._sizes = servers, sizes
        with create_server(("", 0)) as free:
            port = free.getsockname()[1]
        info = self._nccl.NCCLTrainerInitInfo(gethostname(), port, sum(sizes) + 1, rank=0)
        self._trainer = self._nccl.NCCLTrainerWeightTransferEngine.trainer_init(
            info, client=self, source=self._source()
        )

    def _source(self) -> Any:
        sender, base = self, self._base

        class Source(base.WeightSource):  # type: ignore[misc,name-defined]
            """The weights of the update that is made."""

            def metadata(self) -> list[Any]:
                return [base.ParamMeta(n, w.dtype, tuple(w.shape)) for n, w in sender._weights.items()]

            def __iter__(self) -> Any:
                return iter(sender._weights.items())

        return Source()

    # ---- what vLLM's half asks of the servers -------------------------------------------------

    def init_weight_transfer_engine(self, init_info: Mapping[str, Any]) -> None:
        """Let each server join the group, with ranks of its own."""
        first = int(init_info["rank_offset"])
        offsets = [first + sum(self._sizes[:place]) for place in range(len(self._sizes))]
        bodies = [{"init_info": {**init_info, "rank_offset": offset}} for offset in offsets]
        path = "/init_weight_transfer_engine"
        with ThreadPoolExecutor(len(offsets)) as pool:  # each returns only when all have joined
            list(pool.map(lambda server, body: server.ask(path, body), self._servers, bodies))

    def start_weight_update(self) -> None:
        """Begin an update."""
        self._to_all("/start_weight_update", None)

    def update_weights(self, update_info: Any) -> None:
        """Announce the broadcast tensors; the servers receive them."""
        self._to_all("/update_weights", {"update_info": update_info})

    def finish_weight_update(self, weight_version: str | None = None) -> None:
        """End an update."""
        self._to_all("/finish_weight_update", {"weight_version": weight_version})

    def shutdown_weight_transfer_engine(self) -> None:
        """Let the servers leave the group."""
        self._to_all("/shutdown_weight_transfer_engine", None)
