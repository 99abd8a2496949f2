"""Runs of two machines that die: each is begun, dies once, is resumed by ``torchrun``, and is compared."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from torch._C._distributed_c10d import TCPStore

from agentgym.history.run import read_metrics
from agentgym.inference.models.language_model import load_model
from tests.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]

ITERATIONS, EVERY = 6, 2
"""Of a run, and from one checkpoint to the next."""


def words(iterations: int = ITERATIONS, every: int = EVERY) -> tuple[str, ...]:
    """Return the command line of a run with a checkpoint every so many iterations."""
    settings = ("device=cpu", "rollout.tasks=4", "rollout.group_size=4", f"checkpoint_every={every}",
                "evaluation.every=0", "keep_rollouts=1", "patience=100")  # fmt: skip
    given = [word for setting in settings for word in ("--set", setting)]
    run = ("train", "gigpo", "--env", "agentgym/EZPoints-v0", "--model", "tiny:0.1m", "--seed", "5")
    return (*run, "--iterations", str(iterations), "--log", "jsonl", *given)


LAST_CALL = 5
"""Seconds that machines which have met wait for others: ``torchrun``'s ``last_call_timeout``."""


@dataclass(frozen=True, slots=True)
class Case:
    """Where and how a rank dies."""

    stage: str
    """"rollout" or "update"."""
    iteration: int
    call: int
    """Of the policy in that iteration's rollout, or optimiser step of its update."""
    rank: int
    machine: bool
    """Whether ``torchrun`` on its machine dies as well."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case."""

    died: int
    """Iteration in which the rank died; 0 where none did."""
    resumed: int
    """First iteration after that."""
    ranks: int
    """Of the resumed run."""


NOBODY = Case("rollout", 0, 0, 0, False)
"""A run that is left alone."""


def play(folder: Path, case: Case, *, command: Sequence[str] = ()) -> Outcome:
    """Train on two machines that share no folder but the run's; one dies.

    A machine is a ``torchrun`` with a process group, home, temporary folder and caches of its own. The store
    through which they meet is this process's, so that either of them may die.

    Raises:
        RuntimeError: the machines ended before the run did.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    machines = [_machine(folder, number, case, store.port, command or words()) for number in range(2)]
    needed = 1 if case.machine else 2

    def ended() -> bool:
        finished = sum(machine.poll() == 0 for machine in machines) >= needed
        if not finished and all(machine.poll() is not None for machine in machines):
            logs = [path.read_text()[-3000:] for path in sorted(folder.glob("*.log"))]
            raise RuntimeError("the run did not come to its end:\n" + "\n".join(logs))
        return finished

    try:
        wait_until(ended, 300)
    finally:
        for machine in machines:
            machine.kill()
            machine.wait()
        for line in _notes(folder):
            if line["what"] == "died":
                _kill(line["process"])
    return _outcome(folder)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _machine(
    folder: Path, number: int, case: Case, port: int, train: Sequence[str]
) -> subprocess.Popen[bytes]:
    """Start a machine."""
    own = folder / f"machine {number}"
    places = {name: own / name.lower() for name in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "AGENTGYM_CACHE")}
    for place in places.values():
        place.mkdir(parents=True)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2", "--nproc-per-node", "1",
        "--max-restarts", "3", "--rdzv-backend", "c10d", "--rdzv-id", "soak",
        "--rdzv-endpoint", f"localhost:{port}", "--rdzv-conf", f"is_host=0,last_call_timeout={LAST_CALL}",
        "-m", "--", "tests.training.dying_rank", json.dumps(asdict(case)), str(folder),
        *train, "--out", str(folder / "run"),
    ]  # fmt: skip
    environment = {
        **os.environ, **{name: str(place) for name, place in places.items()}, "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }  # fmt: skip
    with (folder / f"machine {number}.log").open("wb") as log:
        return subprocess.Popen(command, cwd=own, env=environment, stdout=log, stderr=subprocess.STDOUT)


def _notes(folder: Path) -> list[dict[str, Any]]:
    path = folder / "notes.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _outcome(folder: Path) -> Outcome:
    notes = _notes(folder)
    place = next((number for number, line in enumerate(notes) if line["what"] == "died"), None)
    if place is None:
        return Outcome(0, 0, notes[-1]["ranks"])
    after = next(line for line in notes[place:] if line["round"] != notes[place]["round"])
    return Outcome(notes[place]["iteration"], after["iteration"], after["ranks"])


@dataclass(frozen=True, slots=True)
class Difference:
    """How a run differs from one that was left alone."""

    weights: float
    """Largest difference of a final weight."""
    metrics: tuple[str, ...]
    """Counts of groups, episodes and steps that are not the same, or not once an iteration."""
    rollouts: int
    """Iterations whose episodes are not the same to the letter."""


COUNTED = ("iteration", "version", "episodes", "env_steps", "tokens_in", "tokens_out", "success", "score",
           "dropped", "pending")  # fmt: skip


def difference(folder: Path, undisturbed: Path) -> Difference:
    """Compare two runs that `play` made."""
    ours, theirs = (load_model(each / "run/checkpoints/last/model").model for each in (folder, undisturbed))
    other = theirs.state_dict()
    weights = max(float((tensor - other[name]).abs().max()) for name, tensor in ours.state_dict().items())
    counts = [
        [{name: getattr(line, name) for name in COUNTED} for line in read_metrics(each / "run")]
        for each in (folder, undisturbed)
    ]
    metrics = tuple(
        name for name in COUNTED if [line[name] for line in counts[0]] != [line[name] for line in counts[1]]
    )
    kept = [
        {path.name: sha256(path.read_bytes()).hexdigest() for path in (each / "run/rollouts").iterdir()}
        for each in (folder, undisturbed)
    ]
    names = kept[0].keys() | kept[1].keys()
    return Difference(weights, metrics, sum(kept[0].get(name) != kept[1].get(name) for name in names))
