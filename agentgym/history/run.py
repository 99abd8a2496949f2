"""Reading the folder of a training run: configuration, and the metrics of each iteration."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.errors import UsageError
from agentgym.history.metrics import IterationMetrics
from agentgym.io.records import parse
from agentgym.io.untrusted import MAX_LINES_SIZE, read_file

CONFIG_FILE = "config.json"
MADE_WITH = "made_with"
"""Key of a configuration's versions and digests, beside the settings."""

CHECKPOINTS = "checkpoints"
"""Folder of a run's checkpoints."""

METRICS_FILE = "metrics.jsonl"
"""File of `IterationMetrics`, one a line, iteration 1 first. Numbers that JSON lacks are NaN and Infinity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """A training run, finished or not."""

    folder: Path
    algorithm: str
    env_id: str
    model: str
    seed: int
    settings: Mapping[str, Any]
    """Settings by dotted name, such as ``learner.learning_rate``, the four fields above included."""
    iterations: tuple[IterationMetrics, ...]
    """Metrics of each iteration, at least one."""


def has_begun(folder: Path) -> bool:
    """Return whether a run got as far as its first iteration; what failed before that is begun again."""
    metrics = folder / METRICS_FILE
    begun = (folder / CHECKPOINTS).exists() or (metrics.exists() and metrics.stat().st_size > 0)
    return begun and (folder / CONFIG_FILE).exists()


def restarts() -> bool:
    """Return whether ``torchrun --max-restarts`` starts processes again."""
    return int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0


def check_new(folder: Path) -> None:
    """Refuse a folder that holds a run, unless processes are started again."""
    if has_begun(folder) and not restarts():
        raise UsageError(f"{folder} holds a run already: resume it by --resume, or choose another folder")


def read_history(folder: Path) -> RunHistory:
    """Read a run's folder."""
    iterations = read_metrics(folder)
    if not iterations:
        raise UsageError(f"{folder / METRICS_FILE} is empty: no iteration of this run has ended yet")
    config = _read_config(folder / CONFIG_FILE)
    return RunHistory(folder=folder, iterations=tuple(iterations), **config)


def read_metrics(folder: Path) -> list[IterationMetrics]:
    """Read a run's log, in order; text after the last newline is still being written."""
    return [metrics for metrics, _ in read_lines(folder / METRICS_FILE)]


def read_lines(path: Path) -> Iterator[tuple[IterationMetrics, int]]:
    """Yield each complete line of a file of metrics, with the number of bytes up to its end."""
    end = 0
    for number, line in enumerate(_read(path).splitlines(keepends=True), start=1):
        if not line.endswith(b"\n"):
            return
        end += len(line)
        metrics = _parse_line(line, f"{path}, line {number}")
        if metrics.iteration != number:
            raise UsageError(
                f"{path}, line {number}: this is iteration {metrics.iteration}, expected {number}; "
                "restore the file as it was logged"
            )
        yield metrics, end


def _read(path: Path) -> bytes:
    return read_file(path, largest=MAX_LINES_SIZE, remedy="name the folder of a training run")


def _parse_line(line: bytes, where: str) -> IterationMetrics:
    try:
        table = json.loads(line)
    except (ValueError, RecursionError) as error:  # also for bytes that are not UTF-8; nesting too deep
        raise UsageError(f"{where}: not JSON ({error}); remove this line and those after it") from error
    return parse(IterationMetrics, table, where)


def _read_config(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON: {error}; restore it from the run's checkout") from error
    kinds = {"algorithm": str, "env_id": str, "model": str, "seed": int}
    for key, kind in kinds.items():
        if not isinstance(table, dict) or type(table.get(key)) is not kind:
            raise UsageError(f"{path} has no {key!r}; name the folder of a training run")
    given = {key: value for key, value in table.items() if key != MADE_WITH}
    return {**{key: table[key] for key in kinds}, "settings": dict(_flat("", given))}


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(f"{prefix}{key}.", value)
        else:
            yield prefix + key, value
