"""Weights of an engine without a learner that follow a run's checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event, Thread

import torch

from agentgym.errors import UsageError
from agentgym.inference.engines.types import Engine
from agentgym.inference.models.language_model import load_model
from agentgym.training.track.checkpoint import MODEL, has_checkpoint, last_checkpoint, load_checkpoint

POLL_SECONDS = 1.0
"""Seconds between looks at a run's folder."""


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
