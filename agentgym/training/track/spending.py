"""Spending of a training run so far: ``ledger.json`` in its folder, written after every iteration."""

from __future__ import annotations

import json
import resource
import sys
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter

from agentgym.errors import UsageError
from agentgym.history.metrics import IterationMetrics
from agentgym.io.files import replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json
from agentgym.training.learner.distributed import Ranks

LEDGER_FILE = "ledger.json"


class RunSpending:
    """Sum of a session's cost, which the first rank writes to the ledger."""

    def __init__(self, folder: Path, ranks: Ranks, *, episodes: int, env_steps: int):
        """Begin a session, with the run's episodes and steps so far; an existing ledger is continued."""
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
        taken = metrics.peak_memory  # a GPU's
        if taken is None:
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            taken = int(self._ranks.largest(most if sys.platform == "darwin" else most * 1024))
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
            text = json.dumps(asdict(self.ledger), indent=2) + "\n"
            replace_file(self._folder / LEDGER_FILE, text)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLedger:
    """Cost of a run, over all of its sessions: the first, and one for each resumption.

    Iterations that a resumed run played again, since they came after its last checkpoint, count again.
    """

    device: str
    """Kind of device: ``cpu`` or ``cuda``."""
    devices: int = 1
    """Processes that trained together, in the last session."""
    sessions: int = 0
    iterations: int = 0
    seconds: float = 0.0
    """Wall-clock time of training, checkpoints and evaluations included, without loading."""
    device_seconds: float = 0.0
    """Wall-clock time times the number of devices, in seconds."""
    peak_memory: int = 0
    """Peak memory in bytes, the largest of all ranks and sessions: torch's on a GPU, the process's on a
    CPU."""
    episodes: int = 0
    """Finished episodes of training."""
    env_steps: int = 0
    """Environment steps of training."""
    tokens_in: int = 0
    """Prompt tokens of training."""
    tokens_out: int = 0
    """Sampled tokens of training."""


def read_ledger(folder: Path) -> TrainingLedger | None:
    """Read a run's ledger; None for a run without one."""
    path = folder / LEDGER_FILE
    if not path.exists():
        return None
    try:
        return parse(TrainingLedger, read_json(path), str(path))
    except UsageError as error:
        raise UsageError(f"{error}; or remove it to begin another") from error
