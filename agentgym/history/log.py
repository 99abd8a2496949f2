"""Logs of iterations: a file, the console, TensorBoard, Weights & Biases, or several of them."""

from __future__ import annotations

import itertools
import json
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from agentgym.core.options import check_choice
from agentgym.errors import UsageError
from agentgym.history.console import ConsoleLog
from agentgym.history.metrics import IterationMetrics
from agentgym.history.run import CONFIG_FILE, METRICS_FILE, read_lines
from agentgym.io.files import Journal, replace_file
from agentgym.io.optional import load
from agentgym.io.untrusted import read_file, read_json

if TYPE_CHECKING:
    pass


class Log(Protocol):
    """Log that receives each iteration's metrics."""

    def write(self, metrics: IterationMetrics) -> None:
        """Log an iteration; they come in order."""

    def close(self) -> None:
        """Finish; nothing comes after."""


class Logs:
    """Several logs as one."""

    def __init__(self, logs: Sequence[Log]):
        """Combine; the first is the first to be written to."""
        self._logs = tuple(logs)

    def write(self, metrics: IterationMetrics) -> None:
        """Log an iteration to all."""
        for log in self._logs:
            log.write(metrics)

    def close(self) -> None:
        """Close all, even where closing one fails."""
        with ExitStack() as stack:
            for log in reversed(self._logs):
                stack.callback(log.close)


class JsonlLog:
    """A line of JSON per iteration in the run's folder: what `agentgym.history.run.read_metrics` reads.

    A line is on the disk once `write` returns. Lines of iterations that a resumed run plays again are cut
    off, so that its file differs from that of a run never stopped in times alone.
    """

    def __init__(self, folder: Path, *, start: int = 0):
        """Open the file, and cut off the lines after the first ``start`` iterations."""
        path = folder / METRICS_FILE
        if path.exists() or start > 0:
            _cut(path, start)
        self._journal = Journal(path)

    def write(self, metrics: IterationMetrics) -> None:
        """Append a line."""
        self._journal.append(json.dumps(metrics.to_json()))
        self._journal.sync()

    def close(self) -> None:
        """Release the file."""
        self._journal.close()


class TensorBoardLog:
    """Events under ``tensorboard`` in the run's folder, for ``tensorboard --logdir``."""

    def __init__(self, folder: Path, *, start: int = 0):
        """Open a new file of events; TensorBoard hides those of older files after ``start``."""
        load("tensorboard", "log", "the log 'tensorboard'")
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=start + 1)

    def write(self, metrics: IterationMetrics) -> None:
        """Write every number there is."""
        for step, numbers in _by_step(metrics):
            for name, value in numbers.items():
                self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()


class WandbLog:
    """A run of Weights & Biases in the project ``agentgym``; the environment variables of wandb hold.

    A resumed run continues under its id, where Weights & Biases keeps the first values of a repeated
    iteration.
    """

    def __init__(self, folder: Path, *, start: int = 0):
        """Begin the run, or resume it where ``start`` is not 0."""
        wandb = load("wandb", "log", "the log 'wandb'")
        id_file, config_file = folder / "wandb_id.txt", folder / CONFIG_FILE
        if start == 0 or not id_file.exists():
            replace_file(id_file, secrets.token_hex(8) + "\n")
        self._run = wandb.init(
            project="agentgym",
            id=read_file(id_file).decode().strip(),
            name=folder.resolve().name,
            dir=folder,
            config=read_json(config_file) if config_file.exists() else {},
            resume="allow",
            settings={"console": "off", "quiet": True},  # the console log writes to the terminal
        )

    def write(self, metrics: IterationMetrics) -> None:
        """Send every number there is."""
        for step, numbers in _by_step(metrics):
            self._run.log(numbers, step=step)

    def close(self) -> None:
        """Finish the run."""
        self._run.finish()


@dataclass(frozen=True, slots=True)
class _Place:
    folder: Path
    iterations: int
    start: int


LOGS: Final[Mapping[str, Callable[[_Place], Log]]] = MappingProxyType(
    {
        "jsonl": lambda place: JsonlLog(place.folder, start=place.start),
        "console": lambda place: ConsoleLog(place.iterations, start=place.start),
        "tensorboard": lambda place: TensorBoardLog(place.folder, start=place.start),
        "wandb": lambda place: WandbLog(place.folder, start=place.start),
    }
)
"""Log by its name, in the order of writing."""


def check_logs(names: Sequence[str]) -> None:
    """Refuse unknown names of logs."""
    for name in names:
        check_choice("log", name, LOGS)


def make_logs(names: Sequence[str], folder: Path, *, iterations: int, start: int = 0) -> Logs:
    """Open logs, keys of `LOGS`, in the run's folder; ``start`` of the run's ``iterations`` are behind."""
    check_logs(names)
    place = _Place(folder, iterations, start)
    with ExitStack() as opened:
        logs = []
        for name in (name for name in LOGS if name in names):
            logs.append(LOGS[name](place))
            opened.callback(logs[-1].close)
        opened.pop_all()
    return Logs(logs)


def _cut(path: Path, start: int) -> None:
    """Shorten a file of metrics to its first lines."""
    if start > 0 and not path.exists():
        raise UsageError(
            f"there is no {path} with the iterations up to {start}: the run was not logged there, so go on "
            "with --log console alone, or restore the file"
        )
    ends = [0, *(end for _, end in itertools.islice(read_lines(path), start))]
    if len(ends) <= start:
        raise UsageError(
            f"{path} ends with iteration {len(ends) - 1}, but the run goes on after {start}: restore the file"
        )
    os.truncate(path, ends[start])


def _by_step(metrics: IterationMetrics) -> list[tuple[int, dict[str, float]]]:
    """Return the numbers of an iteration by step; an evaluation before the first one belongs to step 0."""
    numbers, before = metrics.scalars(), {}
    for name in [name for name in numbers if name.startswith("evaluation_before/")]:
        before[name.replace("evaluation_before", "evaluation")] = numbers.pop(name)
    return [*([(0, before)] if before else []), (metrics.iteration, numbers)]
