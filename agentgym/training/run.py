"""A run in a folder: started, or resumed."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch

from agentgym.errors import UsageError
from agentgym.history.console import print_resources
from agentgym.history.log import Log, check_logs, make_logs
from agentgym.history.run import CONFIG_FILE, MADE_WITH, check_new, has_begun, restarts
from agentgym.history.trend import Trend
from agentgym.io.files import make_folder, replace_file, sole_writer
from agentgym.io.provenance import here_and_now
from agentgym.prompts.template_sandbox import trusted
from agentgym.training.config import (
    ResolvedConfig,
    TrainConfig,
    config_from_json,
    config_to_json,
    read_config,
    read_config_table,
    resumed,
)
from agentgym.training.learner.distributed import Ranks
from agentgym.training.loop import End, Trainer
from agentgym.training.machine.resources import Machine, check_feasible, described, resolve
from agentgym.training.machine.serving import LOG, take_devices
from agentgym.training.setup import TrainingSetup
from agentgym.training.track.best import BestEvaluation
from agentgym.training.track.checkpoint import check_shared, has_checkpoint, last_checkpoint

_REQUESTED = "requested_sha256"
"""Key in ``made_with`` of the sha256 of the configuration as requested, before any setting was chosen."""

_LOCK_PATIENCE = 150.0
"""Longest wait of a restart for the folder's lock, in seconds: a file server holds a vanished machine's for
about 90."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """Result of a run, alike on every rank."""

    end: End
    iterations: int
    trend: Trend
    """Trend of the share of episodes won."""
    checkpoint: Path | None
    """Last checkpoint; its ``model`` folder is the policy."""
    best: BestEvaluation
    """Best evaluation, where the run keeps the best checkpoint."""
    best_checkpoint: Path | None
    is_first: bool
    """Whether this rank reports the result."""


def start(config: TrainConfig, folder: Path, *, logs: Sequence[str], force: bool = False) -> RunResult:
    """Train in a new folder.

    Under ``torchrun --max-restarts`` every process comes here again after a failure; there, a run of the same
    configuration is resumed.

    Args:
        config: what is to be done; `agentgym.training.machine.resources.resolve` chooses what it leaves open.
        folder: made where it is missing; must not hold a run.
        logs: names of `agentgym.history.log.make_logs`.
        force: whether to train even what the machine is far too slow for.

    Raises:
        UsageError: the folder holds a run already, or something in the configuration does not fit.
        DivergenceError: a loss was not a number.
    """
    if not has_begun(folder):
        run = _PlannedRun.of(config, folder, resumes=False)
        if not force:
            check_feasible(run.config)
        return run.train(logs)
    check_new(folder)
    table = read_config_table(folder / CONFIG_FILE)
    made = table.pop(MADE_WITH, None)
    if not isinstance(made, dict) or made.get(_REQUESTED) != _digest(config):
        raise UsageError(
            f"{folder} holds a run that began with other settings, so a restart does not go on with it: "
            "resume it by --resume, or choose another folder"
        )
    chosen = config_from_json(table, str(folder / CONFIG_FILE))
    return _PlannedRun.of(config, folder, chosen=chosen, resumes=True).train(logs)


def resume(folder: Path, *, logs: Sequence[str], iterations: int | None = None) -> RunResult:
    """Resume a run from its last checkpoint, bit for bit as if it had not been stopped.

    A run that was stopped before its first checkpoint begins anew.

    Args:
        folder: of the run.
        logs: as `start`.
        iterations: number of iterations (default: the run's).

    Raises:
        UsageError: the folder holds no run, or its checkpoint is damaged.
        DivergenceError: a loss was not a number.
    """
    config = resumed(read_config(folder), iterations)
    return _PlannedRun.of(config, folder, resumes=True).train(logs)


def _digest(config: TrainConfig) -> str:
    return sha256(json.dumps(config_to_json(config), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _PlannedRun:
    """A planned run: requested and resolved configuration, and folder."""

    requested: TrainConfig
    config: ResolvedConfig
    folder: Path
    devices: str
    """CUDA devices to serve the model from, beside those that this process sees."""
    resumes: bool

    @classmethod
    def of(
        cls, requested: TrainConfig, folder: Path, *, chosen: TrainConfig | None = None, resumes: bool
    ) -> Self:
        """Take the devices and choose what is left open, of ``chosen`` where an earlier process chose."""
        devices = take_devices(requested)  # must precede any look for CUDA
        return cls(requested, resolve(chosen or requested), folder, devices, resumes)

    def train(self, logs: Sequence[str]) -> RunResult:
        """Train to the run's end."""
        torch.set_num_threads(self.config.threads)
        check_logs(logs)
        with (
            Ranks.join(self.config.device) as ranks,
            # other devices would have other settings chosen for them
            closing(
                TrainingSetup.open(
                    ranks.from_first(self.config), ranks, devices=self.devices, log=self.folder / LOG
                )
            ) as setup,
        ):
            # loading it rendered a first chat within the limits
            trusted(setup.language_model.chat.template.source)
            if ranks.is_first:
                make_folder(self.folder)
            check_shared(self.folder, ranks)
            _check_alike(setup)
            resume = ranks.from_first(self.resumes and has_checkpoint(self.folder))
            if not ranks.is_first:
                return _run(_trainer(setup, self.folder, resume=resume), None)
            with sole_writer(self.folder, patience=_LOCK_PATIENCE if restarts() else 0.0):
                return self._train_first(setup, logs, resume=resume)

    def _train_first(self, setup: TrainingSetup, logs: Sequence[str], *, resume: bool) -> RunResult:
        """Train as the rank that writes the folder."""
        trainer = _trainer(setup, self.folder, resume=resume)
        if not resume:
            replace_file(self.folder / CONFIG_FILE, _dump(setup, self.requested))
        if "console" in logs and not resume:
            print_resources(described(setup.config, Machine.here(setup.config.device)))
        done = int(last_checkpoint(self.folder).name) if resume else 0
        with closing(make_logs(logs, self.folder, iterations=setup.config.iterations, start=done)) as log:
            return _run(trainer, log)


def _trainer(setup: TrainingSetup, folder: Path, *, resume: bool) -> Trainer:
    """Return a trainer; a resumed one is restored before any log begins, so that a refusal is one line."""
    trainer = Trainer(setup, folder)
    if resume:
        trainer.restore()
    return trainer


def _run(trainer: Trainer, log: Log | None) -> RunResult:
    with _interruptible() as stop:
        end = trainer.run(log, stop)
    best, first = (trainer.best, trainer.best_checkpoint), trainer.setup.ranks.is_first
    return RunResult(end, trainer.iteration, trainer.trend, trainer.checkpoint, *best, first)


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C end a run after its iteration; the second one ends it at once."""
    requested = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal requested
        if requested:
            raise KeyboardInterrupt
        requested = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: requested
    finally:
        signal.signal(signal.SIGINT, before)


def _check_alike(setup: TrainingSetup) -> None:
    """Refuse machines that hold different things under the same names."""
    found = setup.ranks.gather([setup.inputs()])
    for rank, other in enumerate(found):
        for name, value in other.items():
            if value != found[0][name]:
                raise UsageError(
                    f"the {name} on rank {rank} are not those on rank 0: give every machine the same"
                )


def _dump(setup: TrainingSetup, requested: TrainConfig) -> str:
    template = setup.config.prompting.template
    made_with: dict[str, Any] = {
        _REQUESTED: _digest(requested),
        "provenance": asdict(here_and_now()),
        "template": {"id": template.id, "version": template.version, "sha256": template.sha256},
        "tasks_sha256": setup.worker.envs.tasks.manifest_sha256,
        "evaluation_tasks_sha256": None if setup.evaluation is None else setup.evaluation.manifests(),
        "evaluation_panels": None if setup.evaluation is None else setup.evaluation.panels(),
        "parameters": setup.language_model.model.num_parameters(),
    }
    table = {**config_to_json(setup.config), MADE_WITH: made_with}
    return json.dumps(table, indent=2, ensure_ascii=False) + "\n"
