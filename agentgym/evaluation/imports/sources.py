"""Public logs of language models, as ``sources.toml`` lists them, and their files on this machine."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from agentgym.core.options import check_choice
from agentgym.data.directory import cache_directory, data_directory
from agentgym.data.fetching import Fetcher, find_copies
from agentgym.data.sources import SourceFile
from agentgym.evaluation.imports.importing import LogSource
from agentgym.evaluation.suites import suite_file
from agentgym.evaluation.suites.suite import Suite, SuiteEnv, load_suite
from agentgym.io.records import read_toml

SOURCES = Path(__file__).with_name("sources.toml")
"""File that lists public logs."""

FOLDER = "logs"
"""Folder of public logs in the data directory and in the cache."""


@dataclass(frozen=True, slots=True)
class PublicLog:
    """One published log; ``sources.toml`` explains the fields."""

    repository: str
    commit: str
    path: str
    size: int
    sha256: str
    licence: str
    agent: str
    model: str
    reported: str
    dialect: str
    suite: str = ""
    env: str = ""
    split: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    panel: str = ""
    panel_sha256: str = ""
    metric: Literal["success", "score"] = "success"
    note: str = ""

    @classmethod
    def named(cls, name: str) -> PublicLog:
        """Return a log of the list; UsageError with the nearest name where there is none."""
        known = read_toml(_PublicLogs, SOURCES).log
        check_choice("public log", name, known)
        return known[name]

    @property
    def origin(self) -> str:
        """Origin as boards state it."""
        return f"{self.model}, {self.path} of github.com/{self.repository} at {self.commit[:8]}"

    @property
    def file(self) -> SourceFile:
        """Address, size and digest of the file."""
        url = f"https://raw.githubusercontent.com/{self.repository}/{self.commit}/{self.path}"
        name = PurePosixPath(self.path).name
        return SourceFile((), name, (url,), check="V", size=self.size, sha256=self.sha256)

    @property
    def played(self) -> tuple[SuiteEnv, Suite | None]:
        """Environment, and the suite that the log is a run of, if it is of one."""
        if self.suite:
            suite = load_suite(suite_file(self.suite))
            return suite.env[0], suite
        label = self.env.rpartition("/")[2]
        shown: dict[str, Any] = {"metric": self.metric, "by_type": True}
        return SuiteEnv(self.env, label, self.split, tasks=0, kwargs=self.options, **shown), None

    def source(self, name: str, path: Path) -> LogSource:
        """Return the log at a path of this machine; ``name`` is that of the list."""
        panel = {"panel": self.panel, "panel_sha256": self.panel_sha256}
        return LogSource(path, self.dialect, self.agent, self.origin, public=name, **panel)


@dataclass(frozen=True, slots=True)
class _PublicLogs:
    log: Mapping[str, PublicLog]


def public_names() -> tuple[str, ...]:
    """Return the names of the list."""
    return tuple(read_toml(_PublicLogs, SOURCES).log)


def fetch_log(name: str, log: PublicLog, fetcher: Fetcher) -> Path:
    """Return the file of a log: from the data directory or the cache, or fetched into that; checked.

    UsageError where no mirror has it.
    """
    at = cache_directory() / FOLDER / log.sha256[:12] / log.file.name
    for path in (at, *find_copies(data_directory() / FOLDER, name, log.file)):
        if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == log.sha256:
            return path
    draft = at.with_name(f"{at.name}.part")
    fetcher.fetch(name, log.file, draft)
    draft.replace(at)
    return at
