"""Log of another project's run, independent of its dialect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentgym.core.tools import Tool
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json_records


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """An action, and its result; None is missing from the log."""

    action: str
    observation: str | None = None
    reward: float | None = None
    done: bool | None = None
    valid: bool | None = None
    """Whether the environment accepted the action."""
    state_hash: str | None = None


@dataclass(frozen=True, slots=True)
class LoggedEpisode:
    """One episode of a log; but for ``where`` also the form of the dialect ``jsonl``."""

    where: str
    """Place of the episode in the log: ``FILE:LINE`` or the like."""
    steps: tuple[LoggedStep, ...]
    task: str = ""
    """Id, source id or path of the game; empty where only `observation` identifies the task."""
    observation: str | None = None
    """Observation before the first action."""
    score: float | None = None
    """Final score, in the benchmark's own unit."""
    success: bool | None = None


@dataclass(frozen=True, slots=True)
class LogDialect:
    """Log format of one project."""

    read: Callable[[Path, Sequence[Tool]], Sequence[LoggedEpisode]]
    """Function that reads a log; the suite's tools parse logged calls. It raises UsageError."""
    agrees: Callable[[str, str], bool]
    """Predicate: the log's observation (first) shows what the replay's (second) does."""
    environment: Callable[[Path], Mapping[str, Any]] = lambda path: {}
    """Function from a log to its ``env``, ``split`` and ``options``; empty where the log has none."""


def read_jsonl(path: Path, tools: Sequence[Tool]) -> Sequence[LoggedEpisode]:
    """Read episodes in the form of ``docs/imports.md``, an object each; UsageError names the wrong field."""
    return tuple(parse_episode(value, where) for where, value in read_json_records(path))


def parse_episode(value: Any, where: str) -> LoggedEpisode:
    """Make an episode from a table; UsageError where it does not fit."""
    return parse(LoggedEpisode, {**value, "where": where} if isinstance(value, dict) else value, where)


def one_line(text: str) -> str:
    """Return a text with its white space as single spaces."""
    return " ".join(text.split())


def same_text(theirs: str, ours: str) -> bool:
    """Compare observations but for white space."""
    return one_line(theirs) == one_line(ours)
