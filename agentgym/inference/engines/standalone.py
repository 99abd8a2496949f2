"""Engines without a learner, opened for a model directory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch

from agentgym.errors import UsageError
from agentgym.inference.engines.hf import HfEngine
from agentgym.inference.engines.recording import ReplayEngine
from agentgym.inference.engines.server import ServerEngine
from agentgym.inference.engines.types import Engine
from agentgym.inference.engines.vllm import VllmEngine
from agentgym.inference.models.language_model import (
    LanguageModel,
    load_model,
    open_directory,
    refuse_rounding,
)
from agentgym.io.hub import model_directory

StandaloneEngine: TypeAlias = Literal["hf", "vllm", "server"]
"""Engine of a policy on its own: `transformers` or vLLM in this process, or ``vllm serve`` processes."""


def open_engine(
    model: str,
    engine: StandaloneEngine = "hf",
    *,
    servers: Sequence[str] = (),
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    options: Mapping[str, Any] | None = None,
    replay: Path | None = None,
) -> tuple[LanguageModel, Engine]:
    """Open a model directory, or a repository of the hub, and what samples from it.

    ``servers``: addresses of the engine ``server``'s processes, which are sent the weights. ``device``:
    of the engine ``hf``. ``options``: more of ``vllm.LLM``. ``replay``: a recording that answers in its
    place.
    """
    directory = model_directory(model)
    if (engine == "server") != bool(servers):
        raise UsageError("the engine 'server' and the addresses of servers go together: give both or neither")
    if options and engine != "vllm":
        raise UsageError("engine options are those of vLLM: give them with the engine 'vllm' alone")
    if replay is not None:
        return open_directory(directory, dtype=dtype), ReplayEngine(replay)
    if engine == "hf":
        language_model = load_model(directory, dtype=dtype, device=device)
        return language_model, HfEngine(language_model.model)
    refuse_rounding(directory, dtype)
    language_model = open_directory(directory, dtype=dtype)
    if engine == "vllm":
        return language_model, VllmEngine.of(language_model, dtype=dtype, options=options)
    served = ServerEngine(servers, language_model.model, dtype=dtype)
    served.sync(load_model(directory, dtype=dtype).model.state_dict().items(), served.version)
    return language_model, served
