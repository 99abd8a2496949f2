"""Weight transfer to a vLLM model in this process: a backend of vLLM's weight-transfer protocol.

The protocol has four phases: the engine is initialised once; then, for each update, weights are begun,
handed over and finished. vLLM's own backends carry them between processes; this one passes references,
so nothing is copied but into the model itself, on any device.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor, nn

BACKEND = "agentgym"
"""Name of the backend in vLLM's registry."""


def register() -> str:
    """Make the backend known to vLLM, which takes a name only once; return its name."""
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    _register_with(WeightTransferEngineFactory)
    return BACKEND


@cache
def _register_with(factory: Any) -> None:
    factory.register_engine(BACKEND, _backend())


def _backend() -> type:
    """Define the backend, whose base classes are vLLM's."""
    from vllm.distributed.weight_transfer import base
    from vllm.model_executor.model_loader import reload

    class Init(base.WeightTransferInitInfo):  # type: ignore[misc]
        """Nothing is to be agreed on."""

    class Update(base.WeightTransferUpdateInfo):  # type: ignore[misc]
        """The weights themselves."""

        def __init__(self, weights: list[tuple[str, Tensor]]):
            self.weights = weights

    class InProcess(base.WeightTransferEngine):  # type: ignore[misc]
        """Loads weights as if from a checkpoint, layer by layer, into the model's own storage."""

        init_info_cls = Init
        update_info_cls = Update

        def init_transfer_engine(self, init_info: Any) -> None:
            """Do nothing: there is no connection."""

        def start_weight_update(self) -> None:
            """Put each layer into the form that checkpoints are loaded in."""
            reload.initialize_layerwise_reload(self.model)

        def receive_weights(self, update_info: Any) -> None:
            """Load the tensors."""
            self.model.load_weights(update_info.weights)

        def finish_weight_update(self) -> None:
            """Put each layer back into the form that it computes in."""
            reload.finalize_layerwise_reload(self.model, self.model_config)
            _repack_tied_head(self.model)

        def shutdown(self) -> None:
            """Do nothing: there is no connection."""

    return InProcess


def _repack_tied_head(model: nn.Module) -> None:
    """Let a head that shares the embedding's weights take them over.

    No weights are loaded for it, so it is left out when layers are put back; but on a CPU it computes
    with a packed copy, which would be that of the old weights.
    """
    head = getattr(getattr(model, "language_model", model), "lm_head", None)
    weight = getattr(head, "weight", None)
    if weight is None:
        return
    owners = [module for module in model.modules() if getattr(module, "weight", None) is weight]
    if len(owners) > 1:
        head.quant_method.process_weights_after_loading(head)  # type: ignore[union-attr]
