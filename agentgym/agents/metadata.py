"""Agent metadata: an agent's weights and settings, as its files record them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FILE_OPTIONS = ("path", "rerank")
"""Options that say where an agent's files lie: these may move, and are told by their sha256."""


@dataclass(frozen=True, slots=True)
class Model:
    """Provenance of an agent's weights; empty for agents without any."""

    algorithm: str = ""
    base_model: str = ""
    weights_sha256: str = ""
    training_run: str = ""
    training_seed: int | None = None
    training_episodes: int = 0
    training_tokens: int = 0
    training_gpu_seconds: float = 0.0
    checkpoint: str = "last"
    """The rule that chose the checkpoint: ``last``, a name fixed beforehand, or
    ``best by evaluation/MEASURE``, the best so far of the evaluations during training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentMetadata:
    """An agent's description by its files; defaults where they have none."""

    sampling: Mapping[str, Any]
    parser: str
    prompt_sha256: str
    model: Model
