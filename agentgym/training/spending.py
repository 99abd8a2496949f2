"""Spending of a training run as it goes: its ledger, brought up to date after every iteration."""

from __future__ import annotations

import resource
import sys
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from agentgym.history.ledger import TrainingLedger, read_ledger, write_ledger
from agentgym.history.metrics import IterationMetrics
from agentgym.training.learner.distributed import Ranks


class RunSpending:
    """Adds up what a session costs; the first rank writes it down."""

    def __init__(self, folder: Path, ranks: Ranks, *, episodes: int, env_steps: int):
        """Begin a session, after so many episodes and steps of the run; an existing ledger goes on."""
        self._folder = folder
        self._ranks = ranks
        begun = ranks.from_first(read_ledger(folder) if ranks.is_first else None)
        kind = ranks.device.type
        ledger = begun or TrainingLedger(device=kind)
        self.ledger = replace(ledger, device=kind, devices=ranks.size, sessions=ledger.sessions + 1)
        self._counted = (episodes, env_steps)
        self._last = perf_counter()

    def add(self, metrics: IterationMetrics) -> None:
        """Add an iteration; every rank has to."""
        ledger, (episodes, env_steps) = self.ledger, self._counted
        taken = metrics.peak_memory  # of a GPU
        if taken is None:
            taken = int(self._ranks.largest(process_memory()))
        self._counted = (metrics.episodes, metrics.env_steps)
        self.ledger = replace(
            ledger,
            iterations=ledger.iterations + 1,
            peak_memory=max(ledger.peak_memory, taken),
            episodes=ledger.episodes + metrics.episodes - episodes,
            env_steps=ledger.env_steps + metrics.env_steps - env_steps,
            tokens_in=ledger.tokens_in + metrics.tokens_in,
            tokens_out=ledger.tokens_out + metrics.tokens_out,
        )
        self.write()

    def write(self) -> None:
        """Bring the ledger up to date."""
        now = perf_counter()
        seconds, self._last = now - self._last, now
        self.ledger = replace(
            self.ledger,
            seconds=self.ledger.seconds + seconds,
            device_seconds=self.ledger.device_seconds + seconds * self._ranks.size,
        )
        if self._ranks.is_first:
            write_ledger(self._folder, self.ledger)


def process_memory() -> int:
    """Return the most bytes of main memory that this process has taken."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
