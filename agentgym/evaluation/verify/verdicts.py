"""Verdicts of verification, and this machine's cache of them.

A verdict that comes with a run proves nothing, since the run's author can write it. Boards read verdicts
from the user's own cache only, where each is filed under the digests of all it depends on.
"""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from agentgym.core.hashing import sha256_json
from agentgym.data.directory import cache_directory, data_directory
from agentgym.errors import UsageError
from agentgym.evaluation.log.recorded_answers import AnswerCheck
from agentgym.evaluation.log.results import Excluded
from agentgym.evaluation.log.stored_run import StoredRun
from agentgym.evaluation.suites.suite import Suite
from agentgym.evaluation.verify.code_digest import suite_code_sha256
from agentgym.evaluation.verify.model_check import ModelCheck
from agentgym.io.files import make_folder, replace_file
from agentgym.io.provenance import Provenance
from agentgym.io.records import parse
from agentgym.io.untrusted import read_json
from agentgym.registration import ENVIRONMENTS, suite_spec

VERDICT_SCHEMA = 3
"""Version of ``verify.json``."""

Badge: TypeAlias = Literal["claimed", "replayed", "model-checked", "re-run"]
"""Levels of verification, lowest first: none; the actions replayed; also the responses' probabilities
recomputed with the model; or the agent itself re-run with the same actions."""

BADGES: tuple[Badge, ...] = get_args(Badge)

Role: TypeAlias = Literal["floor", "oracle", "agent"]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing that is wrong with a run."""

    kind: Literal[
        "run",
        "request",
        "suite",
        "environment",
        "manifest",
        "agent",
        "unfinished",
        "file",
        "result",
        "record",
        "chain",
        "malformed",
        "missing",
        "unknown",
        "seed",
        "replay",
        "re-run",
        "transcript",
        "model",
        "answer",
    ]
    where: str
    detail: str

    def __str__(self) -> str:
        """One line."""
        return f"{self.kind}: {self.where}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Result of verification; the content of ``verify.json``, which nothing reads."""

    schema: int
    ok: bool
    badge: Badge
    """Level of verification that the run reached."""
    role: Role
    """Role of the run: floor or oracle only for the suite's agent after a re-run with equal actions."""
    problems: tuple[Mismatch, ...]
    episodes: int
    """Number of episodes checked."""
    steps: int
    """Number of steps checked."""
    suite_sha256: str
    """Digest of the suite that the run was compared with, `Suite.sha256`."""
    unsupported: tuple[Excluded, ...]
    """Environments that the agent does not play, each with the error from making it here."""
    missing: tuple[Excluded, ...]
    """Environments of the suite whose data both the run and this machine lack."""
    run_sha256: str
    """sha256 of the verified ``run.json``."""
    episodes_sha256: str
    """sha256 of the verified ``episodes.jsonl``."""
    code_sha256: str
    """Digest of the verifier's code, `suite_code_sha256`."""
    provenance: Provenance
    """Machine, versions and date of the verification."""
    model: ModelCheck | None = None
    """Result of recomputing the model's responses; None where they were not recomputed."""
    answers: AnswerCheck | None = None
    """Result of checking recorded answers; None where the run has none."""

    @property
    def earned(self) -> str:
        """Badge of the run, with its check of recorded answers."""
        return self.badge + (self.answers.badge if self.answers is not None else "")

    @property
    def text(self) -> str:
        """The file's content."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


class StoredVerdict:
    """This machine's own verdict on a run, in the cache, by all that it depends on.

    Of suites with environments of other packages, or with data outside the data directory, none is kept: they
    may change without a trace. Nor is any where the cache cannot be written.
    """

    def __init__(self, run: StoredRun):
        """Look nothing up yet: the digests are computed when they are first needed, and once."""
        self._run = run

    @cached_property
    def code_sha256(self) -> str:
        """Digest of the code that the verdict depends on."""
        return suite_code_sha256(self._run.suite, self._run.log.agent.kind)

    @cached_property
    def path(self) -> Path | None:
        """Its file; None where none is kept."""
        suite = self._run.suite
        named = [value for env in suite.env for value in env.kwargs.values() if isinstance(value, str)]
        if any(env.id not in ENVIRONMENTS for env in suite.env) or any(map(os.path.isabs, named)):
            return None
        depends_on = {
            "schema": VERDICT_SCHEMA,
            "files": self._run.digests,
            "suite": asdict(suite),
            "data": _data_state(suite),
            "code": self.code_sha256,
            "python": platform.python_version(),
            "numpy": np.__version__,
        }
        return cache_directory() / "verdicts" / f"{sha256_json(depends_on)}.json"

    def read(self) -> Verdict | None:
        """Return the verdict on the run's files as they were read, by this code; None without one."""
        if self.path is None or not self.path.is_file():
            return None
        try:
            return parse(Verdict, read_json(self.path), str(self.path))
        except UsageError:
            return None  # a damaged cache is no verdict

    def keep(self, verdict: Verdict) -> None:
        """Keep a verdict, unless a good one with a higher badge is there."""
        earlier = self.read()
        better = (
            earlier is None or not earlier.ok or BADGES.index(verdict.badge) >= BADGES.index(earlier.badge)
        )
        if self.path is not None and better:
            with suppress(UsageError):
                make_folder(self.path.parent)
                replace_file(self.path, verdict.text)


def _data_state(suite: Suite) -> list[list[Any]]:
    """Return name, size and time of every file of official data that a suite's environments may read."""
    folders = {source.folder for env in suite.env for source in suite_spec(env.id).sources}
    state = []
    for folder in folders:
        for place, inner, files in os.walk(data_directory() / folder):
            for path in (Path(place, name) for name in (*inner, *files)):
                found = path.stat(follow_symlinks=path.exists())
                state.append([ascii(str(path)), found.st_size, found.st_mtime_ns])
    return sorted(state)
