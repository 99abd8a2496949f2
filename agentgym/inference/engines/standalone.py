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
from agentgym.inference.engines.vllm_process import VllmProcess, serve_options
from agentgym.inference.models.language_model import (
    LanguageModel,
    load_model,
    open_directory,
    refuse_rounding,
)
from agentgym.io.hub import model_directory

StandaloneEngine: TypeAlias = Literal["hf", "vllm"]
"""Engine of a policy on its own: `transformers` in this process, or ``vllm serve``."""


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

    ``servers``: addresses of ``vllm serve`` processes, which are sent the weights; without, the engine
    ``vllm`` starts one. ``device``: of the engine ``hf``. ``options``: more of ``vllm serve``. ``replay``: a
    recording that answers in its place.
    """
    directory = model_directory(model)
    if engine != "vllm" and (servers or options):
        raise UsageError(
            "servers and engine options are those of vLLM: give them with the engine 'vllm' alone"
        )
    if servers and options:
        raise UsageError("engine options start a server, and yours are running: leave out one of the two")
    if replay is not None:
        return open_directory(directory, dtype=dtype), ReplayEngine(replay)
    if engine == "hf":
        language_model = load_model(directory, dtype=dtype, device=device)
        return language_model, HfEngine(language_model.model)
    refuse_rounding(directory, dtype)
    language_model = open_directory(directory, dtype=dtype)
    if not servers:
        return language_model, serve_model(language_model, directory, dtype, options=options)
    served = ServerEngine(servers, language_model.model, dtype=dtype)
    served.sync(load_model(directory, dtype=dtype).model.state_dict().items(), served.version)
    return language_model, served


def serve_model(
    language_model: LanguageModel,
    directory: Path,
    dtype: torch.dtype,
    *,
    context_length: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> ServerEngine:
    """Start ``vllm serve`` for a directory, opened as ``language_model``; it ends with the engine.

    ``context_length``: most tokens of a prompt and its response, None for the model's; ``options``: more of
    ``vllm serve``.
    """
    device = "cuda" if torch.cuda.is_available() else "cpu"
    longest = language_model.model.config.get_text_config().max_position_embeddings
    needed = None if context_length is None else min(context_length, longest)
    chosen = serve_options(options or {}, dtype=dtype, device=device, context_length=needed)
    process = VllmProcess(directory, chosen)
    engine = ServerEngine([process.url], language_model.model, dtype=dtype, process=process)
    engine.adopt()
    return engine
