"""Engines without a learner: opened for a model directory, with weights that follow a run's checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any, Literal, TypeAlias

import torch

from agentgym.errors import UsageError
from agentgym.training.checkpoint import MODEL, has_checkpoint, last_checkpoint, load_checkpoint
from agentgym.training.engines.hf import HfEngine
from agentgym.training.engines.replay import ReplayEngine
from agentgym.training.engines.server import ServerEngine
from agentgym.training.engines.types import Engine
from agentgym.training.engines.vllm import VllmEngine
from agentgym.training.models.hub import model_directory
from agentgym.training.models.models import LanguageModel, load_model, open_directory, refuse_rounding

StandaloneEngine: TypeAlias = Literal["hf", "vllm", "server"]
"""`transformers` or vLLM in this process, or ``vllm serve`` processes."""

POLL_SECONDS = 1.0
"""Between looks at a run's folder."""


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

    ``servers``: addresses of the engine ``server``'s processes, which are sent the weights. ``device``: of
    the engine ``hf``. ``options``: more of ``vllm.LLM``. ``replay``: a recording that answers in its place.

    Raises:
        UsageError: the model cannot be loaded, a server cannot be used, or the recording is damaged.
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


class CheckpointFollower:
    """Gives an engine the weights of a run's newest checkpoint, as they appear."""

    def __init__(
        self,
        run: Path,
        engine: Engine,
        *,
        dtype: torch.dtype = torch.float32,
        say: Callable[[str], object] = print,
    ):
        """Take over the newest checkpoint where there is one; ``say`` hears of each, and of what is wrong."""
        self._run, self._engine, self._dtype, self._say = run, engine, dtype, say
        self._taken = self._problem = ""
        self._ended = Event()
        self._thread = Thread(target=self._follow, name="follow", daemon=True)
        self.look()

    def start(self) -> None:
        """Look each `POLL_SECONDS` in a thread of its own."""
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def look(self) -> bool:
        """Take over the newest checkpoint, unless that was done; return whether it was now.

        One that cannot be read, or has another form, leaves the weights as they are; it is tried again, since
        it may just have been replaced by a newer one.
        """
        if not has_checkpoint(self._run):
            return False
        try:
            checkpoint = last_checkpoint(self._run)
            if checkpoint.name == self._taken:
                return False
            version = int(load_checkpoint(checkpoint)["version"])
            model = load_model(checkpoint / MODEL, dtype=self._dtype).model
            self._engine.sync(model.state_dict().items(), version)
        except (UsageError, KeyError) as error:
            if str(error) != self._problem:
                self._problem = str(error)
                self._say(f"cannot take over the newest checkpoint of {self._run}: {error}")
            return False
        self._taken, self._problem = checkpoint.name, ""
        self._say(f"samples with the weights of {checkpoint} (version {version})")
        return True

    def _follow(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            self.look()
