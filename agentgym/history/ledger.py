"""Ledger of a training run: its cost so far, ``ledger.json`` in its folder; needs no torch."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from agentgym.errors import UsageError
from agentgym.io.files import replace_file
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json

LEDGER_FILE = "ledger.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingLedger:
    """Cost of a run, over all of its sessions: the first, and one for each resumption.

    Iterations that a resumed run played again, since they came after its last checkpoint, count again.
    """

    device: str
    """``cpu`` or ``cuda``."""
    devices: int = 1
    """Processes that trained together, in the last session."""
    sessions: int = 0
    iterations: int = 0
    seconds: float = 0.0
    """Wall-clock time of training, checkpoints and evaluations included, without loading."""
    device_seconds: float = 0.0
    """The same times the number of devices."""
    peak_memory: int = 0
    """Bytes: of a GPU, what torch took; of a CPU, the process; of the largest rank and session."""
    episodes: int = 0
    """Played to their ends, for training."""
    env_steps: int = 0
    """Taken, for training."""
    tokens_in: int = 0
    """Of prompts, for training."""
    tokens_out: int = 0
    """Sampled, for training."""

    def to_json(self) -> str:
        """Return the file's content."""
        return json.dumps(asdict(self), indent=2) + "\n"


def read_ledger(folder: Path) -> TrainingLedger | None:
    """Read a run's ledger; None where there is none yet."""
    path = folder / LEDGER_FILE
    if not path.exists():
        return None
    try:
        return parse(TrainingLedger, read_json(path), str(path))
    except UsageError as error:
        raise UsageError(f"{error}; or remove it to begin another") from error


def write_ledger(folder: Path, ledger: TrainingLedger) -> None:
    """Write a run's ledger."""
    replace_file(folder / LEDGER_FILE, ledger.to_json())
