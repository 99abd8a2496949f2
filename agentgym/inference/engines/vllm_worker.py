"""Extension of vLLM's workers, which its build for processors needs after weights were reloaded."""

from __future__ import annotations

from typing import Any

EXTENSION = f"{__name__}.TiedHead"
"""Value of vLLM's option ``worker_extension_cls``."""

METHOD = "repack_tied_head"
"""Name of the method, as `FileSender` calls it."""


class TiedHead:
    """A worker whose model may have a head that shares the embedding's weights."""

    model_runner: Any

    def repack_tied_head(self) -> None:
        """Let the head take over the embedding's weights.

        No weights are loaded for it, so reloading leaves it out; but on a CPU it computes with a packed copy,
        which would be that of the old weights.
        """
        model = self.model_runner.get_model()
        head = getattr(getattr(model, "language_model", model), "lm_head", None)
        weight = getattr(head, "weight", None)
        if weight is None:
            return
        owners = [module for module in model.modules() if getattr(module, "weight", None) is weight]
        if len(owners) > 1:
            head.quant_method.process_weights_after_loading(head)  # type: ignore[union-attr]
